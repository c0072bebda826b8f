"""Master plan: the pull requests that a Markdown plan names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<text>.+)$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])[ \t]+(?:\[(?P<tick>[ xX])\][ \t]+)?(?P<text>.+)$")
_NAMED = re.compile(
    r"^(?:\d+(?:\.\d+)*[.)]?\s+)?"
    r"(?:pull\s+request\b|pr(?=\s*(?:#|:|\d|[-\u2013\u2014])))"
    r"\s*(?:#?\s*\d[\w.]*)?[\s:.)\-\u2013\u2014]*(?P<title>.*)$",
    re.IGNORECASE,
)
_DONE = re.compile(r"\s*\[DONE\](?:\s+[0-9a-f]{7,64})?\s*#*\s*$", re.IGNORECASE)
_KIND = re.compile(r"^[a-z]+(?:\([^()]*\))?!?:\s*")


class PullRequest(Struct, frozen=True, kw_only=True):
    """A line that names a pull request."""

    line: int
    """From 0."""
    title: str
    is_done: bool


def pull_requests(plan: str) -> tuple[PullRequest, ...]:
    """Return the pull requests of a plan: its headings, or without any its list items."""
    lines = tuple(_outside_fences(plan))
    return tuple(_found(lines, _HEADING)) or tuple(_found(lines, _ITEM))


def _outside_fences(plan: str) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(plan.splitlines()):
        mark = _FENCE.match(line)
        if mark is not None:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence:
            yield number, line


def _found(lines: tuple[tuple[int, str], ...], form: re.Pattern[str]) -> Iterator[PullRequest]:
    for number, line in lines:
        match = form.match(line)
        named = match and _NAMED.match(_DONE.sub("", match["text"]).replace("**", "").strip())
        if match and named:
            is_ticked = match.groupdict().get("tick") in ("x", "X")
            is_done = is_ticked or _DONE.search(match["text"]) is not None
            yield PullRequest(line=number, title=named["title"].strip(" *_#"), is_done=is_done)


def is_done(plan: str) -> bool:
    """Tell whether a plan names pull requests and all are done."""
    named = pull_requests(plan)
    return bool(named) and all(each.is_done for each in named)


def _bare(title: str) -> str:
    """Return the words of a title in lower case, without the kind of change."""
    return " ".join(re.findall(r"\w+", _KIND.sub("", title.strip("#`*_ ").casefold())))


def plan_problem(path: str, plan: str | None) -> str:
    """Return why a plan names no pull requests; empty if it does."""
    if plan is None:
        return f"The base branch has no `{path}`."
    if pull_requests(plan):
        return ""
    return f"No pull request can be recognised in `{path}`; give each a heading such as `### Pull Request #1: TITLE`."


def title_problem(plan: str, title: str) -> str:
    """Return why a title is not an open pull request of the plan; empty where the plan names none."""
    named = pull_requests(plan)
    left = [each.title for each in named if not each.is_done]
    if not named or any(_fits(each, title) for each in left):
        return ""
    wanted = ", ".join(f"`{each[:200]}`" for each in left[:20]) or "nothing"
    return f"`prTitle` must be the title of a pull request that the master plan has not marked as done: {wanted}."


def mark_problem(before: str, after: str, title: str, commit: str) -> str:
    """Return what is wrong with the mark: exactly the heading of the pull request must end with its commit."""
    old, new = before.splitlines(), after.splitlines()
    differing = [number for number, lines in enumerate(zip(old, new, strict=False)) if lines[0] != lines[1]]
    if len(old) != len(new) or len(differing) != 1:
        return f"Change exactly one line of the master plan: the heading of `{title}`."
    line = differing[0]
    marked = re.fullmatch(r"(.*?)\s+\[DONE\]\s+([0-9a-f]{7,64})\s*", new[line])
    if marked is None or not commit.startswith(marked[2]) or _unticked(marked[1]) != _unticked(old[line].rstrip()):
        return f"Only add this to the end of the line: [DONE] {commit}"
    return "" if _names(before, line, title) else f"That line is not the heading of `{title}`."


def _unticked(line: str) -> str:
    return re.sub(r"^(\s*(?:[-*+]|\d+[.)])[ \t]+)\[[xX]\]", r"\1[ ]", line)


def _names(plan: str, line: int, title: str) -> bool:
    named = pull_requests(plan)
    if not named:
        text = plan.splitlines()[line]
        return text.lstrip().startswith("#") and _fits(text, title)
    return any(each.line == line and not each.is_done and _fits(each.title, title) for each in named)


def _fits(heading: str, title: str) -> bool:
    """Tell whether one contains the words of the other in order; a heading without a title fits any."""
    named, given = f" {_bare(heading)} ", f" {_bare(title)} "
    return named in given or given in named or not named.strip()

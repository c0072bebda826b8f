"""Checks of configuration texts: branch names, paths, patterns, words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from aop.core.errors import PathOutOfBounds
from aop.core.paths.names import BadPattern, Matching, exact_path, parse_area, parse_planned

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")
_ERROR_CODE = re.compile(r"[a-z][a-z0-9_]*")
# What `git check-ref-format --branch` refuses.
_NOT_IN_BRANCHES = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\A[-/.]|[/.]\Z")
_ALLOWED_SIGNER = re.compile(
    r"[^\s#]\S*"  # the names
    r"(?:[ \t]+[a-zA-Z-]+(?:=\"[^\"]*\")?(?:,[a-zA-Z-]+(?:=\"[^\"]*\")?)*)?"  # the options
    r"[ \t]+(?:ssh|sk-ssh|ecdsa|sk-ecdsa)-[a-z0-9@.-]+[ \t]+[A-Za-z0-9+/]+={0,3}(?:[ \t]+[^\r\n]*)?"
)
_NOT_IN_ARGUMENTS = re.compile(r"[\x00\r\n]")


class Misfit(ValueError):
    """A value of the right type that means nothing, and the path from the object that noticed it."""

    def __init__(self, why: str, *path: str | int) -> None:
        super().__init__(why)
        self.path = path


def demand(flaw: str | None, *path: str | int) -> None:
    """Raises: Misfit if there is a flaw."""
    if flaw:
        raise Misfit(flaw, *path)


def demand_each(flaw_in: Callable[[str], str | None], texts: Iterable[str], *path: str | int) -> None:
    """Raises: Misfit for the first text with a flaw."""
    for index, text in enumerate(texts):
        demand(flaw_in(text), *path, index)


def in_area(text: str, matching: Matching) -> str | None:
    """Return why the text is not an area of the repository (P11)."""
    try:
        parse_area(text, matching)
    except BadPattern as problem:
        return problem.reason
    return None


def in_glob(text: str) -> str | None:
    """Return why the text is not a glob; `path_rules.matching` does not count here."""
    return in_area(text, Matching.GLOB)


def in_path(text: str) -> str | None:
    """Return why the text is not a plain path from the root of the repository."""
    try:
        exact_path(text)
    except PathOutOfBounds as refusal:
        return f"it must be a plain path from the root of the repository: {refusal.facts['reason']}"
    return None


def in_planned_path(text: str) -> str | None:
    """Return why the text is neither a plain path from the root of the repository nor a glob of such."""
    try:
        planned = parse_planned(text)
    except (PathOutOfBounds, BadPattern) as problem:
        return f"it must be a path or a glob from the root of the repository: {problem}"
    return "it must name files, not a folder" if planned.text.endswith("/") else None


def in_allowed_signer(text: str) -> str | None:
    """Return why the text is not a line of OpenSSH's allowed signers."""
    if _ALLOWED_SIGNER.fullmatch(text) and text.isprintable():
        return None
    return (
        "it must be `NAME KEYTYPE KEY`, as in ssh-keygen's file of allowed signers: ada@example.com ssh-ed25519 AAAA..."
    )


def in_folder(text: str) -> str | None:
    """Return why the text is not a folder of this machine."""
    if not text.startswith(("/", "~/")):
        return "a folder of this machine is written from `/` or from `~/`"
    return "it has `..` or a control character in it" if ".." in text.split("/") or not text.isprintable() else None


def in_branch(text: str) -> str | None:
    """Return why the text is not a branch name."""
    if text in ("", "@", "HEAD") or text.startswith("refs/"):
        return "it is not the plain name of a branch"
    return "git does not allow such a name for a branch" if _NOT_IN_BRANCHES.search(text) else None


def in_variable(text: str) -> str | None:
    """Return why the text is not the name of an environment variable."""
    return None if _ENV_NAME.fullmatch(text) else "it is not the name of an environment variable"


def in_tool(text: str) -> str | None:
    """Return why the text is not a tool name; the catalogue knows whether the tool exists."""
    return None if _TOOL_NAME.fullmatch(text) else "it is not the name of a tool"


def in_code(text: str) -> str | None:
    """Return why the text is not an error code."""
    return None if _ERROR_CODE.fullmatch(text) else "it is not an error code, such as `gate_timeout`"


def in_stem(text: str) -> str | None:
    """Return why the text cannot be part of a file's name."""
    if _FILE_STEM.fullmatch(text):
        return None
    return "it becomes part of file names: at most 64 letters, digits, `.`, `_`, `-`, with a letter or digit first"


def in_argument(text: str) -> str | None:
    """Return why the text is not an argument of a command (G41)."""
    if text and not _NOT_IN_ARGUMENTS.search(text):
        return None
    return "an argument cannot be empty, and cannot hold a NUL or a line end"


def in_word(text: str) -> str | None:
    """Return why the text is not a readable name."""
    return None if text and text.isprintable() and text == text.strip() else "it is not one line of visible text"

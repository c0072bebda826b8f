"""`aop comments`: your drafts, and all comments that were sent."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.kernel.tools.feature.comments import Comments, PlacedComment
from aop.web.comment_view import fate_text, standing_text, subject_of_comment


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the comments, oldest first."""
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "feature.comments", {"feature_id": arguments.feature})
    empty = f"There are no comments. Write one with: aop comment {arguments.feature} TEXT --file PATH --lines A-B"
    found = msgspec.convert(answer.data, Comments)
    return terminal.result(answer.data, "\n".join(_lines(found)), empty=empty)


def _lines(found: Comments) -> Iterator[str]:
    for each in found.sent:
        yield from _comment(each, f"sent {each.comment.asked_at} by {visible(each.comment.asked_by)}")
        yield f"    {visible(' '.join(standing_text(each).split()))}"
        if fate := fate_text(each):
            yield f"    {fate}"
    for each in found.drafts:
        yield from _comment(each, standing_text(each))
    if found.drafts:
        yield f"{count(len(found.drafts), 'draft')} of yours. Send with: aop request-changes {found.feature_id}"
    if found.drafts_of_others:
        yield f"Other people have {count(found.drafts_of_others, 'draft')}."


def _comment(each: PlacedComment, state: str) -> Iterator[str]:
    comment = each.comment
    yield f"{comment.number}  {subject_of_comment(comment)}; {state}"
    yield from (f"    {visible(line)}" for line in comment.text.split("\n"))
    yield from (f"    > {visible(line)}" for line in comment.quoted.split("\n") if comment.quoted)

"""Comments on the pages: below the rows of the diff, beside it, and their forms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from starlette.datastructures import QueryParams

from aop.core.errors import PersonRequired
from aop.kernel.features.requests.comment_places import range_of
from aop.kernel.tools.feature.comments import Comments, PlacedComment
from aop.web.pages.feature.diff.diff_files import FileDiff, anchor_of
from aop.web.pages.frame import ToolRefused, Visit

WITHHELD = "Comments are for people, and an agent started this server. Start one from your own terminal: aop web"
_WISH = re.compile(r"([0-9a-f]{8})(?:-([no])([1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?)?")


class CommentForm(Struct, frozen=True, kw_only=True):
    """The form that is open: the lines or the clause that a new comment is about."""

    file: str = ""
    lines: str = ""
    side: str = "new"
    clause: str = ""


class RowTalk(Struct, frozen=True, kw_only=True):
    """The comments and the form below one row of the diff."""

    comments: tuple[PlacedComment, ...] = ()
    form: CommentForm | None = None


class Talk(Struct, frozen=True, kw_only=True):
    """The comments of a page: those below rows, and all others."""

    comments: Comments
    prefix: str
    """The address of the form for a row begins with it."""
    back: str
    """The address of the page without a form."""
    rows: Mapping[str, RowTalk] = {}
    """By the anchor of the file and the place of the row."""
    elsewhere: tuple[PlacedComment, ...] = ()
    """Those that were sent and stand below no row that is shown."""
    form: CommentForm | None = None
    """The form that stands below no row."""
    withheld: str = ""
    """Why no comments are shown; empty if they are."""


class FoundComments(Struct, frozen=True, kw_only=True):
    """The comments that a visitor may read, or why there are none to read."""

    comments: Comments
    withheld: str = ""


def read_comments(visit: Visit, feature_id: str) -> FoundComments:
    """Return the visitor's drafts and all comments that were sent. Raises: ToolRefused.

    Comments are for people. At a server that an agent started, the page shows everything else.
    """
    try:
        return FoundComments(
            comments=msgspec.convert(visit.ask("feature.comments", {"feature_id": feature_id}), Comments)
        )
    except ToolRefused as refused:
        if refused.error["code"] != PersonRequired.code:
            raise
    nothing = Comments(feature_id=feature_id, tree="", drafts=(), sent=(), drafts_of_others=0)
    return FoundComments(comments=nothing, withheld=WITHHELD)


def talk_about_plan(read: FoundComments, query: QueryParams, page: str) -> Talk:
    """Return the comments of the page of the plan; each row is a clause."""
    found = read.comments
    wish = query.get("comment", "")[:40]
    rows = {
        clause: RowTalk(comments=_on_clause(found, clause))
        for clause in {each.place.clause for each in (*found.sent, *found.drafts)}
    }
    if wish:
        known = rows.get(wish, RowTalk())
        rows[wish] = msgspec.structs.replace(known, form=CommentForm(clause=wish))
    elsewhere = tuple(each for each in found.sent if each.comment.clause and each.place.outdated)
    return Talk(comments=found, prefix="?comment=", back=page, rows=rows, elsewhere=elsewhere, withheld=read.withheld)


def _on_clause(found: Comments, clause: str) -> tuple[PlacedComment, ...]:
    return tuple(each for each in (*found.sent, *found.drafts) if clause and each.place.clause == clause)


def talk_about_diff(read: FoundComments, files: Sequence[FileDiff], query: QueryParams, back: str) -> Talk:
    """Return the comments of the review: below the last of their lines, if that row is shown."""
    found = read.comments
    shown = dict(place for file in files for place in _places(file))
    rows: dict[str, RowTalk] = {}
    elsewhere: list[PlacedComment] = []
    for each in (*found.sent, *found.drafts):
        row = shown.get(_place_of(each))
        if row is not None:
            known = rows.get(row, RowTalk())
            rows[row] = msgspec.structs.replace(known, comments=(*known.comments, each))
        elif each.standing != "draft":
            elsewhere.append(each)
    form, place = _form(query.get("comment", ""), files)
    row = shown.get(place)
    if form is not None and row is not None:
        rows[row] = msgspec.structs.replace(rows.get(row, RowTalk()), form=form)
    return Talk(
        comments=found,
        prefix=f"?{back.partition('?')[2]}{'&' if '?' in back else ''}comment=",
        back=back,
        rows=rows,
        elsewhere=tuple(elsewhere),
        form=form if row is None else None,
        withheld=read.withheld,
    )


def _places(file: FileDiff) -> Iterator[tuple[str, str]]:
    """Return the places of the rows that are shown, each with its row; an unchanged line has one on each side."""
    for block in file.blocks:
        sides = (row for pair in block.pairs for row in (pair.left, pair.right) if row is not None)
        for row in (*block.rows, *sides):
            key = f"{file.anchor}-{row.at}"
            if row.old:
                yield f"{file.anchor}-o{row.old}", key
            if row.new:
                yield f"{file.anchor}-n{row.new}", key


def _place_of(each: PlacedComment) -> str:
    if not (each.place.file and each.place.lines):
        return ""
    side = "o" if each.comment.side == "old" else "n"
    return f"{anchor_of(each.place.file)}-{side}{range_of(each.place.lines)[1]}"


def _form(wish: str, files: Sequence[FileDiff]) -> tuple[CommentForm | None, str]:
    """Return the form that an address asks for, and the place of its last line; anything else is ignored."""
    match = _WISH.fullmatch(wish)
    path = next((file.file.path for file in files if match and file.anchor == match[1]), None)
    if match is None or path is None:
        return None, ""
    first, last = sorted((int(match[3] or 0), int(match[4] or match[3] or 0)))
    lines = "" if not last else str(last) if first == last else f"{first}-{last}"
    side = "old" if match[2] == "o" else "new"
    return CommentForm(file=path, lines=lines, side=side), f"{match[1]}-{side[0]}{last}" if last else ""

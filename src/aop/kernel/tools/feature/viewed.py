"""Tool `feature.mark_viewed`: a person has looked at the change of a file."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments
from aop.kernel.features.tree.viewed_files import ViewedMark, change_id, store_mark, viewed_marks
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.port import Transaction


class MarkViewedArguments(ChangeArguments, frozen=True, kw_only=True):
    change: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    """The change of a file, as `repo.diff_bundle` names it."""
    viewed: bool = True
    """False takes the mark back."""


class ViewedCount(Struct, frozen=True, kw_only=True):
    feature_id: str
    path: str
    """The file that the change is of."""
    viewed: int
    """The number of changed files that are marked as viewed, as they are now."""
    files: int
    """The number of changed files."""


def mark_viewed(call: Call, arguments: MarkViewedArguments) -> Outcome:
    """Mark the change of a file as viewed; the mark ends when the change does."""
    git = call.kernel.git

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        changes = git.objects.changes(git.objects.tree_of(state.base_commit), state.tree)
        paths = {change_id(change): change.path for change in changes}
        if arguments.change not in paths:
            raise InvalidArguments(
                f"No file of `{state.feature_id}` has this change; the feature moved on.",
                hint="Look at the change that it has now, with `repo.diff_bundle`.",
                tool=call.tool.name,
            )
        path = call.kernel.redact.mask_secrets(paths[arguments.change])
        mark = ViewedMark(by=call.principal.actor, at=call.kernel.now())
        store_mark(tx, state.feature_id, arguments.change, mark if arguments.viewed else None)
        kind = "file_viewed" if arguments.viewed else "file_not_viewed"
        tx.append(call.event(kind, state.feature_id, path=path, change=arguments.change))
        marks = viewed_marks(tx, state.feature_id)
        return ViewedCount(
            feature_id=state.feature_id, path=path, viewed=sum(name in marks for name in paths), files=len(paths)
        )

    return call.commit(decide)


TOOLS = (
    Tool(
        name="feature.mark_viewed",
        summary="Mark the change of a file as viewed by a person, until that change is another one.",
        arguments=MarkViewedArguments,
        output=ViewedCount,
        roles=COORDINATORS,
        run=mark_viewed,
        mutates=True,
        person_only=True,
    ),
)

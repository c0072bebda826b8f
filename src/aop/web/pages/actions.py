"""Actions: the forms of the pages; each calls the tool that its command calls."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.core.errors import Json, PageFormInvalid
from aop.kernel.gateway.calls import Envelope
from aop.kernel.merges.approval_tokens import token_for
from aop.kernel.record.documents.approvals import Approval
from aop.web.pages.page_door import PageDoor, Visitor

LARGEST_FORM = 256 * 1024
OPERATION_FIELD = "operation_id"
BACK_FIELD = "back"


class Action(Struct, frozen=True, kw_only=True):
    """A form: the tool that it calls, and the fields that become arguments."""

    tool: str
    fields: tuple[str, ...] = ("feature_id",)
    optional: tuple[str, ...] = ()
    """Fields that are left out if they are empty."""


ACTIONS: Mapping[str, Action] = {
    "answer": Action(tool="inbox.answer", fields=("feature_id", "question_id", "answer")),
    "approve": Action(tool="feature.approve", fields=("feature_id", "tree", "base")),
    "merge": Action(tool="feature.ready_to_merge", fields=("feature_id",), optional=("commit_message",)),
    "request-changes": Action(
        tool="feature.request_changes", fields=("feature_id", "text"), optional=("file", "lines")
    ),
    "reject": Action(tool="feature.reject", fields=("feature_id", "text")),
    "retry": Action(tool="feature.retry"),
    "undo": Action(tool="feature.undo", optional=("to",)),
    "pause": Action(tool="run.pause", fields=(), optional=("feature_id",)),
    "resume": Action(tool="run.resume", fields=(), optional=("feature_id",)),
}


def act(door: PageDoor, visitor: Visitor, name: str, fields: Mapping[str, str]) -> Envelope:
    """Do what a form asks for, once for each time that it was drawn. Raises: PageFormInvalid."""
    action = ACTIONS[name]
    missing = [each for each in (*action.fields, OPERATION_FIELD) if not fields.get(each, "").strip()]
    if missing:
        raise PageFormInvalid(f"The form lacks {', '.join(missing)}.")
    arguments: dict[str, Json] = {each: fields[each] for each in action.fields}
    arguments |= {each: fields[each] for each in action.optional if fields.get(each)}
    if name == "merge":
        arguments["user_approval_token"] = _approval_token(door, fields["feature_id"])
    return door.ask(visitor, action.tool, arguments, operation_id=fields[OPERATION_FIELD])


def _approval_token(door: PageDoor, feature_id: str) -> str | None:
    """Return the token of the newest approval of a feature; the merge decides whether it still holds."""
    with door.kernel.record.read() as view:
        given = [each for each in view.all(Approval) if each.feature_id == feature_id]
    newest = max(given, key=lambda each: (each.approved_at, each.approval_id), default=None)
    return None if newest is None else token_for(newest, door.kernel.signer)


def way_back(fields: Mapping[str, str]) -> str:
    """Return the page to which a form leads back: one of this server."""
    back = fields.get(BACK_FIELD, "/")
    is_own = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable()
    return back if is_own else "/"

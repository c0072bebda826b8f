"""Actions: the forms of the pages; each calls the tool that its command calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.digests import sha256_hex
from aop.core.errors import Fault, Json, NoSupervisor, PageFormInvalid, PersonRequired, SupervisorRunning
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal, refuse_agent
from aop.kernel.merges.approval_tokens import token_for
from aop.kernel.record.documents.approvals import Approval
from aop.web.pages.page_door import PageDoor, Visitor
from aop.wiring.spec_intake import place_specs, written_spec
from aop.wiring.supervisor_lease import lease_holder, leases_of, stop_supervisor

LARGEST_FORM = 256 * 1024
OPERATION_FIELD = "operation_id"
BACK_FIELD = "back"
SHARED_FIELD = "shared"
"""A field of a form whose buttons belong to several features."""


class Action(Struct, frozen=True, kw_only=True):
    """A form: the tool that it calls, and the fields that become arguments."""

    tool: str
    fields: tuple[str, ...] = ("feature_id",)
    optional: tuple[str, ...] = ()
    """Fields that are left out if they are empty."""
    numbers: tuple[str, ...] = ()
    """Fields that are numbers."""
    replaced: str = ""
    """The field whose text takes the place of the one before, and may be empty; sent again, it is another change."""
    fixed: Mapping[str, Json] = {}
    """Arguments that are the same whatever the form says."""


ACTIONS: Mapping[str, Action] = {
    "answer": Action(tool="inbox.answer", fields=("feature_id", "question_id", "answer")),
    "approve": Action(tool="feature.approve", fields=("feature_id", "tree", "base")),
    "merge": Action(tool="feature.ready_to_merge", fields=("feature_id",), optional=("commit_message",)),
    "request-changes": Action(tool="feature.request_changes", optional=("text", "file", "lines")),
    "comment": Action(
        tool="feature.comment",
        fields=("feature_id", "text"),
        optional=("file", "lines", "side", "clause", "tree"),
    ),
    "comment-edit": Action(
        tool="feature.comment_edit", fields=("feature_id", "number", "text", "revision"), numbers=("number", "revision")
    ),
    "comment-delete": Action(tool="feature.comment_delete", fields=("feature_id", "number"), numbers=("number",)),
    "reject": Action(tool="feature.reject", fields=("feature_id", "text")),
    "viewed": Action(tool="feature.mark_viewed", fields=("feature_id", "change")),
    "not-viewed": Action(tool="feature.mark_viewed", fields=("feature_id", "change"), fixed={"viewed": False}),
    "retry": Action(tool="feature.retry"),
    "stop": Action(tool="feature.stop"),
    "mark-failure": Action(tool="failures.mark", fields=("fingerprint",), optional=("note",)),
    "undo": Action(tool="feature.undo", optional=("to",)),
    "build-pause": Action(tool="forge.build_pause", fields=("build_id",)),
    "build-resume": Action(tool="forge.build_resume", fields=("build_id",)),
    "dismiss-error": Action(tool="forge.error_dismiss", fields=("build_id", "error_id")),
    "interject": Action(tool="forge.build_interject", fields=("build_id", "text")),
    "note": Action(tool="forge.note_put", fields=("project_id",), replaced="content"),
    "guide": Action(tool="gated.resume", fields=("feature_id", "guidance")),
    "pause": Action(tool="run.pause", fields=(), optional=("feature_id",)),
    "resume": Action(tool="run.resume", fields=(), optional=("feature_id",)),
}


TICKET_KINDS = ("scaffold", "review")
TICKET_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.#/-]{0,99}")


class CommandAnswer(Struct, frozen=True, kw_only=True):
    """The text that a command prints with `--json`."""

    ok: bool
    data: Any = None
    error: Mapping[str, Any] | None = None


class IntakePerson(Struct, frozen=True, kw_only=True):
    """A person at the pages who hands in a spec."""

    gateway: Gateway
    person: Principal
    root: Path


def add_spec(door: PageDoor, visitor: Visitor, fields: Mapping[str, str]) -> Envelope:
    """Place a spec as `aop new` does, and request work on it as `aop add` does. Raises: Refusal."""
    _refuse_missing(fields, "text")
    desk = IntakePerson(gateway=door.gateway, person=visitor.principal, root=door.root)
    operation = fields[OPERATION_FIELD]
    intake = written_spec(desk, fields["text"], source="page", name=fields.get("name", "").strip() or None)
    place_specs(desk, intake, operation_id=operation)
    (name,) = intake.texts
    wanted: dict[str, Json] = {"feature_id": name, "depends_on": list(intake.depends_on.get(name, ()))}
    return door.ask(visitor, "run.add", wanted, operation_id=f"{operation}-add")


def stop_run(door: PageDoor, visitor: Visitor, fields: Mapping[str, str]) -> Envelope:
    """End the supervisor as `aop stop` does. Raises: PersonRequired, NoSupervisor, SupervisorRunning."""
    _refuse_missing(fields)
    refuse_agent("Stopping the supervisor", visitor.principal)
    if stop_supervisor(leases_of(door.root, door.kernel.record)) is None:
        raise NoSupervisor("No supervisor is running in this repository.")
    return Envelope(ok=True)


def start_run(door: PageDoor, visitor: Visitor, fields: Mapping[str, str]) -> Envelope:
    """Continue unfinished work as `aop resume` does, with the settings of the newest run. Raises: Refusal.

    The supervisor is a process of its own: this server asks no model.
    """
    _refuse_missing(fields)
    holder = lease_holder(door.root, door.kernel.record)
    if holder is not None:
        raise SupervisorRunning(f"A supervisor is already running: process {holder.pid}.", pid=holder.pid)
    return _run(door, visitor, "Starting a run", "resume")


def dry_run_ticket(door: PageDoor, visitor: Visitor, fields: Mapping[str, str]) -> Envelope:
    """Try a ticket as `aop ticket KIND KEY --dry-run` does: nothing is written. Raises: Refusal."""
    _refuse_missing(fields, "kind", "ticket")
    kind, key = fields["kind"], fields["ticket"].strip()
    if kind not in TICKET_KINDS or not TICKET_KEY.fullmatch(key):
        raise PageFormInvalid("This is not the key of a ticket; one looks like SHOP-7.")
    return _run(door, visitor, "A dry run", "ticket", kind, key, "--dry-run")


def _run(door: PageDoor, visitor: Visitor, what: str, *words: str) -> Envelope:
    """Run a command of AOP, and return what it answers. Raises: PersonRequired, Fault."""
    refuse_agent(what, visitor.principal)
    command = f"`aop {' '.join(words)}`"
    if door.run_command is None:
        raise PersonRequired(f"{what} is for a person at a terminal here.", hint=f"Run {command}.")
    try:
        answer = msgspec.json.decode(door.run_command(words), type=CommandAnswer)
    except msgspec.DecodeError as error:
        raise Fault(f"{command} gave no answer; its log is .aop/supervisor.log") from error
    return Envelope(ok=answer.ok, data=answer.data, error=None if answer.ok else answer.error)


OWN_ACTIONS: Mapping[str, Callable[[PageDoor, Visitor, Mapping[str, str]], Envelope]] = {
    "add-spec": add_spec,
    "stop-run": stop_run,
    "start-run": start_run,
    "dry-run": dry_run_ticket,
}
"""The forms that do more than to call one tool."""


def act(door: PageDoor, visitor: Visitor, name: str, fields: Mapping[str, str]) -> Envelope:
    """Do what a form asks for, once for each time that it was drawn. Raises: PageFormInvalid."""
    if name in OWN_ACTIONS:
        return OWN_ACTIONS[name](door, visitor, fields)
    action = ACTIONS[name]
    _refuse_missing(fields, *action.fields)
    arguments: dict[str, Json] = {each: fields[each] for each in action.fields}
    arguments |= action.fixed
    arguments |= {each: fields[each] for each in action.optional if fields.get(each)}
    for each in action.numbers:
        if not (fields[each].isascii() and fields[each].isdigit()):
            raise PageFormInvalid(f"The field {each} is not a number.")
        arguments[each] = int(fields[each][:9])
    if action.replaced:
        arguments[action.replaced] = fields.get(action.replaced, "")
        return door.ask(visitor, action.tool, arguments)
    if name == "merge":
        arguments["user_approval_token"] = _approval_token(door, fields["feature_id"])
    operation = (
        f"{fields[OPERATION_FIELD]}-{action_digest(name, fields)}"
        if SHARED_FIELD in fields
        else fields[OPERATION_FIELD]
    )
    return door.ask(visitor, action.tool, arguments, operation_id=operation)


def action_digest(name: str, fields: Mapping[str, str]) -> str:
    """Return what tells the buttons of one form apart: each takes effect once."""
    return sha256_hex(f"{name} {fields.get('feature_id', '')}".encode())[:12]


def _refuse_missing(fields: Mapping[str, str], *names: str) -> None:
    missing = [each for each in (*names, OPERATION_FIELD) if not fields.get(each, "").strip()]
    if missing:
        raise PageFormInvalid(f"The form lacks {', '.join(missing)}.")


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

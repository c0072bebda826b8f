"""Tools for a person's objections: changes requested, the approach rejected."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import FileNotFound, InvalidArguments, Json
from aop.core.ids import TreeId
from aop.core.paths.names import canonical_path
from aop.core.roles import Role
from aop.core.structs import copy_fields
from aop.core.text.counts import count
from aop.core.text.suggestions import did_you_mean
from aop.kernel.features.change_requests import ChangeRequest, RequestKind, add_request, mark_given
from aop.kernel.features.lifecycle import back_to_building, refuse_build, require_status, with_status
from aop.kernel.features.questions import LARGEST_TEXT
from aop.kernel.features.trees import masked_bytes
from aop.kernel.features.work_requests import request_work
from aop.kernel.features.worktree_hold import held_feature, unchanged_feature
from aop.kernel.gates.qa_index import renew_index
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, committed, feature_named, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS, SYSTEM
from aop.kernel.plans.waiting_queue import store_and_release
from aop.kernel.ports.git import FileMode, TreeEntry
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Transaction

LARGEST_QUOTE = 8_000
LINES = "^[1-9][0-9]{0,6}(-[1-9][0-9]{0,6})?$"
AFTER_ITS_PLAN = (Status.BUILDING, Status.QA, Status.READY_TO_MERGE, Status.BLOCKED)
_FILES = (FileMode.FILE, FileMode.EXECUTABLE)


class ObjectionArguments(ChangeArguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=LARGEST_TEXT)]
    """The objection, for the agent that takes the next turn; secrets in it are masked."""


class RequestChangesArguments(ObjectionArguments, frozen=True, kw_only=True):
    file: str | None = None
    """The file of the feature's tree that it is about; null for the whole feature."""
    lines: Annotated[str, Meta(pattern=LINES)] | None = None
    """The lines of that file: `7`, or `3-5`; null for the whole file."""


class ObjectionResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    """The status in which it continues."""
    was: Status
    request: ChangeRequest
    """The request as it is stored, with the quoted lines."""
    before: str
    """The tree when the person objected; after a rejection it stays reachable under `refs/aop/undone/`."""
    open_questions: tuple[str, ...]
    """The ids of questions that must be answered before an agent takes the next turn."""


@committed
def request_changes(call: Call, arguments: RequestChangesArguments, tx: Transaction) -> Outcome:
    """Ask the next builder for changes; the approach stays, approvals become void."""
    state = the_feature(tx, arguments)
    refuse_build(state, "it has no plan that could be changed")
    require_status(state, *AFTER_ITS_PLAN, to="be changed on request")
    objection = _objection(call, arguments, state, "changes")
    if arguments.file is not None:
        objection = _with_quote(call.kernel, objection, arguments.file, arguments.lines)
    elif arguments.lines is not None:
        raise InvalidArguments("The lines are given without a file.", hint="Name the file too.", tool=call.tool.name)
    request = add_request(tx, state.feature_id, objection)
    stored = _store_set_back(tx, call, state, back_to_building(state, reason="A person requested changes."))
    facts: dict[str, Json] = {name: getattr(request, name) for name in ("number", "text", "file", "lines", "tree")}
    tx.append(call.event("changes_requested", state.feature_id, **facts))
    return _result(tx, call, state, stored, request)


def reject(call: Call, arguments: ObjectionArguments) -> Outcome:
    """Reject the approach: the feature is planned again from its base, and its tree stays under a ref."""
    kernel = call.kernel
    with held_feature(kernel, arguments) as state:
        refuse_build(state, "it has no plan that could be rejected")
        require_status(state, *AFTER_ITS_PLAN, to="be rejected")
        base = kernel.git.objects.tree_of(state.base_commit)
        # In a conflict with the base branch the work is set aside.
        work = state.set_aside.tree if state.set_aside else state.tree
        if work != base:
            kernel.git.branches.keep(state.feature_id, work, aside=True)

        def decide(tx: Transaction) -> Outcome:
            seen = unchanged_feature(tx, arguments, state)
            request = add_request(tx, seen.feature_id, _objection(call, arguments, seen, "rejection"))
            facts: dict[str, Json] = {
                "tree": base,
                "before": seen.tree,
                "number": request.number,
                "reason": request.text,
            }
            tx.append(call.event("feature_rejected", seen.feature_id, **facts))
            stored = _store_set_back(tx, call, seen, _back_to_planning(seen, base))
            accepted = tx.get(AcceptedPlan, seen.feature_id)
            renew_index(tx, stored, b"", accepted.plan if accepted else None, kernel.config())
            tx.mark_unshown("worktree", seen.feature_id)
            return _result(tx, call, seen, stored, request)

        return call.commit(decide)


def _objection(call: Call, arguments: ObjectionArguments, state: FeatureState, kind: RequestKind) -> ChangeRequest:
    text = call.kernel.redact(arguments.text).strip()
    if not text:
        raise InvalidArguments("The text is only white space.", tool=call.tool.name)
    return ChangeRequest(
        number=0, kind=kind, text=text, tree=state.tree, asked_by=call.principal.actor, asked_at=call.kernel.now()
    )


def _with_quote(kernel: Kernel, request: ChangeRequest, file: str, lines: str | None) -> ChangeRequest:
    """Return the request with a file and its quoted lines. Raises: FileNotFound, PathOutOfBounds, InvalidArguments."""
    path = canonical_path(file)
    named = kernel.redact.mask_secrets(path)
    entry = kernel.git.objects.entry(request.tree, path)
    if entry is None or entry.mode not in _FILES:
        known = (kernel.redact.mask_secrets(each.path) for each in kernel.git.objects.entries(request.tree))
        raise FileNotFound(f"The feature's tree has no file `{named}`.{did_you_mean(named, known)}", path=named)
    if lines is None:
        return msgspec.structs.replace(request, file=named)
    return msgspec.structs.replace(request, file=named, lines=lines, quoted=_quoted(kernel, entry, named, lines))


def _quoted(kernel: Kernel, entry: TreeEntry, named: str, lines: str) -> str:
    content = masked_bytes(kernel.git.objects.blob(entry.oid), kernel.redact)
    try:
        found = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InvalidArguments(
            f"`{named}` is not text; its lines cannot be named.", hint="Leave out `lines`."
        ) from error
    total = len(found) - (found[-1] == "")
    first, _, end = lines.partition("-")
    begin, last = int(first), int(end or first)
    if not begin <= last <= total:
        raise InvalidArguments(
            f"`{named}` has {count(total, 'line')}; there are no lines {lines}.", hint="Name lines that it has."
        )
    return "\n".join(found[begin - 1 : last])[:LARGEST_QUOTE]


def _back_to_planning(state: FeatureState, base: TreeId) -> FeatureState:
    reason = "A person rejected the approach."
    fresh = msgspec.structs.replace(state, tree=base, gates=reset_verdicts(state.gates), set_aside=None)
    if state.status is Status.BLOCKED:
        return with_status(fresh, Status.PLANNING, reason=reason)
    # No legal step leads back to `planning`; only a person's word does.
    return msgspec.structs.replace(fresh, status=Status.PLANNING, status_reason=reason)


def _store_set_back(tx: Transaction, call: Call, before: FeatureState, after: FeatureState) -> FeatureState:
    """Store a feature in an earlier status, and ask the supervisor to continue it."""
    request_work(tx, call, before.feature_id, again=True)
    return store_and_release(tx, call, before, after)


def _result(
    tx: Transaction, call: Call, before: FeatureState, stored: FeatureState, request: ChangeRequest
) -> ObjectionResult:
    asked = (each for each in tx.all(Question) if each.feature_id == stored.feature_id and each.is_open)
    return copy_fields(
        ObjectionResult,
        feature_named(tx, stored.feature_id),
        was=before.status,
        request=request,
        before=before.tree,
        open_questions=tuple(each.question_id for each in asked),
    )


class HandRequestsArguments(ChangeArguments, frozen=True, kw_only=True):
    worker: Role
    """The role that takes the turn."""


class HandRequestsResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    requests: tuple[ChangeRequest, ...]
    """The open requests that the turn has to follow, oldest first."""


@committed
def hand_requests(call: Call, arguments: HandRequestsArguments, tx: Transaction) -> Outcome:
    """Give the open requests for a role to the turn that begins now."""
    state = the_feature(tx, arguments)
    handed = mark_given(tx, state.feature_id, arguments.worker)
    numbers = [request.number for request in handed]
    tx.append(call.event("change_requests_given", state.feature_id, worker=arguments.worker, numbers=list(numbers)))
    return HandRequestsResult(feature_id=state.feature_id, requests=handed)


TOOLS = (
    Tool(
        name="feature.request_changes",
        summary="Ask for changes of a feature: the next builder's turn gets the text, with the lines that it is about.",
        arguments=RequestChangesArguments,
        output=ObjectionResult,
        roles=COORDINATORS,
        run=request_changes,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="feature.reject",
        summary="Reject the approach of a feature: the next planner's turn gets the reason, and work restarts.",
        arguments=ObjectionArguments,
        output=ObjectionResult,
        roles=COORDINATORS,
        run=reject,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="feature.hand_requests",
        summary="Give the open requests for a role to the turn that begins now.",
        arguments=HandRequestsArguments,
        output=HandRequestsResult,
        roles=SYSTEM,
        run=hand_requests,
        mutates=True,
        person_only=True,
    ),
)

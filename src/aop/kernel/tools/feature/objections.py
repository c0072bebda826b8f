"""Tools for a person's objections: changes requested, the approach rejected."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments, Json
from aop.core.ids import TreeId
from aop.core.roles import Role
from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import back_to_building, refuse_build, require_status, with_status
from aop.kernel.features.questions import LARGEST_TEXT
from aop.kernel.features.requests.change_requests import ChangeRequest, RequestKind, mark_given, send_requests
from aop.kernel.features.requests.drafts import drafts_of
from aop.kernel.features.requests.quotes import LINES, with_quote
from aop.kernel.features.work_requests import request_work
from aop.kernel.features.worktree_hold import held_feature, unchanged_feature
from aop.kernel.gates.qa_index import renew_index
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, feature_named, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS, SYSTEM
from aop.kernel.plans.waiting_queue import store_and_release
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Transaction

AFTER_ITS_PLAN = (Status.BUILDING, Status.QA, Status.READY_TO_MERGE, Status.BLOCKED)


class ObjectionArguments(ChangeArguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=LARGEST_TEXT)]
    """The objection, for the agent that takes the next turn; secrets in it are masked."""


class RequestChangesArguments(ChangeArguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=LARGEST_TEXT)] | None = None
    """The wanted change, beside the caller's drafts of comments, which are sent with it; needed without any drafts.
    Secrets in it are masked."""
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
    request: ChangeRequest | None
    """The request of the text as it is stored, with the quoted lines; null without a text."""
    sent: tuple[ChangeRequest, ...]
    """All that was sent at once: the caller's drafts, and the request of the text."""
    before: str
    """The tree when the person objected; after a rejection it stays reachable under `refs/aop/undone/`."""
    open_questions: tuple[str, ...]
    """The ids of questions that must be answered before an agent takes the next turn."""


@committed
def request_changes(call: Call, arguments: RequestChangesArguments, tx: Transaction) -> Outcome:
    """Send the caller's drafts and a text as one batch; the approach stays, approvals become void."""
    state = the_feature(tx, arguments)
    refuse_build(state, "it has no plan that could be changed")
    _require_plan(tx, state)
    own = _own_request(call, arguments, state)
    drafts = drafts_of(tx, state.feature_id, call.principal.actor)
    if own is None and not drafts:
        raise InvalidArguments(
            "There is nothing to send: no text, and no draft of yours.",
            hint="Write a text, or comments with `feature.comment`.",
            tool=call.tool.name,
        )
    sent = send_requests(tx, state, drafts, own, at=call.kernel.now())
    stored = _store_set_back(tx, call, state, _sent_back(state, sent))
    for request in sent:
        names = ("number", "text", "file", "lines", "tree", "clause", "batch")
        facts: dict[str, Json] = {name: getattr(request, name) for name in names}
        tx.append(call.event("changes_requested", state.feature_id, **facts))
    return _result(tx, call, state, stored, sent, has_text=own is not None)


def _require_plan(tx: Transaction, state: FeatureState) -> None:
    """Refuse a feature without a plan, or at its end. Raises: InvalidStatusTransition."""
    has_plan = state.status is Status.PLANNING and tx.get(AcceptedPlan, state.feature_id) is not None
    require_status(state, *AFTER_ITS_PLAN, *((Status.PLANNING,) if has_plan else ()), to="be changed on request")


def _own_request(call: Call, arguments: RequestChangesArguments, state: FeatureState) -> ChangeRequest | None:
    """Return the request that the arguments themselves make."""
    if arguments.file is None and arguments.lines is not None:
        raise InvalidArguments("The lines are given without a file.", hint="Name the file too.", tool=call.tool.name)
    if arguments.text is None:
        if arguments.file is not None:
            raise InvalidArguments("The file is given without a text.", hint="Say what to change.", tool=call.tool.name)
        return None
    objection = _objection(call, arguments.text, state, "changes")
    if arguments.file is None:
        return objection
    return with_quote(call.kernel, objection, arguments.file, arguments.lines)


def _sent_back(state: FeatureState, sent: tuple[ChangeRequest, ...]) -> FeatureState:
    """Return the feature for the planner if its plan is commented on, else for the builder."""
    reason = "A person requested changes."
    if state.status is Status.PLANNING:
        return msgspec.structs.replace(state, status_reason=reason)
    if any(request.kind == "plan" for request in sent):
        return _planning_again(state, "A person requested changes of the plan.")
    return back_to_building(state, reason=reason)


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
            objection = _objection(call, arguments.text, seen, "rejection")
            (request,) = send_requests(tx, seen, (), objection, at=call.kernel.now())
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
            return _result(tx, call, seen, stored, (request,))

        return call.commit(decide)


def _objection(call: Call, said: str, state: FeatureState, kind: RequestKind) -> ChangeRequest:
    text = call.kernel.redact(said).strip()
    if not text:
        raise InvalidArguments("The text is only white space.", tool=call.tool.name)
    return ChangeRequest(
        number=0, kind=kind, text=text, tree=state.tree, asked_by=call.principal.actor, asked_at=call.kernel.now()
    )


def _back_to_planning(state: FeatureState, base: TreeId) -> FeatureState:
    fresh = msgspec.structs.replace(state, tree=base, gates=reset_verdicts(state.gates), set_aside=None)
    return _planning_again(fresh, "A person rejected the approach.")


def _planning_again(state: FeatureState, reason: str) -> FeatureState:
    if state.status is Status.BLOCKED:
        return with_status(state, Status.PLANNING, reason=reason)
    # No legal step leads back to `planning`; only a person's word does.
    return msgspec.structs.replace(state, status=Status.PLANNING, status_reason=reason)


def _store_set_back(tx: Transaction, call: Call, before: FeatureState, after: FeatureState) -> FeatureState:
    """Store a feature in an earlier status, and ask the supervisor to continue it."""
    request_work(tx, call, before.feature_id, again=True)
    return store_and_release(tx, call, before, after)


def _result(
    tx: Transaction,
    call: Call,
    before: FeatureState,
    stored: FeatureState,
    sent: tuple[ChangeRequest, ...],
    *,
    has_text: bool = True,
) -> ObjectionResult:
    asked = (each for each in tx.all(Question) if each.concerns(stored.feature_id) and each.is_open)
    return copy_fields(
        ObjectionResult,
        feature_named(tx, stored.feature_id),
        was=before.status,
        request=sent[-1] if has_text else None,
        sent=sent,
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
        summary="Ask for changes of a feature: the next turn gets your comments and text, with their lines.",
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

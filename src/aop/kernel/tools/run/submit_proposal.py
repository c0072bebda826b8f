"""Tools that end an agent's turn: plan, patch, note, request (AOP-234)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.ids import feature_id
from aop.core.redaction.redactor import mask_json
from aop.kernel.features.requests.change_requests import CommentAnswer
from aop.kernel.features.requests.drafts import MOST_COMMENTS
from aop.kernel.gates.qa_index import MOST_MARKS, Mark
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import PATCHERS, PLANNERS, WORKERS
from aop.kernel.patches.stored_patches import storable_patch
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.obligations import GivenMappings
from aop.kernel.record.documents.plans import Plan
from aop.kernel.record.port import Transaction
from aop.kernel.record.proposals import StoredProposal, proposal_key

LARGEST_PATCH = 4 * 1024 * 1024
Marks = Annotated[tuple[Mark, ...], Meta(max_length=MOST_MARKS)]
CommentAnswers = Annotated[tuple[CommentAnswer, ...], Meta(max_length=MOST_COMMENTS)]


class SubmitPlan(ChangeArguments, frozen=True, kw_only=True):
    plan: Plan
    """The whole plan; `plan.submit` judges it after the turn."""
    obligations: GivenMappings | None = None
    """A mapping for each obligation of the spec, as `feature.get_context` numbers them."""
    comments: CommentAnswers = ()
    """Your word about each comment of a person, by its number: done, or declined with a reason."""


class SubmitPatch(ChangeArguments, frozen=True, kw_only=True):
    unified_diff: Annotated[str, Meta(min_length=1, max_length=LARGEST_PATCH)]
    """A diff as `git diff` writes it; `repo.apply_patch` judges it after the turn. An agent that edits the files in its
    worktree needs none: AOP computes the diff itself."""
    qa_index: Marks = ()
    """QA's marks for hunks of the QA index; `qa.test_index_update` judges them after the turn."""
    comments: CommentAnswers = ()
    """Your word about each comment of a person, as in `submit_plan`."""


class SubmitNote(ChangeArguments, frozen=True, kw_only=True):
    note: Annotated[str, Meta(min_length=1, max_length=4000)]
    """A text for people, in place of a proposal."""
    qa_index: Marks = ()
    """QA's marks for hunks of the QA index, as in `submit_patch`; they also count for a turn that edits files."""
    comments: CommentAnswers = ()
    """Your word about each comment of a person, as in `submit_plan`; it also counts for a turn that edits files."""


class SubmitRequest(ChangeArguments, frozen=True, kw_only=True):
    request: Literal["lock", "amend_plan", "context", "question", "path"]
    """The condition before the work can continue."""
    detail: Mapping[str, Any] = {}
    """For `question`: `question` and perhaps `default`; for `lock`: `resource`; for `amend_plan`: `reason`; for `path`,
    a guarded file that only a person can open: `path` and `reason`."""


class ProposalResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    type: Literal["PLAN_SUBMISSION", "PATCH", "NOTE", "REQUEST"]
    """The type of the answer."""
    turn: str
    """The turn that it ends; empty for a caller without a turn: then it is only stored."""
    next: str
    """The next step."""


def submit_plan(call: Call, arguments: SubmitPlan) -> Outcome:
    """Store a plan as the answer of this turn."""
    plan = {name: value for name, value in msgspec.to_builtins(arguments.plan).items() if value is not None}
    answer: dict[str, Any] = {"type": "PLAN_SUBMISSION", "plan": plan, **_words(arguments)}
    if arguments.obligations is not None:
        answer["obligations"] = msgspec.to_builtins(arguments.obligations)
    return _store_proposal(call, arguments, _mask(call, answer))


def submit_patch(call: Call, arguments: SubmitPatch) -> Outcome:
    """Store a patch as the answer of this turn; one that adds a secret is refused. Raises: SecretDetected."""
    patch = storable_patch(call.kernel, feature_id(arguments.feature_id), arguments.unified_diff)
    marks = _mask(call, _marks(arguments))
    return _store_proposal(call, arguments, {"type": "PATCH", **msgspec.to_builtins(patch), **marks})


def submit_note(call: Call, arguments: SubmitNote) -> Outcome:
    """Store a note as the answer of this turn."""
    answer = {"type": "NOTE", "note": arguments.note, **_marks(arguments)}
    return _store_proposal(call, arguments, _mask(call, answer))


def submit_request(call: Call, arguments: SubmitRequest) -> Outcome:
    """Store a request as the answer of this turn."""
    answer = {"type": "REQUEST", "request": arguments.request, "detail": arguments.detail}
    return _store_proposal(call, arguments, _mask(call, answer))


def _marks(arguments: SubmitPatch | SubmitNote) -> dict[str, Any]:
    marks = {"qa_index": msgspec.to_builtins(arguments.qa_index)} if arguments.qa_index else {}
    return {**marks, **_words(arguments)}


def _words(arguments: SubmitPlan | SubmitPatch | SubmitNote) -> dict[str, Any]:
    return {"comments": msgspec.to_builtins(arguments.comments)} if arguments.comments else {}


def _mask(call: Call, answer: Mapping[str, Any]) -> Any:
    return mask_json(answer, call.kernel.redact.mask_secrets)


def _store_proposal(call: Call, arguments: ChangeArguments, answer: Mapping[str, Any]) -> Outcome:
    principal = call.principal

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        key = proposal_key(state.feature_id, principal.role)
        proposed = StoredProposal(
            version=next_version(tx.get(StoredProposal, key)),
            feature_id=state.feature_id,
            role=principal.role,
            turn=principal.turn,
            answer=answer,
        )
        tx.put(proposed, key)
        tx.append(call.event("proposal_kept", state.feature_id, type=answer["type"], turn=principal.turn))
        return ProposalResult(
            feature_id=state.feature_id,
            type=answer["type"],
            turn=principal.turn,
            next="End your turn now: AOP judges this when you are done.",
        )

    return call.commit(decide)


TOOLS = (
    Tool(
        name="submit_note",
        summary="End the turn with a note for people.",
        arguments=SubmitNote,
        output=ProposalResult,
        roles=WORKERS,
        run=submit_note,
        mutates=True,
        in_turn=True,
    ),
    Tool(
        name="submit_patch",
        summary="End the turn with a patch.",
        arguments=SubmitPatch,
        output=ProposalResult,
        roles=PATCHERS,
        run=submit_patch,
        mutates=True,
        in_turn=True,
    ),
    Tool(
        name="submit_plan",
        summary="End the turn with a plan.",
        arguments=SubmitPlan,
        output=ProposalResult,
        roles=PLANNERS,
        run=submit_plan,
        mutates=True,
        in_turn=True,
    ),
    Tool(
        name="submit_request",
        summary="End the turn with a request: a question, a lock, a guarded path, another plan, more context.",
        arguments=SubmitRequest,
        output=ProposalResult,
        roles=WORKERS,
        run=submit_request,
        mutates=True,
        in_turn=True,
    ),
)

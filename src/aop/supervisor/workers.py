"""Workers: the input of a turn, and the four kinds of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from aop.core.errors import SecretDetected
from aop.core.ids import FeatureId, ObjectId
from aop.core.redaction.redactor import Redactor, mask_json
from aop.core.roles import Role
from aop.kernel.features.requests.change_requests import CommentAnswer
from aop.kernel.gates.qa_index import Mark
from aop.kernel.gateway.calls import Kernel
from aop.kernel.patches.checks import refuse_added_secrets
from aop.kernel.patches.stored_patches import storable_patch
from aop.kernel.record.documents.usage import Usage


class ProviderChoice(Struct, frozen=True, kw_only=True):
    """A coding agent, its model and its settings."""

    provider: str
    model: str | None = None
    provider_config_ref: str | None = None
    """The name of the variable that holds the provider's settings; never the settings themselves."""


class ToolResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's answer to the worker's last proposal."""

    tool: str
    ok: bool
    data: Any = None
    error: Mapping[str, Any] | None = None
    evidence: Mapping[str, Any] = {}
    log_tail: str = ""
    """The end of a failed gate's log: data, never an instruction."""


class WorkerInput(Struct, frozen=True, kw_only=True):
    """Everything that a worker needs for one turn; it has no memory of earlier ones (AOP-233)."""

    role: Role
    feature_id: FeatureId
    context_bundle: Mapping[str, Any]
    instructions: str
    last_tool_results: tuple[ToolResult, ...]
    provider: str
    model: str | None
    provider_config_ref: str | None


class Output(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields that every answer of a worker may have."""

    usage: Usage | None = None
    session: str = ""
    """The id of the agent's session, if it can go on in the next turn."""


class PlanSubmission(Output, frozen=True, kw_only=True, tag="PLAN_SUBMISSION"):
    """A plan, for `plan.submit`, which judges it."""

    plan: Mapping[str, Any]
    obligations: tuple[Mapping[str, Any], ...] | None = None
    """The treatment of each obligation; beside the plan, because the plan's schema has no field for it."""
    comments: tuple[CommentAnswer, ...] = ()
    """The worker's word about people's comments, for `feature.answer_comments`."""


class PatchProposal(Output, frozen=True, kw_only=True, tag="PATCH"):
    """A change, for `repo.apply_patch`, which judges it."""

    unified_diff: str
    patch_blob: ObjectId | None = None
    """Set by AOP: the blob of a patch that shows a secret of its file. A value from an agent is ignored."""
    qa_index: tuple[Mark, ...] = ()
    """QA's marks for the QA index, for `qa.test_index_update`, which judges them."""
    comments: tuple[CommentAnswer, ...] = ()
    """The worker's word about people's comments, as beside a plan."""


class Note(Output, frozen=True, kw_only=True, tag="NOTE"):
    """A text for people."""

    note: str
    qa_index: tuple[Mark, ...] = ()
    """QA's marks for the QA index, as in a patch."""
    comments: tuple[CommentAnswer, ...] = ()
    """The worker's word about people's comments, as beside a plan."""


class WorkerRequest(Output, frozen=True, kw_only=True, tag="REQUEST"):
    """A request for something that the worker may not do or know itself."""

    request: Literal["lock", "amend_plan", "context", "question", "path"]
    detail: Mapping[str, Any] = {}


WorkerOutput: TypeAlias = PlanSubmission | PatchProposal | Note | WorkerRequest
"""AOP-234. On the wire each is an object with its `type`, such as `{"type": "PATCH", "unified_diff": "..."}`."""


class Worker(Protocol):
    """A coding agent, or a recording of one."""

    def turn(self, given: WorkerInput) -> WorkerOutput:
        """Answer once. Raises: Refusal if there is no usable answer."""


def without_secrets(output: WorkerOutput, kernel: Kernel, feature_id: FeatureId) -> WorkerOutput:
    """Return an answer with its secrets masked; in a patch they are refused. Raises: SecretDetected, UnknownFeature."""
    said = without_added_secrets(output, kernel.redact)
    if not isinstance(said, PatchProposal):
        return said
    kept = storable_patch(kernel, feature_id, said.unified_diff)
    return msgspec.structs.replace(said, unified_diff=kept.unified_diff, patch_blob=kept.patch_blob)


def without_added_secrets(output: WorkerOutput, redact: Redactor) -> WorkerOutput:
    """Return an answer with the secrets in its words masked; a patch that adds one is refused. Raises: SecretDetected.

    A patch may still show a secret that its file had before.
    """
    mask = redact.mask_secrets
    if not isinstance(output, PatchProposal):
        said: WorkerOutput = msgspec.convert(mask_json(msgspec.to_builtins(output), mask), WorkerOutput)
        return said
    try:
        refuse_added_secrets(output.unified_diff, redact)
    except SecretDetected as refusal:
        refusal.facts["usage"] = msgspec.to_builtins(output.usage)
        raise
    marks = msgspec.convert(mask_json(msgspec.to_builtins(output.qa_index), mask), tuple[Mark, ...])
    words = msgspec.convert(mask_json(msgspec.to_builtins(output.comments), mask), tuple[CommentAnswer, ...])
    return msgspec.structs.replace(output, qa_index=marks, comments=words)

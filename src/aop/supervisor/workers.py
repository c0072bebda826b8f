"""What the supervisor tells a worker, and the four things that a worker can answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from aop.core.ids import FeatureId, ObjectId
from aop.core.roles import Role
from aop.kernel.record.documents.usage import Usage


class ProviderChoice(Struct, frozen=True, kw_only=True):
    """Which coding agent does the work, and with what."""

    provider: str
    model: str | None = None
    provider_config_ref: str | None = None
    """The name of the variable that holds the provider's settings; never the settings themselves."""


class ToolResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool answered to the worker's last proposal."""

    tool: str
    ok: bool
    data: Any = None
    error: Mapping[str, Any] | None = None
    evidence: Mapping[str, Any] = {}
    log_tail: str = ""
    """The end of what a failed gate printed: data, never an instruction."""


class WorkerInput(Struct, frozen=True, kw_only=True):
    """All that a worker needs for one turn; it remembers nothing of earlier ones (AOP-233)."""

    role: Role
    feature_id: FeatureId
    context_bundle: Mapping[str, Any]
    instructions: str
    last_tool_results: tuple[ToolResult, ...]
    provider: str
    model: str | None
    provider_config_ref: str | None


class Output(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every answer of a worker may carry."""

    usage: Usage | None = None


class PlanSubmission(Output, frozen=True, kw_only=True, tag="PLAN_SUBMISSION"):
    """A plan, for `plan.submit`, which judges it."""

    plan: Mapping[str, Any]
    obligations: tuple[Mapping[str, Any], ...] | None = None
    """What becomes of each obligation of the spec; beside the plan, whose schema stays as it is."""


class PatchProposal(Output, frozen=True, kw_only=True, tag="PATCH"):
    """A change, for `repo.apply_patch`, which judges it."""

    unified_diff: str
    patch_blob: ObjectId | None = None
    """AOP's own: where the patch lies if it shows a secret of its file. What an agent says here is not looked at."""


class Note(Output, frozen=True, kw_only=True, tag="NOTE"):
    """Something for people to read."""

    note: str


class WorkerRequest(Output, frozen=True, kw_only=True, tag="REQUEST"):
    """Something that the worker may not do or know by itself."""

    request: Literal["lock", "amend_plan", "context", "question", "path"]
    detail: Mapping[str, Any] = {}


WorkerOutput: TypeAlias = PlanSubmission | PatchProposal | Note | WorkerRequest
"""AOP-234. On the wire each is an object with its `type`, such as `{"type": "PATCH", "unified_diff": "..."}`."""


class Worker(Protocol):
    """A coding agent, or a recording of one."""

    def turn(self, given: WorkerInput) -> WorkerOutput:
        """Answer once.

        Raises: Refusal if there is no answer to be had.
        """

"""Drives one feature to `ready_to_merge`, one step after the other: workers propose, tools decide.

It keeps nothing: the record says where the feature is, so a drive that was broken off goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from aop.core.errors import InvalidArguments, Json, Refusal, TurnsUsedUp, WorkerAsks
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.config_models import Mode
from aop.kernel.documents import Status
from aop.kernel.gateway import Gateway
from aop.kernel.ports import Report
from aop.kernel.principals import Principal
from aop.supervisor.workers import (
    Note,
    PatchProposal,
    PlanSubmission,
    ProviderChoice,
    Request,
    ToolResult,
    Worker,
    WorkerInput,
    WorkerOutput,
)

INSTRUCTIONS: Mapping[Role, str] = {
    Role.PLANNER: "Read the spec, and answer with a PLAN_SUBMISSION: which files change, and what proves the change.",
    Role.BUILDER: "Do what the plan says, or repair what the last results show, and answer with one PATCH.",
}

GISTS: Mapping[str, Callable[[Any], str]] = {
    "feature.init": lambda made: f"{made['worktree_path']}, cut from {made['base_branch']}",
    "plan.submit": lambda accepted: f"plan {accepted['plan_version']} accepted; now {accepted['status']}",
    "repo.apply_patch": lambda applied: f"{len(applied['changed_files'])} file(s) changed",
    "gates.run": lambda run: f"{run['verdict']}, sandbox {run['sandbox_level']}; now {run['status']}",
}
"""What is told of a tool's answer, in a few words."""

Results: TypeAlias = tuple[ToolResult, ...]
Wanted = TypeVar("Wanted", PlanSubmission, PatchProposal)


class Outcome(Struct, frozen=True, kw_only=True):
    """Where a feature is after a drive."""

    feature_id: FeatureId
    status: Status | None
    """None if the feature could not even be made."""
    tree: str
    gates: Mapping[str, str]
    problem: Mapping[str, Json] | None
    """What stopped the drive, as an `error` object."""


def drive(gateway: Gateway, feature_id: FeatureId, worker: Worker, provider: ProviderChoice, tell: Report) -> Outcome:
    """Take a feature as far as workers can: approving and merging are a person's."""
    journey = _Journey(gateway, feature_id, worker, provider, tell)
    try:
        problem = journey.go()
    except Refusal as refusal:
        problem = refusal.as_error()
    state = journey.state()
    return Outcome(
        feature_id=feature_id,
        status=Status(state["status"]) if state else None,
        tree=state.get("tree", ""),
        gates=state.get("gates", {}),
        problem=problem,
    )


class _Journey:
    """One drive of one feature."""

    def __init__(
        self, gateway: Gateway, feature_id: FeatureId, worker: Worker, provider: ProviderChoice, tell: Report
    ) -> None:
        self._gateway = gateway
        self._feature_id = feature_id
        self._worker = worker
        self._provider = provider
        self._tell = tell
        self._turns = gateway.kernel.config().policy.supervisor.max_iterations_per_phase

    def go(self) -> Mapping[str, Json] | None:
        """Take the steps that the feature's status allows; return what stopped them.

        Raises: Refusal.
        """
        made = self._call(Role.ORCHESTRATOR, "feature.init")
        if not made.ok:
            return made.error
        if self._status() is Status.PLANNING:
            self._repeat(Role.PLANNER, PlanSubmission, self._submit)
        if self._status() is Status.BUILDING:
            self._repeat(Role.BUILDER, PatchProposal, lambda patch: self._patch_and_prove(patch, Mode.FAST))
        if self._status() is Status.QA:
            proven = self._gates(Role.QA, Mode.FULL)
            if not proven.ok:
                self._repeat(
                    Role.BUILDER,
                    PatchProposal,
                    lambda patch: self._patch_and_prove(patch, Mode.FAST, Mode.FULL),
                    (proven,),
                )
        return None

    def state(self) -> Mapping[str, Any]:
        """Return what the record says of the feature; nothing if there is none."""
        answer = self._gateway.call(self._as(Role.ORCHESTRATOR), "feature.state_get", {"feature_id": self._feature_id})
        found: Mapping[str, Any] = answer.data["front_matter"] if answer.ok else {}
        return found

    def _status(self) -> Status:
        return Status(self.state()["status"])

    # --- proposals ---------------------------------------------------------------------------------

    def _repeat(
        self, role: Role, wanted: type[Wanted], decide: Callable[[Wanted], ToolResult], results: Results = ()
    ) -> None:
        """Let a worker propose until the tools accept it.

        Raises: TurnsUsedUp, WorkerAsks, and whatever the worker raises.
        """
        for _turn in range(self._turns):
            output = self._worker.turn(self._input(role, results))
            if isinstance(output, wanted):
                results = (decide(output),)
                if results[0].ok:
                    return
            else:
                results = self._heard(role, output) or results
        last = results[0].error if results else None
        raise TurnsUsedUp(
            f"The {role} of `{self._feature_id}` used up its {self._turns} turns without being accepted.",
            feature_id=self._feature_id,
            last_error=last,
        )

    def _input(self, role: Role, results: Results) -> WorkerInput:
        return WorkerInput(
            role=role,
            feature_id=self._feature_id,
            context_bundle=self._context(role),
            instructions=INSTRUCTIONS[role],
            last_tool_results=results,
            provider=self._provider.provider,
            model=self._provider.model,
            provider_config_ref=self._provider.provider_config_ref,
        )

    def _context(self, role: Role) -> dict[str, Any]:
        """Return what a fresh worker needs to go on (AOP-236)."""
        diff = self._read(role, "repo.diff", options={"stat": True})
        return {**self._read(role, "feature.get_context"), "diff_summary": diff["text"]}

    def _heard(self, role: Role, output: WorkerOutput) -> Results:
        """Take in an answer that is no proposal for this step; what is returned is the worker's to read."""
        match output:
            case Note():
                self._tell(f"{role}: {output.note}")
                return ()
            case Request(request="context"):
                return ()  # the next turn brings the whole context anyway
            case Request():
                raise WorkerAsks(
                    f"The {role} of `{self._feature_id}` asks for `{output.request}`, which a person must answer.",
                    feature_id=self._feature_id,
                    request=output.request,
                    detail=output.detail,
                )
            case _:
                misplaced = InvalidArguments("This answer does not belong to this step.", hint=INSTRUCTIONS[role])
                return (ToolResult(tool="", ok=False, error=misplaced.as_error()),)

    # --- tools -------------------------------------------------------------------------------------

    def _submit(self, output: PlanSubmission) -> ToolResult:
        return self._call(Role.PLANNER, "plan.submit", plan_json=output.plan)

    def _patch_and_prove(self, output: PatchProposal, *modes: Mode) -> ToolResult:
        result = self._call(Role.BUILDER, "repo.apply_patch", unified_diff=output.unified_diff)
        for mode in modes:
            if result.ok:
                result = self._gates(Role.BUILDER if mode is Mode.FAST else Role.QA, mode)
        return result

    def _gates(self, role: Role, mode: Mode) -> ToolResult:
        result = self._call(role, "gates.run", mode=mode)
        if result.ok or "log_path" not in result.evidence:
            return result
        log = self._read(role, "evidence.latest")["latest"]["log_tail"]
        self._tell(f"{role}: the log says: {telling_line(log)}")
        return msgspec.structs.replace(result, log_tail=log)

    def _call(self, role: Role, tool: str, **more: Json) -> ToolResult:
        answer = self._gateway.call(self._as(role), tool, {"feature_id": self._feature_id, **more})
        asked = f"{tool} {more['mode']}" if "mode" in more else tool
        gist = GISTS[tool](answer.data) if answer.error is None else answer.error["message"]
        self._tell(f"{role}: {asked}: {gist}")
        return ToolResult(tool=tool, ok=answer.ok, data=answer.data, error=answer.error, evidence=answer.evidence)

    def _read(self, role: Role, tool: str, **more: Json) -> Any:
        answer = self._gateway.call(self._as(role), tool, {"feature_id": self._feature_id, **more})
        if answer.error is not None:
            raise Refusal(f"`{tool}` was refused to the {role}: {answer.error['message']}")
        return answer.data

    def _as(self, role: Role) -> Principal:
        """A worker's principal opens its role's tools on its own feature, and nothing that is a person's."""
        return Principal(role=role, actor=f"{role}:{self._feature_id}", features=frozenset({self._feature_id}))


def telling_line(log: str) -> str:
    """Return the line of a log that says most: the last that names an error, or else the last that says anything."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["(it is empty)"])[-1]

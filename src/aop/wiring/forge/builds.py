"""Builds: the parts behind `aop forge build`, for one repository."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aop.adapters.storage.run_files import FileRun, RunFiles
from aop.core.errors import BuildActive, BuildBusy, Json
from aop.core.ids import RunId
from aop.core.roles import Role
from aop.forge.builds.cycle.lookup import LIVING, cycles_of
from aop.forge.builds.documents import BuildCycle, Crew
from aop.forge.builds.machine.decisions import is_complete
from aop.forge.builds.people.watchdog import Sign
from aop.forge.builds.run.agent_tools import AgentTools, principal_of
from aop.forge.builds.run.build_parts import BrainOf, BuildParts
from aop.forge.builds.run.crew.crew_runner import CrewRunner
from aop.forge.builds.run.crew.host_coder import HostCoder
from aop.forge.builds.run.knowledge import BuildKnowledge
from aop.forge.builds.run.runner import BuildRunner
from aop.forge.generation.stored_steps import StoredSteps, ToolRefused
from aop.kernel.gateway.principals import Principal
from aop.wiring.forge.build_watch import BuildWatch
from aop.wiring.forge.generation import RUNS

if TYPE_CHECKING:
    from aop.kernel.ports.handed_in import Report
    from aop.wiring.build import App

BUILD_LOGS = ".aop/forge/builds"
SYSTEM = Principal(role=Role.SYSTEM, actor="system")


def living_build(app: App, project_id: str) -> BuildCycle | None:
    """Return the build of a project that goes on, if there is one."""
    with app.gateway.kernel.record.read() as view:
        return next((cycle for cycle in cycles_of(view, project_id) if cycle.status in LIVING), None)


class ProjectBuild:
    """The build of one project that is active, or a new one."""

    def __init__(self, app: App, principal: Principal, project_id: str, crew: Crew, report: Report) -> None:
        """Begin a build, or find the one that goes on. Raises: BuildActive if that has another crew, ToolRefused."""
        self._app = app
        self._principal = principal
        self._report = report
        living = living_build(app, project_id)
        if living is not None and living.crew != crew:
            raise BuildActive(
                f"The build `{living.build_id}` was begun by the crew `{living.crew}`.",
                hint=f"Go on with `--crew {living.crew}`, or end it with `aop forge cancel {living.build_id}`.",
                build_id=living.build_id,
            )
        self.build_id = self._begin(project_id, crew) if living is None else living.build_id
        self._known = BuildKnowledge(app.gateway.kernel, self.build_id)

    def run(self, brain_of: BrainOf, ready: Callable[[], None], *, by_host: bool = False) -> Mapping[str, Any]:
        """Build what is left, seal it, and return the seal; `ready` is called when this process has the build.

        The coder of a team is another program if the caller says so: `by_host`.

        Raises: BuildBusy, BuildHeld, BuildNotFinished, ToolRefused, refusals of asking a model.
        """
        with self._lock() as steps:
            ready()
            self._call("forge.build_take_commits", {"build_id": self.build_id}, None)
            if not is_complete(self._known.cycle()):
                watch = self._watch()
                self._report = watch.over_report(self._report)
                parts = self._parts(brain_of, watch.over_steps(steps))
                asyncio.run(watch.over(self._build(parts, by_host=by_host)))
            sealed = self._call("forge.build_seal", {"build_id": self.build_id}, f"{self.build_id}-seal")
            steps.forget()
        seal: Mapping[str, Any] = sealed["seal"]
        return seal

    async def _build(self, parts: BuildParts, *, by_host: bool) -> None:
        if self._known.cycle().crew == "team":
            await CrewRunner(parts, HostCoder(parts) if by_host else None).build()
        else:
            await BuildRunner(parts).build()

    @contextmanager
    def _lock(self) -> Iterator[FileRun]:
        """Keep other processes from working on this build. Raises: BuildBusy."""
        with RunFiles(self._app.root / RUNS, busy=BuildBusy).lock(RunId(self.build_id)) as steps:
            yield steps

    def cycle(self) -> BuildCycle:
        """Return the build as it is now."""
        return self._known.cycle()

    def _watch(self) -> BuildWatch:
        kernel = self._app.gateway.kernel

        def tell(sign: Sign, silent_seconds: int) -> None:
            said: dict[str, Json] = {"build_id": self.build_id, "sign": sign, "silent_seconds": silent_seconds}
            self._call("forge.build_silence", said, None)

        return BuildWatch(self._known, kernel.config().policy.forge.build, kernel.clock.boot_seconds, tell)

    def _parts(self, brain_of: BrainOf, steps: StoredSteps) -> BuildParts:
        kernel = self._app.gateway.kernel
        return BuildParts(
            brain_of=brain_of,
            steps=steps,
            call=self._call,
            call_as_system=self._call_as_system,
            tools_of=lambda role: AgentTools(self._app.gateway, principal_of(self._known.cycle(), role)),
            known=self._known,
            rules=kernel.config().policy.forge.build,
            new_id=kernel.new_id,
            report=self._report,
        )

    def _begin(self, project_id: str, crew: Crew) -> str:
        begun = self._call("forge.build_begin", {"project_id": project_id, "crew": crew}, None)
        return str(begun["build_id"])

    def _call(self, tool: str, arguments: Mapping[str, Json], operation_id: str | None) -> Mapping[str, Any]:
        return self._answer(self._principal, tool, arguments, operation_id)

    def _call_as_system(self, tool: str, arguments: Mapping[str, Json], operation_id: str | None) -> Mapping[str, Any]:
        return self._answer(SYSTEM, tool, arguments, operation_id)

    def _answer(
        self, who: Principal, tool: str, arguments: Mapping[str, Json], operation_id: str | None
    ) -> Mapping[str, Any]:
        answer = self._app.gateway.call(who, tool, dict(arguments), operation_id=operation_id, report=self._report)
        if answer.error is not None:
            raise ToolRefused(answer.error, answer.evidence)
        data: Mapping[str, Any] = answer.data
        return data

"""Pipeline of a scaffold: fixed steps, or a model with tools between fixed steps."""

from __future__ import annotations

from typing import Any

import msgspec

from aop.brains.ports import Mission
from aop.core.clock import timestamp
from aop.core.errors import Json, RemoteNotFound, RemoteRejected, RemoteUnavailable
from aop.core.run import Steps
from aop.tickets import comments
from aop.tickets.loop.mission_run import run_mission
from aop.tickets.loop.tool_calls import mission_tools
from aop.tickets.loop.tool_policy import SCAFFOLDER_MAY
from aop.tickets.mission.blocks import ReviewParams, ScaffoldingMission, review_params_block, scaffolding_mission
from aop.tickets.mission.modes import TicketMode, scaffolding_mode
from aop.tickets.ports import BranchWork, MergeRequest, Ticket
from aop.tickets.safe_text import harmless_text
from aop.tickets.scaffold import texts
from aop.tickets.scaffold.agentic import AgenticScaffold, ScaffoldDone
from aop.tickets.scaffold.prompt import ScaffoldMaterial, scaffolding_mission_prompt, scaffolding_prompt
from aop.tickets.scaffold_plan import ScaffoldPlan, validate_plan
from aop.tickets.steps import Desk, Ending, StepFailed, TicketSteps, refuse_unsupported

KIND = "scaffold"
_CODE_WRITES = {"create_branch": "the branch", "commit": "the commit", "open_merge_request": "the merge request"}


class ScaffolderAgent:
    """Scaffolds tickets; all state of a run is in recorded steps."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def scaffold(self, run: Steps, payload: Json) -> Ending:
        """Carry out one run; the payload is the ticket as it was at the beginning."""
        steps = TicketSteps(run, self._desk)
        work = _Scaffolding(self._desk, steps, msgspec.convert(payload, type=Ticket))
        return await steps.run_to_end(work.scaffold, work.report_failure)


class _Scaffolding:
    """The scaffold of one ticket."""

    def __init__(self, desk: Desk, steps: TicketSteps, ticket: Ticket) -> None:
        self._desk = desk
        self.steps = steps
        self._ticket = ticket
        self._key = ticket.key
        self._made: dict[str, Any] = {}
        self._mission: ScaffoldingMission | None = None
        self._agent: AgenticScaffold | None = None

    async def scaffold(self) -> Ending:
        """Scaffold in the chosen mode; after a failure perhaps in the other. Raises: StepFailed."""
        mission = self._mission = await self._parse()
        await self.steps.comment("report_start", self._key, texts.start_comment(mission))
        if self._mode(mission, failed_before=False) is TicketMode.AGENTIC_ACT_LOOP:
            return await self._agentic(mission, None)
        try:
            return await self._linear(mission)
        except StepFailed as failure:
            if self._mode(mission, failed_before=True) is TicketMode.LINEAR_DETERMINISTIC:
                raise
            self.steps = self.steps.within("recovery")
            await self.steps.comment("report_recovery", self._key, comments.recovery_comment("Scaffolding", failure))
            return await self._agentic(mission, failure)

    def _mode(self, mission: ScaffoldingMission, *, failed_before: bool) -> TicketMode:
        return scaffolding_mode(
            marked_agentic=mission.mode == "agentic",
            exploratory=mission.exploratory,
            failed_before=failed_before,
            recovery_enabled=self._desk.settings.recovery_enabled,
        )

    async def _linear(self, mission: ScaffoldingMission) -> Ending:
        if await self._branch_exists(mission) and (ending := await self._at_existing(mission)):
            return ending
        asked, plan = await self._ask(mission)
        made = await self._write(mission, plan)
        await self._report_success(mission, made)
        ending = {key: asked[key] for key in ("model", "cost_usd", "seconds")}
        return {"outcome": "scaffolded", "branch": mission.target.branch_slug, "ask": ending, **made}

    async def _agentic(self, mission: ScaffoldingMission, failure: StepFailed | None) -> Ending:
        """Let a model do the work between Python's first and last steps; `failure` is the failure to recover from."""
        ours = failure is not None and "create_branch" in (failure.step, *self.steps.reached)
        if await self._branch_exists(mission) and not ours and (ending := await self._at_existing(mission)):
            return ending
        docs = await self.steps.read_docs(mission.parameters.service_name)
        tools = await mission_tools(self._desk, self.steps, SCAFFOLDER_MAY)
        work = self._agent = AgenticScaffold(self._desk, self.steps, self._key, mission, tools)
        limits = self._desk.settings.limits
        before = "" if failure is None else texts.done_before(failure.step, self.steps.reached)
        material = await self._material(mission, docs)
        question = scaffolding_mission_prompt(mission, material, limits, before, fence=self._desk.new_fence())
        done, spent = await run_mission(
            self._desk, self.steps, work.tools, Mission(prompt=question, result=ScaffoldDone), limits
        )

        async def prove() -> dict[str, Any]:
            return {**await work.check_result(), "generated_at": timestamp(self._desk.clock.now())}

        # The results of the fixed steps count: their time may be in the ticket already.
        self._made = made = {**await self.steps.do("prove_result", prove), **self._made}
        await self._report_success(mission, made)
        used = {"iterations": spent.iterations, "cost_usd": spent.cost_usd, "seconds": spent.seconds}
        ending = {"mode": TicketMode.AGENTIC_ACT_LOOP, "spent": used, "summary": self._desk.redact(done.summary)}
        return {"outcome": "scaffolded", "branch": mission.target.branch_slug, **ending, **made}

    async def report_failure(self, failed: StepFailed) -> Ending:
        """Comment on the failure and move the ticket back; the ending has the failure also if these fail."""
        remains = self._remains(failed)
        state, then = texts.remains_text(remains), texts.next_step(self._key, remains)
        text = comments.failure_comment("Scaffolding", failed, state, then, self.steps.run_id)
        reported = await self.steps.succeeds(self.steps.comment("report_failure", self._key, text))
        # A ticket that could not be read only gets the comment (C-05).
        if failed.step != "parse" and self._desk.settings.rollback_on_failure:
            await self.steps.succeeds(self._move("roll_back", self._desk.settings.state_initial))
        return {"outcome": "failed", "step": failed.step, "error": failed.error, "unreported": not reported}

    def _remains(self, failed: StepFailed) -> texts.ScaffoldRemains:
        """Return what this run knows to have made."""
        mission, agent = self._mission, self._agent
        if mission is None:
            return texts.ScaffoldRemains()

        def is_made(step: str, operation: str) -> bool:
            return self.steps.has_done(step) or (agent is not None and agent.has_made(operation))

        opened = self._made.get("merge_request")
        url = opened["url"] if opened else agent.opened_url if agent else ""
        lacks_block = url and not self.steps.has_done("update_description")
        return texts.ScaffoldRemains(
            branch=mission.target.branch_slug if is_made("create_branch", "create_branch") else "",
            has_commit=is_made("commit", "commit"),
            merge_request=url,
            block=self._block(mission, mission.target.gitlab_project_path, url) if lacks_block else "",
            unsure=self._unsure(failed),
        )

    def _unsure(self, failed: StepFailed) -> str:
        if self.steps.has_done("set_limits") and not self.steps.has_done("prove_result"):
            return "the last write of the model"
        return _CODE_WRITES.get(failed.step, "") if failed.error["code"] == RemoteUnavailable.code else ""

    async def _parse(self) -> ScaffoldingMission:
        def parse() -> ScaffoldingMission:
            refuse_unsupported(self._desk.settings)
            return scaffolding_mission(self._ticket.description)

        return msgspec.convert(await self.steps.compute("parse", parse), type=ScaffoldingMission)

    async def _branch_exists(self, mission: ScaffoldingMission) -> bool:
        vcs, target = self._desk.vcs, mission.target
        project, branch = target.gitlab_project_path, target.branch_slug
        return bool(await self.steps.do("check_branch", lambda: vcs.validate_branch_existence(project, branch)))

    async def _at_existing(self, mission: ScaffoldingMission) -> Ending | None:
        """Go on with a branch that a failed run left, or stop at another; None: it was left empty."""
        vcs, target = self._desk.vcs, mission.target
        project, branch, base = target.gitlab_project_path, target.branch_slug, target.target_base_branch
        found = await self.steps.do("find_merge_request", lambda: vcs.find_merge_request(project, branch))
        known = msgspec.convert(found, type=MergeRequest | None)
        if known is None:
            runs = f"{KIND}-{self._key}-"
            looked = await self.steps.do("find_work", lambda: vcs.find_work(project, branch, base=base, runs=runs))
            work = msgspec.convert(looked, type=BranchWork)
            if work.is_empty and self._desk.ledger.has_left(KIND, self._key, "create_branch"):
                return None
            if work.commit:
                return await self._finish(mission, work.commit)
        await self.steps.comment("report_existing", self._key, texts.branch_exists(mission, known))
        await self._move("move_ticket", self._desk.settings.state_success)
        return {"outcome": "branch_exists", "branch": branch, "merge_request": found}

    async def _finish(self, mission: ScaffoldingMission, commit: str) -> Ending:
        """Open the merge request of files that an earlier run committed."""
        self._made["commit"] = commit
        made = await self._open(mission, texts.merge_request_description(self._key, None))
        await self._report_success(mission, made)
        return {"outcome": "scaffolded", "branch": mission.target.branch_slug, **made}

    async def _ask(self, mission: ScaffoldingMission) -> tuple[dict[str, Any], ScaffoldPlan]:
        """Ask the model once; return its answer, and its checked plan."""
        docs = await self.steps.read_docs(mission.parameters.service_name)

        async def ask() -> Any:
            material = await self._material(mission, docs)
            question = scaffolding_prompt(mission, material, fence=self._desk.new_fence())
            return await self._desk.brain.generate_structured(question, ScaffoldPlan)

        asked: dict[str, Any] = await self.steps.do("ask_model", ask)
        plan = msgspec.convert(asked["value"], type=ScaffoldPlan)
        await self.steps.compute(
            "validate_plan", lambda: len(validate_plan(plan, self._desk.redact, may_write=mission.may_write).files)
        )
        return asked, plan

    async def _material(self, mission: ScaffoldingMission, docs: tuple[str, str]) -> ScaffoldMaterial:
        """Return what a model sees of the ticket and of the repository."""
        target = mission.target
        try:
            files = await self._desk.vcs.list_files(target.gitlab_project_path, target.target_base_branch)
        except (RemoteNotFound, RemoteRejected, RemoteUnavailable):
            # A new project may have no commit yet; a file in the way is refused by the commit.
            files = ()
        return ScaffoldMaterial(ticket=self._ticket, files=tuple(files), project=docs[0], architecture=docs[1])

    async def _write(self, mission: ScaffoldingMission, plan: ScaffoldPlan) -> dict[str, Any]:
        vcs, target, marker = self._desk.vcs, mission.target, self.steps.marker("commit")
        project, branch, base = target.gitlab_project_path, target.branch_slug, target.target_base_branch
        await self.steps.do("create_branch", lambda: vcs.create_branch(project, branch, base=base))
        message = self._desk.redact(texts.commit_message(self._key, mission))
        self._made["commit"] = await self.steps.do(
            "commit",
            lambda: vcs.commit_changes(
                project, branch, message, plan.files, marker=marker, may_replace=mission.may_write
            ),
        )
        summary = harmless_text(self._desk.redact(plan.summary))
        about = texts.merge_request_description(self._key, msgspec.structs.replace(plan, summary=summary))
        return await self._open(mission, about)

    async def _open(self, mission: ScaffoldingMission, description: str) -> dict[str, Any]:
        vcs, target = self._desk.vcs, mission.target

        async def open_merge_request() -> dict[str, Any]:
            opened = await vcs.create_merge_request(
                target.gitlab_project_path,
                target.branch_slug,
                base=target.target_base_branch,
                title=self._desk.redact(texts.merge_request_title(self._key, mission)),
                description=description,
            )
            return {"merge_request": opened, "generated_at": timestamp(self._desk.clock.now())}

        self._made.update(await self.steps.do("open_merge_request", open_merge_request))
        return self._made

    async def _report_success(self, mission: ScaffoldingMission, made: dict[str, Any]) -> None:
        opened, tracker = msgspec.convert(made["merge_request"], type=MergeRequest), self._desk.tracker
        project_id = await self.steps.do("resolve_project", lambda: self._project_id(mission))
        block = self._block(mission, project_id, opened.url)
        await self.steps.do("update_description", lambda: tracker.update_task_description(self._key, block))
        text = texts.success_comment(mission, opened, made["generated_at"])
        await self.steps.comment("report_success", self._key, text)
        await self._move("move_ticket", self._desk.settings.state_success)

    def _block(self, mission: ScaffoldingMission, project_id: str, url: str) -> str:
        params = ReviewParams(
            gitlab_project_id=project_id,
            source_branch_name=mission.target.branch_slug,
            review_request_url=url,
            generated_at=self._made.get("generated_at") or timestamp(self._desk.clock.now()),
        )
        return review_params_block(params)

    async def _project_id(self, mission: ScaffoldingMission) -> str:
        """Return the id of the project, or its path if the id is unknown (C-07)."""
        if mission.target.gitlab_project_id is not None:
            return str(mission.target.gitlab_project_id)
        try:
            return await self._desk.vcs.resolve_project(mission.target.gitlab_project_path)
        except (RemoteNotFound, RemoteRejected):
            return mission.target.gitlab_project_path

    async def _move(self, step: str, state: str) -> None:
        await self.steps.do(step, lambda: self._desk.tracker.update_status(self._key, state))

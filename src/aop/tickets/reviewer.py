"""The reviewer: ten steps from a ticket's merge request to a published review, in an order that no model chooses."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import msgspec

from aop.brains.recordings import masked
from aop.core.errors import Json, MergeRequestNotReviewable, ModeUnavailable, Refusal, TicketProviderUnsupported
from aop.core.run import Run
from aop.kernel.diffs import PatchRules, parse_patch
from aop.reviews.report import Checked, CodeReviewReport, checked
from aop.tickets import comments
from aop.tickets import review_texts as texts
from aop.tickets.descriptions import plain_description
from aop.tickets.missions import ReviewParams, review_params, scaffolding_mission
from aop.tickets.modes import Mode, review_mode
from aop.tickets.ports import MergeRequest, Ticket
from aop.tickets.review_prompt import review_prompt
from aop.tickets.steps import Desk, StepFailed, Steps

KIND = "review"

_READABLE = PatchRules(allow_copy=True, allow_binary=True, allow_symlinks=True, allow_quoted_names=True)


class CodeReviewerAgent:
    """Reviews one merge request after the other; everything it knows of one comes from recorded steps."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def review(self, run: Run, payload: Json) -> Json:
        """Carry out one run; its payload is the ticket as it was when the run was asked for."""
        steps = Steps(run, self._desk)
        work = _Review(self._desk, steps, msgspec.convert(payload, type=Ticket))
        return await steps.to_the_end(work.linear, work.failed)


class _Review:
    """One merge request on its way."""

    def __init__(self, desk: Desk, steps: Steps, ticket: Ticket) -> None:
        self._desk = desk
        self.steps = steps
        self._ticket = ticket

    async def linear(self) -> dict[str, Any]:
        """Take the fixed path.

        Raises: StepFailed.
        """
        key = self._ticket.key
        params = msgspec.convert(await self.steps.do("parse", self._parse), type=ReviewParams)
        await self.steps.comment("report_start", key, texts.started(params))
        await self.steps.do("check_branch", lambda: self._check_branch(params))
        found = await self.steps.do("check_merge_request", lambda: self._open_merge_request(params))
        opened = msgspec.convert(found, type=MergeRequest)
        report = await self._report(params)
        vcs, project = self._desk.vcs, params.gitlab_project_id
        marker = self.steps.marker("publish_review")
        await self.steps.do("publish_review", lambda: vcs.publish_review(project, opened.number, report, marker=marker))
        await self.steps.comment("report_success", key, texts.succeeded(opened, report))
        return {"outcome": "reviewed", "merge_request": found, "report": msgspec.to_builtins(report)}

    async def failed(self, failed: StepFailed) -> dict[str, Any]:
        """Tell the ticket what happened; that this fails too hides nothing."""
        text = comments.failed("Review", failed.error, failed.step, self.steps.reached)
        reported = await self.steps.tried(self.steps.comment("report_failure", self._ticket.key, text))
        return {"outcome": "failed", "step": failed.step, "error": failed.error, "unreported": not reported}

    async def _parse(self) -> ReviewParams:
        unsupported = self._desk.settings.unsupported_vcs
        if unsupported:
            raise TicketProviderUnsupported(
                f"`VCS_PROVIDER` is `{unsupported}`, which this AOP cannot speak to.", variable="VCS_PROVIDER"
            )
        return review_params(self._ticket.description)

    async def _check_branch(self, params: ReviewParams) -> None:
        branch = params.source_branch_name
        if not await self._desk.vcs.validate_branch_existence(params.gitlab_project_id, branch):
            raise MergeRequestNotReviewable(f"The branch `{branch}` does not exist.", branch=branch)

    async def _open_merge_request(self, params: ReviewParams) -> MergeRequest:
        found = await self._desk.vcs.get_merge_request(params.gitlab_project_id, params.merge_request_id)
        if found.state != "opened" or found.source_branch != params.source_branch_name:
            raise MergeRequestNotReviewable(
                f"The merge request {found.number} is {found.state}, of the branch `{found.source_branch}`.",
                state=found.state,
                branch=found.source_branch,
            )
        return found

    async def _report(self, params: ReviewParams) -> CodeReviewReport:
        """Read the standards, then the diff; ask once, and keep what the diff bears out."""
        docs, page = self._desk.docs, self._desk.settings.architecture_page_id
        service = self._service_name(params)
        project = await self.steps.do("read_project_docs", lambda: docs.get_project_context(service))
        architecture = await self.steps.do("read_architecture_docs", lambda: docs.get_architecture_context(page))
        diff = await self.steps.do("read_diff", lambda: self._diff(params))

        async def ask() -> Any:
            question = review_prompt(
                self._ticket,
                plain_description(self._ticket.description),
                project,
                architecture,
                diff,
                fence=self._desk.new_fence(),
            )
            return await self._desk.brain.generate_structured(question, CodeReviewReport)

        async def check() -> Checked:
            return checked(msgspec.convert(asked["value"], type=CodeReviewReport), shown_lines(diff))

        asked: dict[str, Any] = await self.steps.do("ask_model", ask)
        held = msgspec.convert(await self.steps.do("check_report", check), type=Checked)
        # It is about to be read by many.
        return msgspec.convert(masked(msgspec.to_builtins(held.report), self._desk.redact), type=CodeReviewReport)

    def _service_name(self, params: ReviewParams) -> str:
        """Return the service of the ticket, or what its branch is called after."""
        try:
            return scaffolding_mission(self._ticket.description).parameters.service_name
        except Refusal:
            return params.source_branch_name.rpartition("/")[2]

    async def _diff(self, params: ReviewParams) -> str:
        diff = await self._desk.vcs.get_merge_request_diff(params.gitlab_project_id, params.merge_request_id)
        if not diff.strip():
            raise MergeRequestNotReviewable("The merge request changes nothing.")
        settings = self._desk.settings
        mode = review_mode(
            marked_agentic=params.mode == "agentic",
            diff_chars=len(diff),
            max_diff_chars=settings.max_diff_chars,
            failed_before=False,
            recovery_enabled=settings.recovery_enabled,
        )
        if mode is Mode.AGENTIC_ACT_LOOP:
            raise ModeUnavailable(
                f"The diff has {len(diff)} characters; the linear mode takes {settings.max_diff_chars}, and this AOP"
                " has no other.",
                mode=mode,
            )
        return diff


def shown_lines(diff: str) -> dict[str, Set[int]]:
    """Return the lines that a diff shows of each new file.

    Raises: InvalidPatch, PathOutOfBounds.
    """
    return {
        str(file.new_path or file.old_path): {
            line for hunk in file.hunks for line in range(hunk.new_start, hunk.new_start + hunk.new_count)
        }
        for file in parse_patch(diff.encode("utf-8", "surrogatepass"), _READABLE).files
    }

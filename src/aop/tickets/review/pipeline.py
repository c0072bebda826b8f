"""Pipeline of a review: fixed steps, with a model that has tools if needed."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import msgspec
from msgspec.structs import replace

from aop.core.errors import (
    Json,
    MergeRequestNotReviewable,
    Refusal,
    RemoteNotFound,
    RemoteRejected,
)
from aop.core.run import Steps
from aop.reviews.diff_lines import line_texts, shown_lines
from aop.reviews.report import Finding, check_report
from aop.tickets import comments
from aop.tickets.loop.tool_calls import mission_tools
from aop.tickets.loop.tool_policy import REVIEWER_MAY
from aop.tickets.mission.blocks import ReviewParams, review_params, scaffolding_mission
from aop.tickets.mission.criteria import acceptance_criteria
from aop.tickets.mission.descriptions import plain_description
from aop.tickets.mission.modes import TicketMode, review_mode
from aop.tickets.ports import MergeRequest, Ticket
from aop.tickets.review import answer, texts
from aop.tickets.review.agentic import AgenticReview, fixed_arguments
from aop.tickets.review.answer import KnownReview, PublishedReview, TicketReview
from aop.tickets.review.diff_parts import diff_excerpts
from aop.tickets.review.prompt import ReviewSubject, review_prompt
from aop.tickets.safe_text import harmless_text, host_of
from aop.tickets.steps import Desk, Ending, StepFailed, TicketSteps, refuse_unsupported

KIND = "review"


class CodeReviewerAgent:
    """Reviews merge requests; all state of a review is in recorded steps."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def review(self, run: Steps, payload: Json) -> Ending:
        """Carry out one run; the payload is the ticket as it was at the beginning."""
        steps = TicketSteps(run, self._desk)
        work = _Review(self._desk, steps, msgspec.convert(payload, type=Ticket))
        return await steps.run_to_end(work.review, work.report_failure)


class _Review:
    """The review of one merge request."""

    def __init__(self, desk: Desk, steps: TicketSteps, ticket: Ticket) -> None:
        self._desk = desk
        self.steps = steps
        self._ticket = ticket
        self._mode = TicketMode.LINEAR_DETERMINISTIC
        self._unreviewed: tuple[str, ...] = ()
        self._found: PublishedReview | None = None
        self._is_published = False

    async def review(self) -> Ending:
        """Review in the chosen mode; after a failure perhaps in the other. Raises: StepFailed."""
        params = msgspec.convert(await self.steps.compute("parse", self._parse), type=ReviewParams)
        await self.steps.comment("report_start", self._ticket.key, texts.start_comment(params))
        self._mode = self._choose_mode(params, "", failed_before=False)
        try:
            return await self._review(params, failed_before=False)
        except StepFailed as failure:
            if not self._can_recover(params, failure):
                raise
            self.steps = self.steps.within("recovery")
            await self.steps.comment("report_recovery", self._ticket.key, comments.recovery_comment("Review", failure))
            return await self._review(params, failed_before=True)

    async def report_failure(self, failed: StepFailed) -> Ending:
        """Comment on the failure; the ending has it also if the comment fails."""
        left = texts.remains_text(failed.step, is_published=self._is_published)
        then = f"start again with `aop ticket review {self._ticket.key}`, which writes nothing twice."
        text = comments.failure_comment("Review", failed, left, then, self.steps.run_id)
        if self._found is not None and not self._is_published:
            # Findings that could not be published must not be lost (REV-67).
            text = f"{text}\n\nThe review could not be published. Its findings:\n\n{texts.whole_report(self._found)}"
        reported = await self.steps.succeeds(self.steps.comment("report_failure", self._ticket.key, text))
        ending = {"outcome": "failed", "step": failed.step, "error": failed.error, "unreported": not reported}
        return ending if self._found is None else {**ending, "report": msgspec.to_builtins(self._found)}

    async def _review(self, params: ReviewParams, *, failed_before: bool) -> Ending:
        await self.steps.do("check_branch", lambda: self._check_branch(params))
        found = await self.steps.do("check_merge_request", lambda: self._open_merge_request(params))
        opened = msgspec.convert(found, type=MergeRequest)
        subject, diff, known = await self._read(params)
        self._mode = self._choose_mode(params, diff, failed_before=failed_before)
        if self._mode is TicketMode.LINEAR_DETERMINISTIC:
            review = await self._ask_model(subject, diff)
        else:
            review = await self._explore(params, subject, diff, opened)
        hosts = {host_of(opened.url)}
        held = await self.steps.compute(
            "check_report", lambda: self._check_review(review, diff, subject, known, hosts=hosts)
        )
        self._found = msgspec.convert(held["published"], type=PublishedReview)
        await self._publish(params, opened, self._found)
        approval = await self._approve(params, opened, self._found)
        text = texts.success_comment(opened, self._found, approval)
        await self.steps.comment("report_success", self._ticket.key, text)
        ending = {"mode": self._mode, "report": msgspec.to_builtins(self._found), "approval": approval}
        return {"outcome": "reviewed", "merge_request": found, **ending}

    def _choose_mode(self, params: ReviewParams, diff: str, *, failed_before: bool) -> TicketMode:
        return review_mode(
            marked_agentic=params.mode == "agentic",
            diff_chars=len(diff),
            max_diff_chars=self._desk.settings.max_diff_chars,
            failed_before=failed_before,
            recovery_enabled=self._desk.settings.recovery_enabled,
        )

    def _can_recover(self, params: ReviewParams, failure: StepFailed) -> bool:
        """Tell whether to try the agentic mode: not after it, nor if the review is published or impossible."""
        is_over = self._is_published or failure.error["code"] == MergeRequestNotReviewable.code
        if self._mode is TicketMode.AGENTIC_ACT_LOOP or is_over:
            return False
        return self._choose_mode(params, "", failed_before=True) is TicketMode.AGENTIC_ACT_LOOP

    def _parse(self) -> ReviewParams:
        refuse_unsupported(self._desk.settings)
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

    async def _read(self, params: ReviewParams) -> tuple[ReviewSubject, str, KnownReview]:
        """Read the standards, the diff and the findings of earlier reviews."""
        vcs = self._desk.vcs
        project, architecture = await self.steps.read_docs(self._service_name(params))
        diff = await self.steps.do("read_diff", lambda: self._diff(params))

        async def read_known() -> KnownReview:
            return answer.known_review(await vcs.get_published_notes(params.gitlab_project_id, params.merge_request_id))

        known = msgspec.convert(await self.steps.do("read_known_findings", read_known), type=KnownReview)
        requirements = plain_description(self._ticket.description)
        subject = ReviewSubject(
            ticket=self._ticket,
            requirements=requirements,
            criteria=acceptance_criteria(requirements),
            known=known.findings,
            project=project,
            architecture=architecture,
        )
        return subject, diff, known

    async def _ask_model(self, subject: ReviewSubject, diff: str) -> TicketReview:
        """Ask the model once."""

        async def ask() -> Any:
            question = review_prompt(subject, diff, fence=self._desk.new_fence())
            return await self._desk.brain.generate_structured(question, TicketReview)

        return msgspec.convert((await self.steps.do("ask_model", ask))["value"], type=TicketReview)

    async def _explore(
        self, params: ReviewParams, subject: ReviewSubject, diff: str, opened: MergeRequest
    ) -> TicketReview:
        """Let a model with tools review the diff, part by part."""
        tools = await mission_tools(self._desk, self.steps, REVIEWER_MAY)
        work = AgenticReview(self._desk, self.steps, tools, fixed_arguments(params, self._ticket.key))
        review = await work.review(subject, diff_excerpts(diff, self._desk.settings.max_diff_chars), opened)
        self._unreviewed = tuple(work.unreviewed)
        return review

    def _check_review(
        self, review: TicketReview, diff: str, subject: ReviewSubject, known: KnownReview, *, hosts: Set[str]
    ) -> dict[str, Any]:
        """Keep the findings that the diff confirms and that are new, as safe text."""
        held = check_report(review, shown_lines(diff))
        kept = replace(review, verdict=held.report.verdict, findings=held.report.findings)
        published = answer.published_review(kept, known, subject.criteria, line_texts(diff))
        published = replace(published, unreviewed=self._unreviewed, dropped=len(held.dropped))
        spoken = self._harmless(answer.with_objection(answer.with_news(published, known), known), hosts)
        return {"published": spoken, "dropped": held.dropped, "unanchored": held.unanchored}

    def _harmless(self, review: PublishedReview, hosts: Set[str]) -> PublishedReview:
        """Return a review whose texts are safe to publish."""

        def safe(text: str) -> str:
            return harmless_text(self._desk.redact(text), hosts)

        def safe_finding(finding: Finding) -> Any:
            return replace(finding, description=safe(finding.description), recommendation=safe(finding.recommendation))

        return replace(
            review,
            summary=safe(review.summary),
            findings=tuple(map(safe_finding, review.findings)),
            next_steps=tuple(map(safe, review.next_steps)),
            unreviewed=tuple(map(safe, review.unreviewed)),
            criteria=tuple(
                replace(each, text=safe(each.text), evidence=safe(each.evidence)) for each in review.criteria
            ),
        )

    async def _publish(self, params: ReviewParams, opened: MergeRequest, review: PublishedReview) -> None:
        """Publish a review that has news."""
        vcs, project = self._desk.vcs, params.gitlab_project_id
        marker = self.steps.marker("publish_review")
        if review.has_news:
            await self.steps.do(
                "publish_review", lambda: vcs.publish_review(project, opened.number, review, marker=marker)
            )
        self._is_published = True

    async def _approve(self, params: ReviewParams, opened: MergeRequest, review: PublishedReview) -> str:
        """Approve the reviewed commit if allowed and without an objection (C-11); return the outcome as text."""

        async def approve() -> str:
            try:
                await self._desk.vcs.approve_merge_request(params.gitlab_project_id, opened.number, head=opened.head)
            except (RemoteNotFound, RemoteRejected) as refusal:
                # The review counts all the same: many systems refuse the approval of the author.
                return texts.not_approved(refusal.message)
            return texts.APPROVED

        if not self._desk.settings.may_approve:
            return ""
        objection = review.objection or ("" if opened.head else "the reviewed commit is unknown")
        if objection:
            return texts.not_approved(f"{objection}.")
        outcome: str = await self.steps.do("approve", approve)
        return outcome

    def _service_name(self, params: ReviewParams) -> str:
        """Return the service of the ticket, or the last part of its branch."""
        try:
            return scaffolding_mission(self._ticket.description).parameters.service_name
        except Refusal:
            return params.source_branch_name.rpartition("/")[2]

    async def _diff(self, params: ReviewParams) -> str:
        diff = await self._desk.vcs.get_merge_request_diff(params.gitlab_project_id, params.merge_request_id)
        if not diff.strip():
            raise MergeRequestNotReviewable("The merge request changes nothing.")
        # An unreadable diff cannot be checked: refuse it before a model is asked.
        shown_lines(diff)
        return diff

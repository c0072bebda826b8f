"""Agentic review: a model with read-only tools reviews the diff in parts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aop.brains.budgets import LoopUsage
from aop.brains.ports import Mission
from aop.core.text.counts import count
from aop.reviews.report import MOST_FINDINGS, ReviewVerdict
from aop.tickets.loop.mission_run import remaining_limits, run_mission
from aop.tickets.loop.tool_calls import LIST_EVERYTHING, FixedArguments, MissionTools
from aop.tickets.loop.tool_policy import AllowedTool
from aop.tickets.mission.blocks import ReviewParams
from aop.tickets.ports import MergeRequest
from aop.tickets.review.answer import TicketReview
from aop.tickets.review.diff_parts import DiffExcerpt, file_list
from aop.tickets.review.prompt import ReviewSubject, review_mission
from aop.tickets.steps import Desk, StepFailed, TicketSteps

SUMMARY_CHARS = 4_000
_WORST_FIRST = (ReviewVerdict.REQUEST_CHANGES, ReviewVerdict.COMMENT, ReviewVerdict.APPROVE)


class AgenticReview:
    """The missions of one review, with limits for all of them together."""

    def __init__(self, desk: Desk, steps: TicketSteps, tools: tuple[AllowedTool, ...], held: FixedArguments) -> None:
        self._desk = desk
        self._steps = steps
        self._tools = tools
        self._held = held
        self._limits = desk.settings.limits
        self.unreviewed: list[str] = []

    async def review(self, subject: ReviewSubject, parts: Sequence[DiffExcerpt], request: MergeRequest) -> TicketReview:
        """Review all parts; `unreviewed` lists those that failed. Raises: StepFailed if no part was reviewed."""
        reviews: list[TicketReview] = []
        first: StepFailed | None = None
        for number, part in enumerate(parts, 1):
            steps = self._steps if len(parts) == 1 else self._steps.within(f"part_{number}")
            tools = MissionTools(self._desk, steps, self._tools, self._held, {})
            fence = self._desk.new_fence()
            question = review_mission(subject, part, (number, len(parts)), request, self._limits, fence=fence)
            mission = Mission(prompt=question, result=TicketReview)
            try:
                review, spent = await run_mission(self._desk, steps, tools, mission, self._limits)
                reviews.append(review)
            except StepFailed as failure:
                first, spent = first or failure, spent_of(failure)
                self.unreviewed.append(f"{file_list(part.files)}: {failure.error['message']}")
            self._limits = remaining_limits(self._limits, spent)
        if not reviews and first is not None:
            raise first
        return joined_review(reviews, complete=not self.unreviewed)


def fixed_arguments(params: ReviewParams, key: str) -> FixedArguments:
    """Return the arguments that a review's mission fixes."""
    return {
        **LIST_EVERYTHING,
        "key": key,
        "project": params.gitlab_project_id,
        "branch": params.source_branch_name,
        "number": params.merge_request_id,
    }


def joined_review(reviews: Sequence[TicketReview], *, complete: bool) -> TicketReview:
    """Return several reviews as one; an incomplete one never approves."""
    verdict = min((review.verdict for review in reviews), key=_WORST_FIRST.index)
    findings = tuple(dict.fromkeys(finding for review in reviews for finding in review.findings))
    left_out = len(findings) - MOST_FINDINGS
    summary = "\n\n".join(dict.fromkeys(review.summary for review in reviews))
    if left_out > 0:
        summary = f"{count(left_out, 'more finding')} omitted.\n\n{summary}"
    return TicketReview(
        verdict=ReviewVerdict.COMMENT if verdict is ReviewVerdict.APPROVE and not complete else verdict,
        summary=summary if len(summary) <= SUMMARY_CHARS else f"{summary[: SUMMARY_CHARS - 20]} (cut short)",
        findings=findings[:MOST_FINDINGS],
        next_steps=tuple(dict.fromkeys(step for review in reviews for step in review.next_steps)),
        criteria=tuple(each for review in reviews for each in review.criteria),
        still_open=tuple(dict.fromkeys(mark for review in reviews for mark in review.still_open)),
    )


def spent_of(failure: StepFailed) -> LoopUsage:
    """Return the usage of a mission that was stopped."""
    details = failure.error.get("details")
    spent = details.get("spent") if isinstance(details, dict) else None
    return LoopUsage() if spent is None else msgspec.convert(spent, type=LoopUsage)

"""Review question: asks a brain for the report on a change."""

from __future__ import annotations

from aop.brains.ports import Answer, Brain
from aop.brains.prompts import Data, Prompt, build_prompt
from aop.kernel.ports.reviewer import ReviewRequest
from aop.reviews.report import CodeReviewReport

TASK = "Review this pull request. Answer once, with the report."


def review_question(wanted: ReviewRequest, fence: str) -> Prompt:
    """Return the prompt; all texts of others are data in it."""
    data = [
        Data(source="the title of the pull request", text=wanted.title),
        Data(source="what it is for", text=wanted.description),
        Data(source="its plan", text=wanted.plan, max_chars=len(wanted.plan)),
        # Not cut: the caller has checked the size, and a partial diff must not be reviewed.
        Data(source="its diff", text=wanted.diff, max_chars=len(wanted.diff)),
    ]
    return build_prompt(wanted.persona, TASK, data, fence)


async def ask_for_report(brain: Brain, wanted: ReviewRequest, fence: str) -> Answer[CodeReviewReport]:
    """Return the brain's report; an invalid answer is asked for once more."""
    return await brain.generate_structured(review_question(wanted, fence), CodeReviewReport, repairs=1)

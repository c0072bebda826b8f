"""Asks a brain for the report on a change: one question, one structured answer."""

from __future__ import annotations

from aop.brains.ports import Answer, Brain
from aop.brains.prompts import Data, Prompt, build_prompt
from aop.kernel.ports.reviewer import ReviewWanted
from aop.reviews.report import CodeReviewReport

TASK = "Review this pull request. Answer once, with the report."


def review_question(wanted: ReviewWanted, fence: str) -> Prompt:
    """Put the question together; everything that others wrote stands in it as data."""
    data = [
        Data(source="the title of the pull request", text=wanted.title),
        Data(source="what it is for", text=wanted.description),
        Data(source="its plan", text=wanted.plan, max_chars=len(wanted.plan)),
        # Whoever asks has looked at the size: a change that is shown in part is not reviewed.
        Data(source="its diff", text=wanted.diff, max_chars=len(wanted.diff)),
    ]
    return build_prompt(wanted.persona, TASK, data, fence)


async def ask_for_report(brain: Brain, wanted: ReviewWanted, fence: str) -> Answer[CodeReviewReport]:
    """Return what the brain makes of a change; one answer that is no report is asked for again.

    Raises: ModelAnswerInvalid, or another refusal of asking a model.
    """
    return await brain.generate_structured(review_question(wanted, fence), CodeReviewReport, repairs=1)

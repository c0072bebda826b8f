"""Instructions: the sentences that a turn begins with, for each role and rung."""

from __future__ import annotations

from collections.abc import Mapping

from aop.core.roles import Role
from aop.supervisor.policy.state import Rung

INSTRUCTIONS: Mapping[Role, str] = {
    Role.PLANNER: (
        "Read the spec and answer with a PLAN_SUBMISSION: the files that change, the tests that prove the change, and"
        " in `obligations` the treatment of each obligation in the context bundle."
    ),
    Role.BUILDER: "Carry out the plan, or repair the failures in the last results. Answer with one PATCH.",
    Role.QA: "The full gates fail. Repair the failures in the last results. Answer with one PATCH.",
}
REVIEW = (
    "The fast gates pass, and the full gates run after this turn. Read the change as a tester does. Answer with one"
    " PATCH that adds missing tests or repairs what is wrong, or with a NOTE if nothing is missing. With either, mark"
    " in `qa_index` the hunks of the QA index that passed, failed or are waived."
)
AMEND = "The builder needs a changed plan: see the last result. Submit the whole plan as its next version."
MOVED = "The base branch moved while the feature waited. Plan it on the files as they are now: submit the whole plan."
LADDER: Mapping[Rung, str] = {
    Rung.NONE: "",
    Rung.NUDGE: "Your last answer changed nothing or could not be used. Read the last results again and answer again.",
    Rung.OTHER_APPROACH: "This approach does not work. Take a different one.",
    Rung.ASK: "",
    Rung.BLOCK: "",
}

"""Approvals of reviews: off by default, and refused after a grave or unproven finding."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aop.adapters.tickets.setup.settings import ticket_settings
from aop.reviews.report import Finding, ReviewVerdict, Severity
from aop.testing.scripted_model import answers
from aop.tickets.review.answer import CriterionState, JudgedCriterion, TicketReview
from tests.tickets.review.test_pipeline import WHOLE, Reviewed, finding, reviewed
from tests.tickets.review.test_second_reviews import LISTED, SILENT, WITH_CRITERIA
from tests.tickets.scaffold.test_pipeline import SETTINGS, URL
from tests.tickets.test_port_conformance import REAL

ALLOWED = msgspec.structs.replace(SETTINGS, may_approve=True)
APPROVED = [*WHOLE[:-1], "approve_merge_request c0ffee", "add_comment"]
"""After what was found is published, and before the ticket is told."""
MET = tuple(JudgedCriterion(number=number, state=CriterionState.MET) for number in range(1, len(LISTED) + 1))

DIFF_OF_TWO = "".join(
    f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+a = 1\n"
    for name in ("a.py", "b.py")
)


def said(*findings: Finding, verdict: ReviewVerdict = ReviewVerdict.APPROVE, **more: Any) -> TicketReview:
    return TicketReview(verdict=verdict, summary="Looked at it.", findings=findings, **more)


@pytest.mark.req("REV-52", "REV-59")
def test_a_review_without_objections_approves_the_commit_that_it_saw_if_that_is_allowed() -> None:
    around = Reviewed()
    small = finding("src/a.py", 2, Severity.MINOR)
    ending, _ = reviewed(around, answers(said(small, criteria=MET)), description=WITH_CRITERIA, settings=ALLOWED)
    assert (ending["outcome"], around.calls) == ("reviewed", APPROVED)
    assert around.written[-1].startswith(
        f"Review done: {URL}\nVerdict: APPROVE; 1 MINOR.\n"
        "AOP approved the merge request at the reviewed commit.\n1. met: Orders are kept.\n"
    )


@pytest.mark.req("REV-52", "REV-59")
def test_without_the_setting_nothing_is_approved() -> None:
    around = Reviewed()
    reviewed(around, answers(said(criteria=MET)), description=WITH_CRITERIA)
    assert (around.calls, "approved" in around.written[-1]) == (WHOLE, False)


@pytest.mark.req("REV-48", "REV-52")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (said(finding("src/a.py", 2, Severity.CRITICAL), criteria=MET), "the verdict is REQUEST_CHANGES."),
        (said(finding("src/a.py", 2), criteria=MET), "a CRITICAL or MAJOR finding is open."),
        (said(finding("src/a.py", 99), criteria=MET), "a CRITICAL or MAJOR finding is open."),
        (said(criteria=MET[1:]), "1 acceptance criterion not shown to be met."),
        (said(), "3 acceptance criteria not shown to be met."),
        (said(criteria=MET, verdict=ReviewVerdict.COMMENT), "the verdict is COMMENT."),
    ],
)
def test_what_stands_against_it_is_told_and_nothing_is_approved(answer: TicketReview, why: str) -> None:
    around = Reviewed()
    reviewed(around, answers(answer), description=WITH_CRITERIA, settings=ALLOWED)
    assert around.calls == WHOLE
    assert f"\nAOP did not approve the merge request: {why}\n" in around.written[-1]


def test_a_grave_finding_of_an_earlier_review_that_is_still_open_is_in_the_way() -> None:
    around = Reviewed()
    first, _ = reviewed(around, answers(said(finding("src/a.py", 2))), run_id="run-1")
    mark = first["report"]["findings"][0]["fingerprint"]
    again = answers(said(still_open=(mark,)))
    reviewed(around, again, settings=ALLOWED, run_id="run-2")
    assert "did not approve the merge request: a CRITICAL or MAJOR finding is open." in around.written[-1]
    around.notes = [msgspec.structs.replace(note, resolved=True) for note in around.notes]
    before = len(around.calls)
    reviewed(around, again, settings=ALLOWED, run_id="run-3")
    assert around.calls[before:][-2:] == ["approve_merge_request c0ffee", "add_comment"]


def test_a_part_that_nobody_reviewed_is_in_the_way() -> None:
    around = Reviewed(diff=DIFF_OF_TWO)
    settings = msgspec.structs.replace(ALLOWED, max_diff_chars=160)
    ending, _ = reviewed(around, answers(said()), settings=settings)
    assert (ending["outcome"], [call for call in around.calls if "approve" in call]) == ("reviewed", [])
    assert len(ending["report"]["unreviewed"]) == 1


def test_an_approval_that_is_refused_takes_nothing_from_the_review_and_one_that_is_lost_fails_it() -> None:
    around = Reviewed()
    around.refuses_approval = True
    ending, _ = reviewed(around, answers(said()), settings=ALLOWED)
    assert (ending["outcome"], around.calls) == ("reviewed", APPROVED)
    assert (
        "did not approve the merge request: `gitlab` answered to `approve_merge_request`: 401 Unauthorized\n"
        in around.written[-1]
    )
    recovering = msgspec.structs.replace(ALLOWED, recovery_enabled=True)
    lost = Reviewed(fails="approve_merge_request")
    ending, model = reviewed(lost, answers(said()), settings=recovering)
    assert (ending["outcome"], ending["step"], lost.calls, len(model.asked)) == ("failed", "approve", APPROVED, 1)
    assert "could not be published" not in lost.written[-1]


def test_a_review_that_has_nothing_new_to_say_still_approves() -> None:
    around = Reviewed()
    reviewed(around, answers(said()), run_id="run-1")
    before = len(around.calls)
    reviewed(around, answers(said()), settings=ALLOWED, run_id="run-2")
    assert around.calls[before:] == [*SILENT[:-1], "approve_merge_request c0ffee", "add_comment"]


@pytest.mark.req("REV-11", "REV-74")
def test_the_environment_allows_it_and_only_to_a_review() -> None:
    for text, product, allowed in (
        ("true", "code-review", True), ("false", "code-review", False), ("", "code-review", False),
        ("true", "scaffolding", False),
    ):  # fmt: skip
        settings, chosen = ticket_settings({**REAL, "CODE_REVIEW_ALLOW_APPROVE": text}, product)
        assert (settings.may_approve, chosen.may_approve) == (allowed, allowed)

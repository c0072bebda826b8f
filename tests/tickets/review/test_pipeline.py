"""The pipeline of a review: its calls in order on each path, and what it publishes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aop.brains.model_brain import ANSWER
from aop.core.errors import RemoteRejected
from aop.core.ids import RunId
from aop.reviews.report import CodeReviewReport, Finding, ReviewVerdict, Severity
from aop.testing.scripted_model import ScriptedModel, Step, answers
from aop.tickets.mission.blocks import review_params_block
from aop.tickets.ports import MergeRequest, PublishedNote
from aop.tickets.review.pipeline import CodeReviewerAgent
from aop.tickets.review.texts import missing_notes
from aop.tickets.runs.dry_run import DRY_RUN, DirectRun
from aop.tickets.steps import TicketSettings
from tests.brains import endpoints
from tests.cli.tickets.test_ticket import Place
from tests.tickets.local_worlds import KEY, PROJECT
from tests.tickets.mission.test_blocks import BLOCK, PARAMS, fenced
from tests.tickets.recorded_plans import REPORT
from tests.tickets.scaffold.test_pipeline import SETTINGS, URL, Around, desk_of

DIFF = """\
diff --git a/src/a.py b/src/a.py
new file mode 100644
index 0000000000000000000000000000000000000000..8b7a5b2b6a4d9e7c6f5a4b3c2d1e0f9a8b7c6d5e
--- /dev/null
+++ b/src/a.py
@@ -0,0 +1,2 @@
+a = 1
+b = eval(a)
"""
DESCRIPTION = f"{fenced(BLOCK)}\n\n{review_params_block(PARAMS)}"
WHOLE = [
    "add_comment", "validate_branch_existence", "get_merge_request", "get_project_context orders",
    "get_architecture_context 42", "get_merge_request_diff", "get_published_notes", "publish_review", "add_comment",
]  # fmt: skip


def finding(path: str, line: int | None, severity: Severity = Severity.MAJOR) -> Finding:
    return Finding(
        file_path=path, line_number=line, severity=severity, description=f"Bad at {path}.", recommendation="Repair it."
    )


def report(*findings: Finding, verdict: ReviewVerdict = ReviewVerdict.COMMENT) -> CodeReviewReport:
    return CodeReviewReport(verdict=verdict, summary="Looked at it.", findings=findings, next_steps=("Repair.",))


class Reviewed(Around):
    """The same systems, with a merge request that has a diff."""

    def __init__(
        self, *, diff: str = DIFF, state: str = "opened", exists: bool = True, fails: str = "", fails_once: str = ""
    ) -> None:
        super().__init__(exists=exists, fails=fails, fails_once=fails_once)
        self._diff, self._state = diff, state
        self.notes: list[PublishedNote] = []
        self.published: list[CodeReviewReport] = []
        self.refuses_approval = False

    async def get_merge_request(self, project: str, number: str) -> MergeRequest:
        self._called("get_merge_request")
        branch = PARAMS.source_branch_name
        return MergeRequest(
            number=number, url=URL, state=self._state, source_branch=branch, target_branch="main", head="c0ffee"
        )

    async def get_merge_request_diff(self, project: str, number: str) -> str:
        self._called("get_merge_request_diff")
        return self._diff

    async def publish_review(self, project: str, number: str, report: CodeReviewReport, *, marker: str) -> None:
        self._called("publish_review")
        self.published.append(report)
        known = [note.body for note in self.notes]
        self.notes += [PublishedNote(body=note.text) for note in missing_notes(report, known, marker=marker)]

    async def approve_merge_request(self, project: str, number: str, *, head: str) -> None:
        self._called(f"approve_merge_request {head}")
        if self.refuses_approval:
            raise RemoteRejected("`gitlab` answered to `approve_merge_request`: 401 Unauthorized")

    async def get_published_notes(self, project: str, number: str) -> Sequence[PublishedNote]:
        self._called("get_published_notes")
        return self.notes


def reviewed(
    around: Reviewed,
    *replies: Step,
    description: Any = DESCRIPTION,
    settings: TicketSettings = SETTINGS,
    run_id: str = DRY_RUN,
) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(replies)
    payload = {"key": "SHOP-12", "summary": "Orders", "description": description, "status": "In Review"}
    run = DirectRun()
    run.run_id = RunId(run_id)
    return asyncio.run(CodeReviewerAgent(desk_of(around, model, settings)).review(run, payload)), model


@pytest.mark.req("REV-01", "REV-04", "REV-05", "REV-09", "REV-28", "REV-29", "REV-31", "REV-32", "REV-33", "REV-35")
@pytest.mark.req("REV-46", "REV-50", "REV-54", "REV-55", "REV-70")
def test_a_review_makes_these_calls_and_asks_once() -> None:
    around = Reviewed()
    ending, model = reviewed(around, answers(report(finding("src/a.py", 2))))
    assert (ending["outcome"], around.calls, len(model.asked)) == ("reviewed", WHOLE, 1)
    assert around.written[-1] == f"Review done: {URL}\nVerdict: COMMENT; 1 MAJOR.\nLooked at it."


@pytest.mark.req("REV-48", "REV-49")
def test_what_the_diff_does_not_bear_out_is_dropped_and_critical_is_never_approved() -> None:
    around = Reviewed()
    told = report(
        finding("src/a.py", 2, Severity.CRITICAL), finding("src/a.py", 99), finding("other.py", 1),
        verdict=ReviewVerdict.APPROVE,
    )  # fmt: skip
    reviewed(around, answers(told))
    (published,) = around.published
    assert (published.verdict, [(each.line_number, each.severity) for each in published.findings]) == (
        ReviewVerdict.REQUEST_CHANGES, [(2, Severity.CRITICAL), (None, Severity.MAJOR)],
    )  # fmt: skip


@pytest.mark.req("REV-10", "REV-56", "REV-75")
@pytest.mark.parametrize("at", [at for at in range(len(WHOLE)) if WHOLE[at] != "add_comment"])
def test_a_call_that_fails_ends_the_review_with_a_comment(at: int) -> None:
    around = Reviewed(fails=WHOLE[at])
    ending, _ = reviewed(around, answers(report()))
    assert (ending["outcome"], around.calls) == ("failed", [*WHOLE[: at + 1], "add_comment"])


@pytest.mark.req("REV-26", "REV-27", "REV-30", "REV-34")
@pytest.mark.parametrize(
    ("around", "description", "code", "calls"),
    [
        (Reviewed(), fenced(BLOCK), "mission_missing", []),
        (Reviewed(exists=False), DESCRIPTION, "merge_request_not_reviewable", WHOLE[:2]),
        (Reviewed(state="merged"), DESCRIPTION, "merge_request_not_reviewable", WHOLE[:3]),
        (Reviewed(diff=" \n"), DESCRIPTION, "merge_request_not_reviewable", WHOLE[:6]),
        (Reviewed(diff="no diff at all\n"), DESCRIPTION, "invalid_patch", WHOLE[:6]),
    ],
)
def test_what_cannot_be_reviewed_is_told_and_never_approved(
    around: Reviewed, description: str, code: str, calls: list[str]
) -> None:
    ending, model = reviewed(around, answers(report()), description=description)
    assert (ending["error"]["code"], around.calls, model.asked) == (code, [*calls, "add_comment"], [])


@pytest.mark.req("REV-36", "REV-37", "REV-38", "REV-39", "REV-40", "REV-41", "REV-42", "REV-43", "REV-44", "REV-45")
def test_the_question_is_the_same_bytes_and_has_all_dimensions() -> None:
    around = Reviewed()
    _, model = reviewed(around, answers(report()))
    _, again = reviewed(Reviewed(), answers(report()))
    assert model.asked == again.asked
    asked = model.asked[0]
    words = ("correctness", "security", "SOLID", "API usage", "tests and documentation", "severity")
    assert [word in asked.instructions for word in words] == [True] * len(words)
    said = str(asked.turns[0])
    assert [word in said for word in ("b = eval(a)", "Takes orders.", "Use hexagons.", "next_steps")] == [True] * 4


@pytest.mark.req("REV-52", "REV-53", "REV-73", "REV-74", "REV-76")
def test_a_scaffold_is_handed_over_to_the_review_and_findings_are_posted_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.aop("scaffold", KEY).code == 0
    env = {"AOP_MODEL_REPLAY": "", "CODE_REVIEW_LLM_MODEL_PRIORITY": "vllm:local"}
    step = endpoints.Step(calls=((ANSWER, REPORT),))
    with endpoints.serving("vllm", step, step) as server:
        first = place.aop("review", KEY, "--json", VLLM_BASE_URL=server.url, **env)
        second = place.aop("review", KEY, VLLM_BASE_URL=server.url, **env)
    assert (first.code, first.json["data"]["report"]["verdict"]) == (0, "REQUEST_CHANGES"), first.err
    assert second.out == f"REQUEST_CHANGES: 0 findings; local://{PROJECT}/-/merge_requests/1 (opened)\n"
    notes: Any = place.local.repositories.notes(PROJECT, 1)
    assert [(note["path"], note["line"], note["body"].partition("\n")[0]) for note in notes] == [
        ("pyproject.toml", 1, "**CRITICAL**: No name."),
        (None, None, "**Review: REQUEST_CHANGES** (1 CRITICAL, 1 MINOR)"),
    ]
    assert place.ticket["status"] == "In Review"


@pytest.mark.req("REV-07", "REV-08", "REV-17", "REV-72")
def test_a_provider_that_is_not_supported_is_refused_by_name_and_told_to_the_ticket(tmp_path: Path) -> None:
    place = Place(tmp_path, DESCRIPTION)
    ran = place.aop("review", KEY, "--json", VCS_PROVIDER="BITBUCKET")
    assert (ran.code, ran.json["error"]["code"]) == (1, "ticket_provider_unsupported")
    (comment,) = place.ticket["comments"]
    assert comment.startswith(
        "Review failed at step `parse` (reading the ticket): `VCS_PROVIDER` is `BITBUCKET`, which"
    )

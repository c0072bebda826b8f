"""Texts of a seal: verdicts by score, the terminal, and a page that no text can escape from."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from aop.core.ids import CommitId, ObjectId, TreeId
from aop.forge.builds.audit.audit_verdicts import NAMES, AuditCheck, AuditVerdict
from aop.forge.builds.documents import Seal, SealDimension
from aop.forge.builds.seal.dimensions import WEIGHTS, total_score
from aop.forge.builds.seal.seal import signed_bytes
from aop.forge.builds.seal.seal_texts import seal_page, seal_text
from aop.forge.builds.seal.seal_verdict import bounds_of, verdict_of

SEAL = Seal(
    version=1,
    seal_id="seal-1",
    build_id="notes-b1",
    project_id="notes",
    commit=CommitId(ObjectId("c" * 40)),
    tree=TreeId(ObjectId("e" * 40)),
    batch=2,
    batch_sha256="b" * 64,
    gate_runs=("gate-1",),
    audit={"A0": "PASS", "A1": "FAIL"},
    dimensions={
        "build_integrity": SealDimension(score=100, weight=0.15, formula="all phases", figures={"phases": 2}),
        "consistency": SealDimension(score=50, weight=0.1, formula="clauses", figures={"hold": 1}, delta=12.5),
        "architecture": SealDimension(score=0, weight=0.1, known=False, formula="unknown: no layer has files"),
    },
    score=20,
    verdict="FLAGGED",
    reasons=("A1 scope: FAIL. <script>alert(1)</script>\x1b[2J",),
    signature="sig",
    sealed_at="2026-11-17T09:00:00Z",
)


def test_the_nine_weights_make_a_whole() -> None:
    assert (len(WEIGHTS), round(sum(WEIGHTS.values()), 9)) == (9, 1.0)


@pytest.mark.parametrize(
    ("score", "verdict"),
    [
        (100, "CERTIFIED"),
        (90, "CERTIFIED"),
        (89.9, "CONDITIONAL"),
        (70, "CONDITIONAL"),
        (69.9, "FLAGGED"),
        (0, "FLAGGED"),
    ],
)
def test_the_score_decides_the_verdict(score: float, verdict: str) -> None:
    assert verdict_of(score) == verdict


@pytest.mark.parametrize(
    ("code", "found", "verdict", "told"),
    [
        ("A4", "PASS", "CERTIFIED", ()),
        ("A4", "WARN", "CERTIFIED", ()),
        ("A4", "FAIL", "CONDITIONAL", ("At most CONDITIONAL, whatever the score: A4 boundary compliance failed.",)),
        ("A8", "FAIL", "FLAGGED", ("FLAGGED, whatever the score: A8 tests failed.",)),
        ("W1", "FAIL", "FLAGGED", ("FLAGGED, whatever the score: W1 secrets failed.",)),
        ("W2", "FAIL", "CONDITIONAL", ("At most CONDITIONAL, whatever the score: W2 ledger integrity failed.",)),
        ("A8", "ERROR", "CONDITIONAL", ("At most CONDITIONAL, whatever the score: A8 tests could not be computed.",)),
    ],
)
def test_no_score_makes_up_for_a_check_that_fails_or_is_not_computed(
    code: str, found: AuditVerdict, verdict: str, told: tuple[str, ...]
) -> None:
    bounds = bounds_of((AuditCheck(code=code, name=NAMES[code], verdict=found, proof=()),), unsigned=0)
    assert (verdict_of(100, bounds), tuple(each.told for each in bounds)) == (verdict, told)


def test_no_score_makes_up_for_a_phase_without_a_sign_off() -> None:
    bounds = bounds_of((), unsigned=1)
    assert (verdict_of(100, bounds), verdict_of(60, bounds)) == ("CONDITIONAL", "FLAGGED")
    assert bounds[0].told == "At most CONDITIONAL, whatever the score: 1 phase not signed off on what is sealed."


def test_the_score_is_the_weighted_sum_and_the_unknown_is_nothing() -> None:
    assert total_score(SEAL.dimensions) == 20.0


def test_the_text_says_what_is_unknown_what_moved_and_why() -> None:
    assert seal_text(SEAL).splitlines() == [
        "notes-b1: FLAGGED, 20 of 100; 1 dimension unknown",
        "",
        f"  commit  {'c' * 40}",
        f"  tree    {'e' * 40}",
        f"  batch   2, {'b' * 64}",
        "  runs    gate-1",
        "",
        "  build_integrity    100.0  x 0.15",
        "  consistency         50.0  x 0.10  +12.5 since the baseline",
        "  architecture     unknown  x 0.10",
        "",
        "  audit   A0 PASS  A1 FAIL",
        "",
        "Why not 100:",
        "  - A1 scope: FAIL. <script>alert(1)</script>\\u{1b}[2J",
    ]


def test_the_page_escapes_every_text_and_asks_for_nothing() -> None:
    page = seal_page(SEAL)

    class Seen(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.tags: set[str] = set()
            self.addresses: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.tags.add(tag)
            self.addresses += [str(value) for name, value in attrs if name in ("src", "href", "action")]

    seen = Seen()
    seen.feed(page)
    assert "script" not in seen.tags
    assert seen.addresses == []
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "default-src 'none'; style-src 'unsafe-inline'" in page


def test_the_signature_is_over_everything_but_itself() -> None:
    assert b'"signature"' not in signed_bytes(SEAL)
    assert b'"score"' in signed_bytes(SEAL)
    assert b'"reasons"' in signed_bytes(SEAL)

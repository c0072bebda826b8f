"""Answer of a review: what the model reports, and what of it is published."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from aop.core.text.counts import count
from aop.reviews.report import CodeReviewReport, Finding, ReviewVerdict, Severity
from aop.tickets.comments import MARKER
from aop.tickets.ports import PublishedNote

_FINDING = re.compile(rf"^{MARKER}: finding/([0-9a-f]{{16}})\s*$", re.MULTILINE)
_CRITICAL = re.compile(rf"^\W*{Severity.CRITICAL}\b")
_GRAVE = re.compile(rf"^\W*({Severity.CRITICAL}|{Severity.MAJOR})\b")
SHORTEST_LINE = 4
"""A shorter line (a brace, a keyword) does not identify a finding."""


class CriterionState(StrEnum):
    """The state of an acceptance criterion."""

    MET = "MET"
    NOT_MET = "NOT_MET"
    NOT_SHOWN = "NOT_SHOWN"
    """The diff shows neither."""


class JudgedCriterion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A criterion by its number, with the model's judgement."""

    number: Annotated[int, Meta(ge=1)]
    state: CriterionState
    evidence: Annotated[str, Meta(max_length=1_000)] = ""


class TicketReview(CodeReviewReport, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model's report, with acceptance criteria and earlier findings."""

    criteria: tuple[JudgedCriterion, ...] = ()
    still_open: tuple[str, ...] = ()
    """Ids of earlier findings that still hold."""


class Criterion(Struct, frozen=True, kw_only=True):
    """An acceptance criterion as the summary shows it."""

    text: str
    state: CriterionState = CriterionState.NOT_SHOWN
    evidence: str = ""


class MarkedFinding(Finding, frozen=True, kw_only=True):
    """A finding with a fingerprint, by which a later review recognizes it."""

    fingerprint: str


class PublishedReview(CodeReviewReport, frozen=True, kw_only=True):
    """A checked report as it is published, with new findings only."""

    findings: tuple[MarkedFinding, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    carried_over: tuple[str, ...] = ()
    """Findings of earlier reviews, by fingerprint, that still hold and are not resolved."""
    gone: int = 0
    """The number of earlier findings that were not found again."""
    unreviewed: tuple[str, ...] = ()
    """The parts that were not reviewed, with the reason."""
    dropped: int = 0
    """The number of findings that the diff does not confirm."""
    number: int = 1
    """The number of this summary on the merge request."""
    has_news: bool = True
    """Whether it differs from the last summary."""
    objection: str = ""
    """The reason not to approve the merge request; empty if there is none."""

    @property
    def digest(self) -> str:
        """Return a digest that is equal for two summaries with the same content."""
        open_now = sorted([*self.carried_over, *(finding.fingerprint for finding in self.findings)])
        states = [f"{criterion.state}" for criterion in self.criteria]
        return _digest([self.verdict, *open_now, "criteria", *states, "unreviewed", *sorted(self.unreviewed)])


class KnownFinding(Struct, frozen=True, kw_only=True):
    """A finding of an earlier review."""

    fingerprint: str
    text: str
    resolved: bool


class KnownReview(Struct, frozen=True, kw_only=True):
    """The earlier reviews of a merge request."""

    findings: tuple[KnownFinding, ...] = ()
    number: int = 0
    digest: str = ""


SUMMARY = "AOP-Review"
_SUMMARY = re.compile(rf"^{SUMMARY}: ([0-9]{{1,6}}) ([0-9a-f]{{16}})\s*$", re.MULTILINE)


def known_review(notes: Sequence[PublishedNote]) -> KnownReview:
    """Return the earlier reviews, from notes in any order."""
    findings = {
        mark: KnownFinding(fingerprint=mark, text=note.body.partition(MARKER)[0].strip(), resolved=note.resolved)
        for note in notes
        for mark in _FINDING.findall(note.body)
    }
    summaries = [(int(number), digest) for note in notes for number, digest in _SUMMARY.findall(note.body)]
    number, digest = max(summaries, default=(0, ""))
    return KnownReview(findings=tuple(findings.values()), number=number, digest=digest)


def published_review(
    review: TicketReview, known: KnownReview, criteria: Sequence[str], lines: Mapping[tuple[str, int], str]
) -> PublishedReview:
    """Compare a checked review with earlier ones and with the acceptance criteria."""
    found = marked_findings(review.findings, lines)
    before = {each.fingerprint: each for each in known.findings}
    seen = {finding.fingerprint for finding in found} | set(review.still_open)
    carried = tuple(mark for mark, each in before.items() if mark in seen and not each.resolved)
    judged = criteria_states(criteria, review.criteria)
    worst = any(_CRITICAL.match(before[mark].text) for mark in carried)
    unmet = any(criterion.state is CriterionState.NOT_MET for criterion in judged)
    return PublishedReview(
        verdict=ReviewVerdict.REQUEST_CHANGES if worst or unmet else review.verdict,
        summary=review.summary,
        findings=tuple(finding for finding in found if finding.fingerprint not in before),
        next_steps=review.next_steps,
        criteria=judged,
        carried_over=carried,
        gone=sum(not each.resolved for each in known.findings) - len(carried),
        number=known.number + 1,
    )


def with_news(review: PublishedReview, known: KnownReview) -> PublishedReview:
    """Return a review that says whether it has news."""
    return replace(review, has_news=bool(review.findings) or review.digest != known.digest)


def with_objection(review: PublishedReview, known: KnownReview) -> PublishedReview:
    """Return a review with its objection to approval: verdict, grave finding, unmet criterion or unreviewed part."""
    before = {each.fingerprint: each.text for each in known.findings}
    still_grave = any(_GRAVE.match(before.get(mark, "")) for mark in review.carried_over)
    grave = still_grave or any(finding.severity.is_at_least(Severity.MAJOR) for finding in review.findings)
    unproven = sum(criterion.state is not CriterionState.MET for criterion in review.criteria)
    objection = ""
    if review.verdict is not ReviewVerdict.APPROVE:
        objection = f"the verdict is {review.verdict}"
    elif grave:
        objection = "a CRITICAL or MAJOR finding is open"
    elif unproven:
        objection = f"{count(unproven, 'acceptance criterion', 'acceptance criteria')} not shown to be met"
    elif review.unreviewed:
        objection = "a part of the diff was not reviewed"
    return replace(review, objection=objection)


def criteria_states(criteria: Sequence[str], judged: Sequence[JudgedCriterion]) -> tuple[Criterion, ...]:
    """Return each criterion of the ticket in order, with its worst judgement."""
    order = [CriterionState.NOT_MET, CriterionState.MET, CriterionState.NOT_SHOWN]
    shown = []
    for number, text in enumerate(criteria, 1):
        judgements = sorted(
            (each for each in judged if each.number == number), key=lambda each: order.index(each.state)
        )
        first = judgements[0] if judgements else JudgedCriterion(number=number, state=CriterionState.NOT_SHOWN)
        shown.append(Criterion(text=text, state=first.state, evidence=first.evidence))
    return tuple(shown)


def marked_findings(findings: Sequence[Finding], lines: Mapping[tuple[str, int], str]) -> tuple[MarkedFinding, ...]:
    """Give each finding a fingerprint of its file and the text of its line."""
    marked: dict[str, MarkedFinding] = {}
    for finding in dict.fromkeys(findings):
        line = "" if finding.line_number is None else lines.get((finding.file_path, finding.line_number), "")
        line = " ".join(line.split())
        about = line if len(line) >= SHORTEST_LINE else " ".join(finding.description.lower().split())
        again = 0
        while (mark := _digest([finding.file_path, about, *[str(again)] * (again > 0)])) in marked:
            again += 1
        marked[mark] = MarkedFinding(**asdict(finding), fingerprint=mark)
    return tuple(marked.values())


def _digest(parts: Sequence[str]) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]

"""What a reviewer of a ticket's merge request answers, and what of it is published: checked, and only what is new."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from aop.reviews.report import CodeReviewReport, Finding, ReviewVerdict, Severity
from aop.tickets.comments import MARKER
from aop.tickets.ports import PublishedNote

_FINDING = re.compile(rf"^{MARKER}: finding/([0-9a-f]{{16}})\s*$", re.MULTILINE)
_CRITICAL = re.compile(rf"^\W*{Severity.CRITICAL}\b")
_GRAVE = re.compile(rf"^\W*({Severity.CRITICAL}|{Severity.MAJOR})\b")
SHORTEST_LINE = 4
"""What is shorter (a brace, a keyword) says too little to know a finding by."""


class CriterionState(StrEnum):
    """What a review says of an acceptance criterion."""

    MET = "MET"
    NOT_MET = "NOT_MET"
    NOT_SHOWN = "NOT_SHOWN"
    """The change does not show it, neither for nor against."""


class JudgedCriterion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model says of a criterion, by its number."""

    number: Annotated[int, Meta(ge=1)]
    state: CriterionState
    evidence: Annotated[str, Meta(max_length=1_000)] = ""


class TicketReview(CodeReviewReport, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The report of a review, with what it says of the ticket and of earlier findings."""

    criteria: tuple[JudgedCriterion, ...] = ()
    still_open: tuple[str, ...] = ()
    """Ids of earlier findings that still hold."""


class Criterion(Struct, frozen=True, kw_only=True):
    """An acceptance criterion as the summary shows it."""

    text: str
    state: CriterionState = CriterionState.NOT_SHOWN
    evidence: str = ""


class MarkedFinding(Finding, frozen=True, kw_only=True):
    """A finding that can be known again in a later review."""

    fingerprint: str


class PublishedReview(CodeReviewReport, frozen=True, kw_only=True):
    """A checked report with all that is told of it; its findings are those that nobody was told of before."""

    findings: tuple[MarkedFinding, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    carried_over: tuple[str, ...] = ()
    """Findings of earlier reviews, by fingerprint, that still hold and are not resolved."""
    gone: int = 0
    """How many findings of earlier reviews were not found again."""
    unreviewed: tuple[str, ...] = ()
    """What no model looked at, and why."""
    dropped: int = 0
    """How many findings the diff does not bear out."""
    number: int = 1
    """The how-manieth summary of this merge request this is."""
    has_news: bool = True
    """Whether it says anything that the last summary does not say."""
    objection: str = ""
    """What stands against approving the merge request; empty: nothing does."""

    @property
    def digest(self) -> str:
        """Return what two summaries share that say the same."""
        open_now = sorted([*self.carried_over, *(finding.fingerprint for finding in self.findings)])
        states = [f"{criterion.state}" for criterion in self.criteria]
        return _digest([self.verdict, *open_now, "criteria", *states, "unreviewed", *sorted(self.unreviewed)])


class KnownFinding(Struct, frozen=True, kw_only=True):
    """A finding that an earlier review wrote down."""

    fingerprint: str
    text: str
    resolved: bool


class KnownReview(Struct, frozen=True, kw_only=True):
    """What earlier reviews left at a merge request."""

    findings: tuple[KnownFinding, ...] = ()
    number: int = 0
    digest: str = ""


SUMMARY = "AOP-Review"
_SUMMARY = re.compile(rf"^{SUMMARY}: ([0-9]{{1,6}}) ([0-9a-f]{{16}})\s*$", re.MULTILINE)


def known_review(notes: Sequence[PublishedNote]) -> KnownReview:
    """Return what earlier reviews wrote, in whatever order the notes come."""
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
    """Hold a checked review against earlier ones and against the ticket's criteria."""
    found = marked_findings(review.findings, lines)
    before = {each.fingerprint: each for each in known.findings}
    seen = {finding.fingerprint for finding in found} | set(review.still_open)
    carried = tuple(mark for mark, each in before.items() if mark in seen and not each.resolved)
    judged = judged_criteria(criteria, review.criteria)
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
    """Say whether a review has anything that was not said last."""
    return replace(review, has_news=bool(review.findings) or review.digest != known.digest)


def with_objection(review: PublishedReview, known: KnownReview) -> PublishedReview:
    """Say what stands against approving: its own verdict, a grave finding, what is not proven, what was not seen."""
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
        objection = f"{unproven} of the acceptance criteria are not shown to be met"
    elif review.unreviewed:
        objection = "a part of the diff was not reviewed"
    return replace(review, objection=objection)


def judged_criteria(criteria: Sequence[str], judged: Sequence[JudgedCriterion]) -> tuple[Criterion, ...]:
    """Return every criterion of the ticket, in its order; of several judgements the worst counts."""
    order = [CriterionState.NOT_MET, CriterionState.MET, CriterionState.NOT_SHOWN]
    shown = []
    for number, text in enumerate(criteria, 1):
        said = sorted((each for each in judged if each.number == number), key=lambda each: order.index(each.state))
        first = said[0] if said else JudgedCriterion(number=number, state=CriterionState.NOT_SHOWN)
        shown.append(Criterion(text=text, state=first.state, evidence=first.evidence))
    return tuple(shown)


def marked_findings(findings: Sequence[Finding], lines: Mapping[tuple[str, int], str]) -> tuple[MarkedFinding, ...]:
    """Give each finding what it is known by: its file and the text of its line, wherever that moves to."""
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

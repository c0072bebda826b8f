"""Tool `report.search`: words in features, specs, plans, questions and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from aop.core.errors import Refusal
from aop.core.ids import FeatureId
from aop.kernel.features.specs import spec_text, title_in
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Snapshot
from aop.kernel.record.projections import FEATURES

MOST_OF_A_KIND = 20
MOST_SPECS = 10_000
AROUND = 60
"""So many letters of a text are shown on each side of the first word that was found."""
FoundKind = Literal["feature", "spec", "plan", "question", "file"]


class SearchWords(Arguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=200)]
    """Words that must all be there, in upper or lower case."""


class Found(Struct, frozen=True, kw_only=True):
    """A place with all of the words."""

    kind: FoundKind
    feature_id: str
    name: str
    """The title, path, question or clause in which they are."""
    excerpt: str
    """The text around the first word, without secrets."""


class FoundPlaces(Struct, frozen=True, kw_only=True):
    found: tuple[Found, ...]
    """The places: features, specs, plans, questions, then files that features change."""
    left_out: tuple[FoundKind, ...]
    """The kinds of which only the first places are listed."""


def search(call: Call, arguments: SearchWords) -> Outcome:
    """Search what the caller may reach; `report.journal` searches the journal."""
    words = arguments.text.casefold().split()
    with call.kernel.record.read() as view:
        reaches = call.principal.reaches
        sources: tuple[Iterable[Found], ...] = (
            _features(call.kernel, view, reaches),
            _specs(call.kernel, reaches),
            _plans(view, reaches),
            _questions(view, reaches),
            _files(view, reaches),
        )
        hits = [list(islice(_matching(source, words, call), MOST_OF_A_KIND + 1)) for source in sources]
    return FoundPlaces(
        found=tuple(chain.from_iterable(each[:MOST_OF_A_KIND] for each in hits)),
        left_out=tuple(each[0].kind for each in hits if len(each) > MOST_OF_A_KIND),
    )


def _matching(source: Iterable[Found], words: list[str], call: Call) -> Iterator[Found]:
    mask = call.kernel.redact.mask_secrets
    for each in source:
        if not _has_all(each, words):
            continue
        masked = replace(each, name=mask(each.name), excerpt=mask(each.excerpt))
        # A word of a secret would be found letter by letter.
        if _has_all(masked, words):
            yield replace(masked, excerpt=_part(masked.excerpt, words))


def _has_all(place: Found, words: list[str]) -> bool:
    named = place.feature_id if place.kind == "feature" else ""
    whole = f"{named} {place.name} {place.excerpt}".casefold()
    return all(word in whole for word in words)


def _part(text: str, words: list[str]) -> str:
    one_line = " ".join(text.split())
    folded = one_line.casefold()
    at = min((place for word in words if (place := folded.find(word)) >= 0), default=0)
    begin, end = max(0, at - AROUND), at + 3 * AROUND
    return f"{'...' if begin else ''}{one_line[begin:end]}{'...' if end < len(one_line) else ''}"


Reaches = Callable[[FeatureId], bool]


def _features(kernel: Kernel, view: Snapshot, reaches: Reaches) -> Iterator[Found]:
    for state in view.all(FeatureState):
        if reaches(state.feature_id):
            said = f"{state.status.replace('_', ' ')} {state.status_reason}"
            title = state.title or title_in(_spec(kernel, state.feature_id))
            yield Found(kind="feature", feature_id=state.feature_id, name=title, excerpt=said)


def _specs(kernel: Kernel, reaches: Reaches) -> Iterator[Found]:
    for name in kernel.files.folders(FEATURES, limit=MOST_SPECS):
        if reaches(FeatureId(name)) and (text := _spec(kernel, name)):
            yield Found(kind="spec", feature_id=name, name=title_in(text) or name, excerpt=text)


def _spec(kernel: Kernel, name: str) -> str:
    try:
        return spec_text(kernel, name) or ""
    except Refusal:
        return ""


def _plans(view: Snapshot, reaches: Reaches) -> Iterator[Found]:
    for accepted in view.all(AcceptedPlan):
        plan = accepted.plan
        if reaches(FeatureId(plan.feature_id)):
            for text in (plan.summary, *plan.acceptance_criteria, *(plan.risk or ()), _planned_files(plan)):
                name = f"Plan {plan.plan_version}"
                yield Found(kind="plan", feature_id=plan.feature_id, name=name, excerpt=text)


def _planned_files(plan: Plan) -> str:
    return " ".join((*plan.files.create, *plan.files.modify, *plan.files.delete))


def _questions(view: Snapshot, reaches: Reaches) -> Iterator[Found]:
    for each in view.all(Question):
        if reaches(each.feature_id):
            said = f"{each.text} {each.answer or ''}"
            yield Found(kind="question", feature_id=each.feature_id, name=each.question_id, excerpt=said)


def _files(view: Snapshot, reaches: Reaches) -> Iterator[Found]:
    for index in view.all(QaIndex):
        if reaches(index.feature_id):
            for item in index.items:
                yield Found(kind="file", feature_id=index.feature_id, name=item.path, excerpt=f"QA: {item.status}")


TOOLS = (
    Tool(
        name="report.search",
        summary="Search features, specs, plans, questions and changed files for words.",
        arguments=SearchWords,
        output=FoundPlaces,
        roles=COORDINATORS,
        run=search,
    ),
)

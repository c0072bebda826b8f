"""Tool `report.cards`: the title, size and attempt of each feature."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from aop.core.errors import Refusal
from aop.core.ids import FeatureId
from aop.core.text.visible import visible
from aop.kernel.features.specs import LARGEST_SPEC, spec_path, title_in
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.record.documents.base import Document
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.documents.usage import OpenTurn
from aop.kernel.tools.report.turn_lines import turn_line_text

TURN_LOGS = ".aop/logs"
"""The folder with the log of each role's newest turn."""
LOG_TAIL_BYTES = 4096
LONGEST_WORDS = 200


class FeatureCard(Struct, frozen=True, kw_only=True, gc=False):
    """The facts of a feature on its card, besides its status."""

    feature_id: str
    title: str
    """The title of its pull request, or the first heading of its spec; empty without both."""
    files: int
    """The number of files that it changes."""
    lines: int
    """The number of lines that it changes, of the old or the new version."""
    attempt: int
    """How many trees its agents have made; 0 before the first patch."""
    doing: str
    """The last words or call of the turn in progress, without secrets; empty if no turn is."""


class Cards(Struct, frozen=True, kw_only=True):
    cards: tuple[FeatureCard, ...]
    """One for each feature that the caller may reach."""


class _Named(Document, frozen=True, kw_only=True, gc=False):
    kind: ClassVar[str] = FeatureState.kind

    feature_id: FeatureId
    title: str = ""


class _Lines(Struct, frozen=True, kw_only=True, gc=False):
    start_line: int
    end_line: int


class _File(Struct, frozen=True, kw_only=True, gc=False):
    hunks: tuple[_Lines, ...]


class _Changes(Document, frozen=True, kw_only=True, gc=False):
    """The part of a `QaIndex` that a card shows."""

    kind: ClassVar[str] = QaIndex.kind

    feature_id: FeatureId
    items: tuple[_File, ...]


def cards(call: Call, _arguments: Arguments) -> Outcome:
    """Return one card for each feature that the caller may reach."""
    with call.kernel.record.read() as view:
        names = [each for each in view.all(_Named) if call.principal.reaches(each.feature_id)]
        changes = {each.feature_id: each for each in view.all(_Changes)}
        turns = {turn.feature_id: turn for turn in view.all(OpenTurn)}
    rows = (_card(call.kernel, each, changes.get(each.feature_id), turns.get(each.feature_id)) for each in names)
    return Cards(cards=tuple(rows))


def _card(kernel: Kernel, feature: _Named, changes: _Changes | None, turn: OpenTurn | None) -> FeatureCard:
    items = changes.items if changes else ()
    return FeatureCard(
        feature_id=feature.feature_id,
        title=feature.title or _title(kernel, feature.feature_id),
        files=len(items),
        lines=sum(hunk.end_line - hunk.start_line + 1 for item in items for hunk in item.hunks),
        attempt=changes.version if changes else 0,
        doing=_last_words(kernel, turn) if turn else "",
    )


def _last_words(kernel: Kernel, turn: OpenTurn) -> str:
    tail = kernel.files.read_tail(f"{TURN_LOGS}/{turn.feature_id}/{turn.worker}.log", limit=LOG_TAIL_BYTES)
    lines = [line for line in kernel.redact(tail.decode(errors="replace")).splitlines() if line.strip()]
    return visible(turn_line_text(lines[-1].strip()))[:LONGEST_WORDS] if lines else ""


def _title(kernel: Kernel, name: FeatureId) -> str:
    try:
        data = kernel.files.read(spec_path(name), limit=LARGEST_SPEC)
    except Refusal:
        return ""
    # Only the title is searched for secrets: a board has hundreds of specs, and is drawn often.
    return "" if data is None else kernel.redact.mask_secrets(title_in(data.decode(errors="replace")))


TOOLS = (
    Tool(
        name="report.cards",
        summary="List the title, the size and the attempt of each feature, as cards of a board show them.",
        arguments=Arguments,
        output=Cards,
        roles=READERS,
        run=cards,
    ),
)

"""Tool `report.costs`: the cost of turns by run, feature, role, model and day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.config.people import CostRules
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.questions import RAISE, Question
from aop.kernel.record.documents.usage import OpenTurn, Spending, Sum, Usage
from aop.kernel.record.port import JournalEntry
from aop.kernel.record.spending import tokens_of, total_of, turn_spending

TURNS = ("turn_taken", "work_reviewed")
NO_MODEL = "model unknown"


class CostRow(Struct, frozen=True, kw_only=True):
    """The cost of the turns that have something in common."""

    name: str
    spent: Spending


class CapRow(Struct, frozen=True, kw_only=True):
    """A cap of the policy, and what was spent under it."""

    scope: str
    """`feature` or `run`."""
    name: str
    """The feature or the run."""
    figure: str
    """`usd` or `tokens`."""
    cap: float
    """The cap of the policy."""
    allowed: float
    """The cap with what people added to it: each `raise` allows as much again."""
    spent: Sum


class Costs(Struct, frozen=True, kw_only=True):
    total: Spending
    """The cost of all turns."""
    runs: tuple[CostRow, ...]
    """By run of the supervisor."""
    features: tuple[CostRow, ...]
    """By feature."""
    roles: tuple[CostRow, ...]
    """By role of the agent."""
    models: tuple[CostRow, ...]
    """By coding agent and model."""
    days: tuple[CostRow, ...]
    """By day of UTC, the first one first."""
    caps: tuple[CapRow, ...]
    """Each cap of the policy for each feature or run with a turn; empty without caps."""
    open_turns: int
    """The number of turns that have begun and whose cost is not known yet."""


class _Turn(Struct, frozen=True, kw_only=True):
    run: str
    feature: str
    role: str
    model: str
    day: str
    spent: Spending


def costs(call: Call, _arguments: Arguments) -> Outcome:
    """Sum up the turns of the features that the caller may reach."""
    reaches = call.principal.reaches
    with call.kernel.record.read() as view:
        entries = [each for each in view.journal(kinds=TURNS) if each.event.feature_id]
        questions = [each.about for each in view.all(Question) if each.answer == RAISE]
        pending = sum(1 for turn in view.all(OpenTurn) if reaches(turn.feature_id))
    turns = [_turn(each) for each in entries if reaches(each.event.feature_id or FeatureId(""))]
    turns = [each for each in turns if each.spent.turns]
    runs, features = _rows(turns, "run"), _rows(turns, "feature")
    return Costs(
        total=total_of(each.spent for each in turns),
        runs=runs,
        features=features,
        roles=_rows(turns, "role"),
        models=_rows(turns, "model"),
        days=_rows(turns, "day"),
        caps=_caps(call.kernel.config().policy.cost, {"run": runs, "feature": features}, questions),
        open_turns=pending,
    )


def _turn(entry: JournalEntry) -> _Turn:
    said, event = entry.event.payload, entry.event
    usage = msgspec.convert(said.get("usage"), Usage | None)
    is_review = event.kind == "work_reviewed"
    provider = "review" if is_review else str(said.get("provider") or "")
    return _Turn(
        run="review" if is_review else str(said.get("run") or ""),
        feature=str(event.feature_id),
        role="reviewer" if is_review else str(said.get("worker") or ""),
        model=f"{provider} {said.get('model') or NO_MODEL}".strip(),
        day=event.at[:10],
        # A review by a command costs nothing, and is no turn of a model.
        spent=Spending() if is_review and usage is None else turn_spending(usage),
    )


def _rows(turns: Iterable[_Turn], part: str) -> tuple[CostRow, ...]:
    sides: dict[str, list[Spending]] = {}
    for turn in turns:
        sides.setdefault(getattr(turn, part), []).append(turn.spent)
    return tuple(CostRow(name=name, spent=total_of(spent)) for name, spent in sorted(sides.items()))


def _caps(rules: CostRules, rows: Mapping[str, Sequence[CostRow]], raised: Sequence[str]) -> tuple[CapRow, ...]:
    found = []
    for scope, figure in product(("run", "feature"), ("usd", "tokens")):
        cap = float(getattr(rules, f"max_{figure}_per_{scope}"))
        for each in rows[scope] if cap else ():
            times = 1 + raised.count(f"cost:{scope}:{each.name}:{figure}")
            spent = each.spent.cost_usd if figure == "usd" else tokens_of(each.spent)
            found.append(CapRow(scope=scope, name=each.name, figure=figure, cap=cap, allowed=cap * times, spent=spent))
    return tuple(found)


TOOLS = (
    Tool(
        name="report.costs",
        summary="Sum up what turns cost, by run, feature, role, model and day, with the caps of the policy.",
        arguments=Arguments,
        output=Costs,
        roles=COORDINATORS,
        run=costs,
    ),
)

"""Past work on features: last role, gates, trees and cost, from journal entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.record.documents.usage import NOTHING, Spending, Usage
from aop.kernel.record.port import Event, JournalEntry
from aop.kernel.record.spending import total_of, turn_spending

NEW_TREE = ("patch_applied", "edits_taken")
OTHER_PROOF = ("feature_initialised", "plan_revised", "tree_undone", "tree_redone", "feature_rebased", *NEW_TREE)
"""The events after which earlier gate runs may prove nothing."""
GATES = ("gates_ran", "gates_reused")
WORK_EVENTS = (*OTHER_PROOF, *GATES, "turn_taken")


class PastWork(Struct, frozen=True, kw_only=True):
    """Work on a feature up to some entry of the journal."""

    role: str = ""
    gates: Mapping[str, str] = {}
    attempt: int = 0
    spent: Spending = NOTHING


def past_work(entries: Iterable[JournalEntry]) -> dict[FeatureId, PastWork]:
    """Return the work on each feature; what belongs to a deleted feature of the same name does not count."""
    known: dict[FeatureId, PastWork] = {}
    for event in (entry.event for entry in entries):
        if event.feature_id is not None and event.kind in WORK_EVENTS:
            known[event.feature_id] = _after(known.get(event.feature_id, PastWork()), event)
    return known


def _after(before: PastWork, event: Event) -> PastWork:
    facts = event.payload
    if event.kind == "feature_initialised":
        return PastWork()
    if event.kind in OTHER_PROOF:
        return msgspec.structs.replace(before, gates={}, attempt=before.attempt + (event.kind in NEW_TREE))
    if event.kind in GATES:
        # A run is reused only if it passed.
        verdict = str(facts.get("verdict", "pass"))
        return msgspec.structs.replace(before, gates={**before.gates, str(facts["mode"]): verdict})
    turn = turn_spending(msgspec.convert(facts.get("usage"), Usage | None))
    return msgspec.structs.replace(before, role=str(facts["worker"]), spent=total_of([before.spent, turn]))

"""Revisions of a plan: its accepted versions, and the changes between two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.features.requests.clauses import clauses_of
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.port import JournalEntry, Snapshot

PLAN_EVENTS = ("plan_accepted", "plan_revised")
_ALIKE = 0.6
"""Two texts that share so much of their words are one clause, reworded."""
_MOST_COMPARED = 40
"""So many texts of a kind are compared by their words; more are told as gone and new."""


class PlanVersion(Struct, frozen=True, kw_only=True):
    """An accepted version of a feature's plan."""

    version: int
    at: str
    """When it was accepted, in UTC."""
    by: str
    """The planner, or the person."""
    seq: int
    """The number of the journal at which it was accepted."""
    why: str
    """The reason that the revision gives; empty for a first plan, and where none is given."""
    summary: str
    plan: Plan | None
    """Null if an older AOP accepted it: that kept the newest text alone."""
    is_earlier: bool
    """Whether the feature has begun anew since: its plans are counted from 1 again."""


class ClauseChange(Struct, frozen=True, kw_only=True):
    """A change of one clause between two versions of a plan."""

    clause: str
    """The kind of clause: `criterion`, `file`, `allowed area`, `gate profile` ..."""
    change: Literal["new", "gone", "changed"]
    """Whether it is new, gone, or says something else."""
    sentence: str
    """The change in words, without the texts: `criterion 2 is reworded`."""
    old_name: str
    """Its name in the old version, such as `criterion-2`; empty if it is new, or has no name."""
    new_name: str
    """Its name in the new version; empty if it is gone, or has no name."""
    old: str
    """Its text in the old version; empty if it is new."""
    new: str
    """Its text in the new version; empty if it is gone."""


def plan_versions(view: Snapshot, feature_id: FeatureId) -> tuple[PlanVersion, ...]:
    """Return every version of the plan of a feature that was accepted, the oldest first."""
    entries = _since_its_beginning(view, feature_id)
    accepted = view.get(AcceptedPlan, feature_id)
    first = max((entry.seq for entry in entries if entry.event.kind == "plan_accepted"), default=0)
    return tuple(_version(entry, accepted, is_earlier=accepted is None or entry.seq < first) for entry in entries)


def _since_its_beginning(view: Snapshot, feature_id: FeatureId) -> list[JournalEntry]:
    """Return the acceptances of this feature, and not those of a deleted one that had its name."""
    found: list[JournalEntry] = []
    for entry in view.journal(feature_id=feature_id, kinds=("feature_initialised", *PLAN_EVENTS)):
        if entry.event.kind == "feature_initialised":
            found.clear()
        else:
            found.append(entry)
    return found


def _version(entry: JournalEntry, accepted: AcceptedPlan | None, *, is_earlier: bool) -> PlanVersion:
    event, facts = entry.event, entry.event.payload
    version = int(str(facts["plan_version"]))
    is_newest = accepted is not None and not is_earlier and accepted.version == version
    plan = accepted.plan if accepted is not None and is_newest else _plan_in(facts.get("plan"))
    return PlanVersion(
        version=version,
        at=event.at,
        by=event.actor,
        seq=entry.seq,
        why="" if plan is None else plan.revision_reason or "",
        summary=str(facts.get("summary", "")),
        plan=plan,
        is_earlier=is_earlier,
    )


def _plan_in(stored: Any) -> Plan | None:
    if stored is None:
        return None
    try:
        return msgspec.convert(stored, Plan)
    except msgspec.ValidationError:
        # The journal is never rewritten, so it may hold a plan of a shape that is no longer valid.
        return None


def plan_changes(old: Plan, new: Plan) -> tuple[ClauseChange, ...]:
    """Return what changed from one version of a plan to another, clause by clause."""
    before, after = _texts(old), _texts(new)
    return tuple(change for kind in before for change in _changes_of(kind, before[kind], after[kind]))


Clauses = Sequence[tuple[str, str]]
"""The name and the text of each clause of a kind; the name is empty if no comment can be about it."""


def _texts(plan: Plan) -> dict[str, Clauses]:
    named = list(clauses_of(plan).items())
    contracts: dict[str, str] = msgspec.to_builtins(plan.contracts)
    return {
        **{kind: [each for each in named if each[0].partition("-")[0] == kind] for kind in _NAMED},
        "allowed area": _nameless(plan.allowed_areas),
        "forbidden area": _nameless(plan.forbidden_areas),
        "contract": _nameless([f"{name}: {word}" for name, word in contracts.items()]),
        "base": _nameless([plan.base_ref]),
        "gate profile": _nameless([plan.gate_profile]),
        "gate target": _nameless(plan.gate_targets or ()),
        "gate step": _nameless(list(_own_steps(plan))),
        "test change": _nameless([f"{each.test}: {each.reason}" for each in plan.test_changes or ()]),
    }


_NAMED = ("summary", "criterion", "risk", "file")
_WORDED = frozenset({"summary", "criterion", "risk"})
_SINGLE = frozenset({"summary", "base", "gate profile"})
_SUBJECTS = {"file": " ", "contract": ":", "test change": ": ", "gate step": ": "}
"""The kinds whose texts are about a subject: the file, contract, test or step before or after this mark."""


def _nameless(texts: Sequence[str]) -> Clauses:
    return [("", text) for text in texts]


def _own_steps(plan: Plan) -> Iterator[str]:
    modes = plan.verification_overrides.modes if plan.verification_overrides else None
    for name in ("fast", "full"):
        mode = getattr(modes, name, None)
        for step in mode.steps if mode is not None else ():
            limit = f" ({step.timeout_seconds} s)" if step.timeout_seconds else ""
            yield f"{name} {step.name}: {' '.join(step.cmd)}{limit}"


def _changes_of(kind: str, old: Clauses, new: Clauses) -> Iterator[ClauseChange]:
    gone, came = _only_in(old, new), _only_in(new, old)
    few = max(len(gone), len(came)) <= _MOST_COMPARED
    for clause in gone:
        match = _counterpart(kind, clause[1], came, few=few)
        if match is not None:
            came.remove(match)
        yield _change(kind, clause, match)
    for clause in came:
        yield _change(kind, None, clause)


def _change(kind: str, old: tuple[str, str] | None, new: tuple[str, str] | None) -> ClauseChange:
    (old_name, old_text), (new_name, new_text) = old or ("", ""), new or ("", "")
    name = (old_name or new_name).replace("-", " ") or kind
    change: Literal["new", "gone", "changed"] = "gone" if new is None else "new" if old is None else "changed"
    now = f", now {new_name.replace('-', ' ')}," if old_name and new_name not in ("", old_name) else ""
    verb = "is reworded" if change == "changed" and kind in _WORDED else f"is {change}"
    return ClauseChange(
        clause=kind,
        change=change,
        sentence=f"{name}{now} {verb}",
        old_name=old_name,
        new_name=new_name,
        old=old_text,
        new=new_text,
    )


def _only_in(these: Clauses, others: Clauses) -> list[tuple[str, str]]:
    """Return the clauses whose text the others do not have; one that only moved is in both."""
    left = Counter(text for _, text in others)
    found: list[tuple[str, str]] = []
    for name, text in these:
        if left[text]:
            left[text] -= 1
        else:
            found.append((name, text))
    return found


def _counterpart(kind: str, text: str, came: Clauses, *, few: bool) -> tuple[str, str] | None:
    """Return the new clause that stands for an old one: on the same subject, or of much the same words."""
    if kind in _SINGLE:
        return came[0] if came else None
    if kind in _SUBJECTS:
        subject = _subject(kind, text)
        return next((each for each in came if _subject(kind, each[1]) == subject), None)
    if not few or kind not in _WORDED:
        return None
    alike = [(_likeness(text, each[1]), -at, each) for at, each in enumerate(came)]
    best = max(alike, default=None)
    return best[2] if best is not None and best[0] >= _ALIKE else None


def _subject(kind: str, text: str) -> str:
    first, _, rest = text.partition(_SUBJECTS[kind])
    return rest if kind == "file" else first


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one.split()[:400], other.split()[:400], autojunk=False).ratio()

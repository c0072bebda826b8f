"""Projections: the files that people and agents read, as text from documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.core.text.json import pretty_json
from aop.core.text.visible import visible
from aop.kernel.record.documents.features import FeatureState, Index
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.port import JournalEntry

FEATURES = "agentic/features"
FILES_OF_A_FEATURE = frozenset({"state.md", "plan.json", "qa_test_index.json", "decisions.md"})
FOLDERS_OF_A_FEATURE = frozenset({"evidence", "logs"})
SHOWN_DECISIONS = 50
"""How many of the newest decisions the file tells: what one more costs must not grow with how many there are."""
INDEX_PATH = f"{FEATURES}/index.json"
_MARKUP = re.compile(r"[\\`*<>\[\]#]")

DECISIONS: Mapping[str, str] = {
    "feature_initialised": "The feature was made on branch `{branch}`, cut at `{base_commit}`.",
    "plan_accepted": "Plan {plan_version} was accepted: {summary}",
    "plan_revised": "Plan {plan_version} replaced plan {revision_of}: {summary}",
    "patch_applied": "A patch changed the tree to `{tree}` (files: {files}).",
    "tree_undone": "A person went back from tree `{before}` to tree `{tree}`.",
    "tree_redone": "A person went forward from tree `{before}` to tree `{tree}`.",
    "edits_taken": "A person's edits changed the tree to `{tree}` (files: {files}).",
    "changes_requested": "A person requested changes: {text}",
    "feature_rejected": "A person rejected the approach of tree `{before}`: {reason}",
    "gates_ran": "The `{mode}` gates of profile `{profile}` ended with `{verdict}` on tree `{tree}`.",
    "feature_committed": "The tree `{tree}` was committed on its branch as `{commit}`.",
    "feature_rebased": "The feature was moved from `{old_base}` to `{base}`; the tree is `{tree}`.",
    "qa_index_updated": "QA marked hunks, index version {index_version}: {summary}.",
    "approval_granted": "The tree `{tree}` was approved for merging onto `{base}`.",
    "feature_merged": "Merged by `{strategy}` as `{merge_commit}`.",
    "plan_blocked": "Plan {plan_version} collides, and waits for {waits_for}.",
    "blocked_plan_refused": "Plan {plan_version} left the queue: {reason}",
    "lock_acquired": "It got the lock on `{resource}`, number {fence}.",
    "lock_released": "It let the lock on `{resource}` go.",
    "stale_lock_reclaimed": "Its lease on `{resource}` had ended ({reason}); `{new_holder}` holds it now.",
    "status_changed": "The status went from `{old}` to `{new}`: {reason}",
    "note_added": "{note}",
}
"""The events that `decisions.md` tells, and how."""


UNTRUSTED = frozenset({"note", "reason", "summary", "text"})
"""The facts that agents and people word themselves."""


def folder_of(feature_id: FeatureId) -> str:
    """Return the folder that holds a feature's files, from the repository's root."""
    return f"{FEATURES}/{feature_id}"


def is_written_by_aop(path: str, feature_id: FeatureId) -> bool:
    """Tell whether AOP writes this file of a feature; other files there are the user's."""
    below = path.removeprefix(f"{folder_of(feature_id)}/")
    return below in FILES_OF_A_FEATURE or below.split("/")[0] in FOLDERS_OF_A_FEATURE


def front_matter(state: FeatureState) -> dict[str, Json]:
    """Return the state as `state.md` shows it (AOP-084..093)."""
    plain: dict[str, Json] = msgspec.to_builtins(state)
    if not state.waits_for:
        del plain["waits_for"]
    if state.set_aside is None:
        del plain["set_aside"]
    if not state.title:
        del plain["title"]
    if not state.test_changes:
        del plain["test_changes"]
    return plain


def body_of(state: FeatureState) -> str:
    """Return the part of `state.md` that is for people."""
    gates = "".join(f"- {name}: {verdict}\n" for name, verdict in sorted(state.gates.items())) or "None has run.\n"
    reason = f"\n{state.status_reason}\n" if state.status_reason else ""
    return (
        f"# {state.feature_id}: {state.status}\n{reason}\n## Gates\n\n{gates}\n"
        "This file is written by AOP from its record; a change made here by hand is set aside, not read.\n"
    )


def feature_files(
    state: FeatureState,
    plan: AcceptedPlan | None,
    qa_index: QaIndex | None,
    *,
    runs: Iterable[GateRun],
    decisions: Sequence[str],
) -> dict[str, bytes]:
    """Return every file of a feature, by path."""
    # Commands that only read write none of these, and need no YAML.
    from aop.core.text.front_matter import join_front_matter

    folder = folder_of(state.feature_id)
    files = {
        f"{folder}/state.md": join_front_matter(front_matter(state), body_of(state)).encode(),
        **decision_files(state.feature_id, decisions),
        **{f"{folder}/evidence/{run.run_id}.json": pretty_json(msgspec.to_builtins(run)) for run in runs},
    }
    if plan is not None:
        files[f"{folder}/plan.json"] = pretty_json(msgspec.to_builtins(plan.plan))
    if qa_index is not None:
        files[f"{folder}/qa_test_index.json"] = pretty_json(msgspec.to_builtins(qa_index))
    return files


def decision_files(feature_id: FeatureId, lines: Sequence[str]) -> dict[str, bytes]:
    """Return the file of a feature's newest decisions, by path."""
    older = "" if len(lines) < SHOWN_DECISIONS else f"Older ones: `aop logs --feature {feature_id}`.\n\n"
    text = f"# Decisions on {feature_id}\n\n{older}{''.join(lines)}"
    return {f"{folder_of(feature_id)}/decisions.md": text.encode()}


def index_files(index: Index) -> dict[str, bytes]:
    """Return the index file, by path."""
    return {INDEX_PATH: pretty_json(msgspec.to_builtins(index))}


def decision_lines(told: Iterable[JournalEntry]) -> tuple[str, ...]:
    """Return the lines of events in `decisions.md`."""
    return tuple(
        f"- {entry.event.at} **{entry.event.actor}** {sentence_of(entry)} (#{entry.seq})\n"
        for entry in told
        if entry.event.kind in DECISIONS
    )


def sentence_of(entry: JournalEntry) -> str:
    """Return what `decisions.md` says of one of its events."""
    return " ".join(DECISIONS[entry.event.kind].format_map(_Facts(entry.event.payload)).split())


class _Facts(dict[str, Json]):
    """An event that was written before a fact was kept still has its line."""

    def __getitem__(self, key: str) -> Json:
        value = self.get(key, "?")
        return _as_plain_text(str(value)) if key in UNTRUSTED else value


def _as_plain_text(text: str) -> str:
    """Return a text that can neither begin a line nor pass for markup."""
    return _MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))

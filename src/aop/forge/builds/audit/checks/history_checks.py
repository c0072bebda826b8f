"""History checks: trees that the journal explains, grants, and the ledger."""

from __future__ import annotations

from aop.core.errors import EvidenceBroken
from aop.core.text.counts import count
from aop.forge.builds.audit.audit_verdicts import AuditCheck, judged
from aop.forge.builds.audit.subject import AuditSubject
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.features.opened_paths import path_answers
from aop.kernel.features.tree.tree_history import BASES, WITH_TREES
from aop.kernel.tools.gates.verify_record import VerifyArguments, verified_record


def check_diff_log(subject: AuditSubject) -> AuditCheck:
    """A5: the journal explains every tree from the beginning to now."""
    current, trees, failures = str(subject.baseline), {str(subject.baseline)}, []
    steps = 0
    for entry in subject.events:
        payload = entry.event.payload
        if entry.event.kind not in WITH_TREES or "tree" not in payload:
            continue
        before, tree = str(payload.get("before", current)), str(payload["tree"])
        if before != current and entry.event.kind not in BASES:
            failures.append(
                f"Entry {entry.seq} begins with the tree {before[:12]}; the one before it was {current[:12]}"
            )
        current, steps = tree, steps + 1
        trees.add(tree)
    if current != subject.tree:
        failures.append(f"The tree is {subject.tree[:12]}; the journal ends with {current[:12]}")
    if subject.start not in trees:
        failures.append(f"The journal has no entry for the tree {subject.start[:12]}, with which the phase began")
    told = count(steps, "entry", "entries")
    facts = [f"The journal leads from {subject.baseline[:12]} to {current[:12]} in {told}"]
    return judged("A5", failures=failures, facts=facts)


def check_authorisation(subject: AuditSubject) -> AuditCheck:
    """A6: guarded paths were changed by a grant alone."""
    answers = path_answers(subject.view, subject.state.feature_id)
    granted = {each.path for each in answers if each.answer == "yes"}
    policy = subject.call.kernel.config().policy
    areas = guarded_areas_of(policy, frozenset(granted))
    failures = []
    for change in subject.changes:
        guard = areas.guard_of(change.path)
        if guard and not (change.old is None and guard == _STEERS_TESTS):
            failures.append(f"{change.path} was changed without a grant: {guard}")
    facts = [f"{count(len(granted), 'path')} opened by a person"]
    return judged("A6", failures=failures, facts=facts)


_STEERS_TESTS = "it steers the tests"


def check_ledger(subject: AuditSubject) -> AuditCheck:
    """W2: the chain of the journal is whole; gate runs, logs and contracts are what it recorded."""
    wanted = VerifyArguments(feature_id=subject.state.feature_id)
    try:
        proven = verified_record(subject.call, subject.view, wanted)
        contracts = subject.call.kernel.prove_contracts(subject.view)
    except EvidenceBroken as broken:
        return judged("W2", failures=[broken.message], facts=())
    runs = f"{count(proven.gate_runs, 'gate run')}, {count(proven.logs, 'log')}"
    facts = [
        f"{count(proven.entries, 'entry', 'entries')} of the journal up to {proven.head_hash[:12]}; {runs}",
        ", ".join(f"{number} {name}" for name, number in contracts.items()),
    ]
    return judged("W2", facts=facts)

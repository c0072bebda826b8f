"""History checks: trees that the journal explains, grants, and the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from aop.core.errors import EvidenceBroken
from aop.core.ids import ObjectId, TreeId
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.forge.builds.audit.audit_verdicts import AuditCheck, judged
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.builds.cycle.commits import BOT, PREFIX, TRAILER
from aop.forge.builds.workspace.judged_tree import may_create
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.features.opened_paths import YES, path_answers
from aop.kernel.features.tree.tree_history import BASES, TAKEN, WITH_TREES
from aop.kernel.ports.git import LoggedCommit, TreeChange
from aop.kernel.tools.gates.verify_record import VerifyArguments, verified_record


def check_diff_log(subject: AuditSubject) -> AuditCheck:
    """A5: the journal explains every tree from the beginning to now, and every commit."""
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
    unexplained, waiting = _unexplained(subject, trees)
    told = count(steps, "entry", "entries")
    facts = [f"The journal leads from {subject.baseline[:12]} to {current[:12]} in {told}"]
    return judged("A5", failures=[*failures, *unexplained], doubts=waiting, facts=facts)


def _unexplained(subject: AuditSubject, trees: AbstractSet[str]) -> tuple[list[str], list[str]]:
    """Return the commits of the branch that the journal does not explain, and those that wait to be taken in."""
    failures, waiting = [], []
    for each in subject.commits:
        own = subject.own_commits.get(each.commit)
        if own is not None and own not in trees:
            failures.append(f"The commit {each.commit[:12]} has the tree {own[:12]}, which no entry made")
        elif own is None and each.commit not in subject.taken_commits:
            waiting.append(f"The commit {each.commit[:12]} of {_author(each)} was not taken in yet")
    return failures, waiting


def check_authorisation(subject: AuditSubject) -> AuditCheck:
    """A6: guarded paths were changed by a grant alone, and commits are the bot's or a person's."""
    answers = path_answers(subject.view, subject.state.feature_id)
    granted = {each.path for each in answers if each.answer == YES}
    policy = subject.call.kernel.config().policy
    areas = guarded_areas_of(policy, frozenset(granted))
    peoples = _blobs_of_people(subject)
    failures = []
    for change in subject.changes:
        guard = areas.guard_of(change.path)
        is_fine = may_create(subject.objects, subject.baseline, change.path, policy)
        if guard and not is_fine and peoples.get(change.path, "") != _blob(change):
            failures.append(f"{change.path} was changed without a grant: {guard}")
    failures += [told for each in subject.commits if (told := _forged(each, subject))]
    own = sum(each.commit in subject.own_commits for each in subject.commits)
    facts = [
        f"{count(own, 'commit')} of the bot, {len(subject.commits) - own} of people",
        f"{count(len(granted), 'path')} opened by a person",
    ]
    return judged("A6", failures=failures, facts=facts)


def _blobs_of_people(subject: AuditSubject) -> Mapping[str, str | None]:
    """Return what people committed: each path with its content, or None where they removed it."""
    found: dict[str, str | None] = {}
    for entry in subject.events:
        if entry.event.kind == TAKEN:
            trees = (TreeId(ObjectId(str(entry.event.payload[name]))) for name in ("before", "tree"))
            found |= {each.path: _blob(each) for each in subject.objects.changes(*trees)}
    return found


def _blob(change: TreeChange) -> str | None:
    return None if change.new is None else change.new.oid


def _forged(commit: LoggedCommit, subject: AuditSubject) -> str:
    """Return why a commit is neither the bot's nor a person's; empty if it is one of them."""
    marks = (
        commit.author == BOT,
        commit.message.startswith(PREFIX),
        f"\n{TRAILER}: {subject.cycle.build_id}\n" in f"{commit.message}\n",
    )
    if commit.commit in subject.own_commits:
        return "" if all(marks) else f"The commit {commit.commit[:12]} of the bot lacks its author, prefix or trailer"
    return f"The commit {commit.commit[:12]} poses as one of the bot, which did not make it" if any(marks) else ""


def _author(commit: LoggedCommit) -> str:
    return visible(commit.author.name)[:60]


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

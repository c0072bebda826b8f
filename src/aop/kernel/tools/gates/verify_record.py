"""Tool `evidence.verify`: the chain of the journal, and what it points to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import EvidenceBroken, Fault, ForbiddenToolForRole, UnknownFeature
from aop.core.ids import FEATURE_ID_PATTERN
from aop.core.text.json import pretty_json
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.record.chain import FIRST_HASH, PAGE, ProvenContents, prove_contents, whole_chain
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.base import digest_of
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.port import JournalEntry, Snapshot
from aop.kernel.record.projections import folder_of

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Anchor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An earlier end of the journal, stored elsewhere, which shows that nothing was cut off since."""

    seq: Annotated[int, Meta(ge=1)]
    """The number of the newest entry at that time."""
    hash: Sha256
    """The hash that came with it."""


class VerifyArguments(Arguments, frozen=True, kw_only=True):
    feature_id: Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)] | None = None
    """Check the proof of this feature only; the journal is always checked as a whole."""
    anchor: Anchor | None = None
    """The end of the journal from an earlier `evidence.verify` or an evidence bundle."""


class VerifyResult(Struct, frozen=True, kw_only=True):
    entries: int
    """The number of entries of the journal; their hash chain is intact."""
    head_seq: int
    """The number of the newest entry."""
    head_hash: str
    """Its hash, with all that was written up to it. Stored elsewhere, it is an anchor: nothing of it can be cut off or
    rewritten unnoticed."""
    gate_runs: int
    """The number of gate runs that match the journal, together with their files."""
    logs: int
    """The number of logs that match their gate runs."""
    logs_elsewhere: int = 0
    """The number of logs that other machines have, where several share the record; nothing is proven of them here."""
    approvals: int
    """The number of approvals that match the journal."""
    undigested: int
    """The number of gate runs that are older than the storage of their digests."""
    contracts: int = 0
    """The number of contract versions that match the journal; 0 where one feature is checked."""
    batches: int = 0
    """The number of batches of contracts that match the journal."""
    builds: int = 0
    """The number of pinned builds that match the journal."""
    documents: int = 0
    """The number of documents (features, plans, contracts and all others) that are what AOP last wrote."""
    operations: int = 0
    """The number of answered operations that are what AOP wrote."""


def verify(call: Call, arguments: VerifyArguments) -> Outcome:
    """Check that only AOP changed the record, or name the first difference."""
    with call.kernel.record.read() as view:
        return verified_record(call, view, arguments)


def verified_record(call: Call, view: Snapshot, arguments: VerifyArguments) -> VerifyResult:
    """Check a state of the record, with the files that it names. Raises: EvidenceBroken, UnknownFeature."""
    wanted = _scope(call, arguments)
    journal = _JournalFacts()
    for entry in whole_chain(lambda after: view.journal(after=after, limit=PAGE)):
        journal.take(entry)
    journal.check_end(arguments.anchor)
    if arguments.feature_id is not None and arguments.feature_id not in journal.features:
        raise UnknownFeature(arguments.feature_id, map(str, journal.features))
    try:
        runs = [run for run in view.all(GateRun) if wanted(run.feature_id)]
        approvals = [approval for approval in view.all(Approval) if wanted(approval.feature_id)]
    except Fault as fault:
        raise EvidenceBroken(str(fault), kind="unreadable") from fault
    # They belong to no feature.
    proven = call.kernel.prove_contracts(view) if arguments.feature_id is None else {}
    logs = sum(_check_run(call.kernel, run, journal.runs) for run in runs)
    all_logs = sum(len(dict(_logs_of(run))) for run in runs)
    for approval in approvals:
        _check_approval(approval, journal.approvals)
    contents = prove_contents(view, journal.hashes)
    journal.check_anchor(arguments.anchor, contents)
    return VerifyResult(
        entries=journal.head_seq,
        head_seq=journal.head_seq,
        head_hash=(journal.head_hash, *contents.anchors.get(journal.head_seq, ()))[-1],
        documents=contents.documents,
        operations=contents.operations,
        gate_runs=len(runs),
        logs=logs,
        logs_elsewhere=all_logs - logs,
        approvals=len(approvals),
        undigested=sum(journal.runs.get(run.run_id) == "" for run in runs),
        **proven,
    )


def _scope(call: Call, arguments: VerifyArguments) -> Callable[[str], bool]:
    named = arguments.feature_id
    if named is not None and not call.principal.reaches(named):
        raise ForbiddenToolForRole(f"This caller may not reach the feature `{named}`.", feature_id=named)
    return lambda feature: call.principal.reaches(feature) and named in (None, feature)


class _JournalFacts:
    """The runs and approvals in the journal."""

    def __init__(self) -> None:
        self.hashes: list[str] = []
        """Of the entries, in order."""
        self.features: set[str] = set()
        """Also those that are deleted."""
        self.runs: dict[str, str] = {}
        self.approvals: dict[str, Mapping[str, Any]] = {}

    @property
    def head_seq(self) -> int:
        return len(self.hashes)

    @property
    def head_hash(self) -> str:
        return self.hashes[-1] if self.hashes else FIRST_HASH

    def take(self, entry: JournalEntry) -> None:
        self.hashes.append(entry.hash)
        payload = entry.event.payload
        if entry.event.feature_id is not None:
            self.features.add(entry.event.feature_id)
        if "gate_run_id" in payload:
            self.runs.setdefault(str(payload["gate_run_id"]), str(payload.get("run_sha256", "")))
        if entry.event.kind == "approval_granted":
            self.approvals[str(payload["approval_id"])] = payload

    def check_anchor(self, anchor: Anchor | None, contents: ProvenContents) -> None:
        """Check that the anchor is the hash of its entry, or of a write that followed it."""
        if anchor is None or anchor.hash in (self.hashes[anchor.seq - 1], *contents.anchors.get(anchor.seq, ())):
            return
        raise EvidenceBroken(
            f"Entry {anchor.seq} of the journal, or what was written with it, is not what the anchor names.",
            kind="rewritten",
            seq=anchor.seq,
        )

    def check_end(self, anchor: Anchor | None) -> None:
        if anchor is not None and self.head_seq < anchor.seq:
            raise EvidenceBroken(
                f"The journal ends with entry {self.head_seq}, and once had {anchor.seq}: its end was cut off.",
                kind="cut",
                seq=self.head_seq + 1,
            )


def _check_run(kernel: Kernel, run: GateRun, recorded_digests: Mapping[str, str]) -> int:
    """Check one gate run against the journal, its file and its logs; return the number of logs that are here."""
    recorded = recorded_digests.get(run.run_id)
    if recorded is None:
        raise _broken_evidence("missing", f"The journal has no entry for the gate run `{run.run_id}`", run)
    if recorded and recorded != digest_of(run):
        raise _broken_evidence("changed", f"The gate run `{run.run_id}` is not the one that the journal recorded", run)
    path = f"{folder_of(run.feature_id)}/evidence/{run.run_id}.json"
    written = hashlib.sha256(pretty_json(msgspec.to_builtins(run))).hexdigest()
    # A run has no file if another followed before its file was written.
    if kernel.files.fingerprint(path) not in (None, written):
        raise _broken_evidence("changed", f"The file `{path}` is not what AOP wrote", run)
    digests = dict(_logs_of(run))
    here = {log_path: kernel.files.fingerprint(log_path) for log_path in digests}
    if kernel.is_shared:
        here = {log_path: current for log_path, current in here.items() if current is not None}
    for log_path, current in here.items():
        if current != digests[log_path]:
            kind = "missing" if current is None else "changed"
            raise _broken_evidence(
                kind, f"The log `{log_path}` is {'gone' if current is None else 'not what the step wrote'}", run
            )
    return len(here)


def _logs_of(run: GateRun) -> Iterator[tuple[str, str]]:
    return ((step.log_path, step.log_sha256) for step in run.steps if step.log_sha256)


def _check_approval(approval: Approval, granted: Mapping[str, Mapping[str, Any]]) -> None:
    payload = granted.get(approval.approval_id, {})
    if (payload.get("tree"), payload.get("base")) != (approval.tree, approval.base):
        raise EvidenceBroken(
            f"The approval `{approval.approval_id}` is not in the journal as it is now.",
            kind="changed",
            feature_id=approval.feature_id,
            approval_id=approval.approval_id,
        )


def _broken_evidence(kind: str, message: str, run: GateRun) -> EvidenceBroken:
    return EvidenceBroken(f"{message}.", kind=kind, feature_id=run.feature_id, gate_run_id=run.run_id)


TOOLS = (
    Tool(
        name="evidence.verify",
        summary="Check that journal, documents, operations and logs are as AOP wrote them, or name what is not.",
        arguments=VerifyArguments,
        output=VerifyResult,
        roles=READERS,
        run=verify,
    ),
)

"""Calls: a tool call on its way through the gateway, and the kernel it uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from aop.core.clock import Clock, timestamp
from aop.core.errors import Fault, Json, Refusal, UnknownFeature, VersionConflict
from aop.core.ids import FEATURE_ID_PATTERN, FeatureId, OperationId
from aop.core.redaction.redactor import Redactor
from aop.core.roles import Role
from aop.kernel.config.in_force import Config
from aop.kernel.gateway.epochs import refuse_old_epoch
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.workspaces import Workspace, no_workspace
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Event, JournalEntry, Record, Snapshot, Transaction

if TYPE_CHECKING:
    # Most commands use few of the ports.
    from aop.kernel.ports.call_log import CallLog
    from aop.kernel.ports.files import Files
    from aop.kernel.ports.fleet import GateWorkers, HubRefs
    from aop.kernel.ports.git import Git
    from aop.kernel.ports.handed_in import NewId, Report
    from aop.kernel.ports.locks import Locks
    from aop.kernel.ports.processes import Processes
    from aop.kernel.ports.remotes import Remotes
    from aop.kernel.ports.reviewer import Reviewer
    from aop.kernel.ports.signer import Signatures, Signer
    from aop.kernel.ports.tokenizer import Tokenizer
    from aop.kernel.ports.worktree_extras import ExtrasSource
    from aop.kernel.record.documents.questions import Question


FILES = "files"
"""The disk of a record that is shown on one alone."""


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments that every tool accepts; a caller that names itself must use its own name (C-51)."""

    actor_type: Role | None = None
    actor_id: str | None = None


class FeatureArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of a tool that works on one feature."""

    feature_id: Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)]


class ChangeArguments(FeatureArguments, frozen=True, kw_only=True):
    """Arguments of a tool that changes one feature (C-52)."""

    expected_version: Annotated[int, Meta(ge=1)] | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """An output together with pointers to its proof."""

    data: Struct
    evidence: Mapping[str, Json]


Outcome: TypeAlias = Struct | Answer | Refusal
"""A tool's answer. A *returned* refusal is a recorded verdict; a raised one changed nothing."""


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer that every caller gets (AOP-149, AOP-318)."""

    ok: bool
    data: Any = None
    error: Mapping[str, Any] | None = None
    evidence: Mapping[str, Any] = {}

    def as_json(self) -> dict[str, Json]:
        """Return the envelope as the plain object that goes over the wire."""
        plain: dict[str, Json] = msgspec.to_builtins(self)
        return plain


class Tool(Struct, frozen=True, kw_only=True):
    """One row of the catalogue."""

    name: str
    summary: str
    arguments: type[Arguments]
    output: type[Struct]
    roles: frozenset[Role]
    run: Callable[[Call, Any], Outcome]
    mutates: bool = False
    brief: bool = False
    """Does nothing but read the record and commit once: calls of it need no lock, and may share one durable change."""
    idempotent: bool = False
    """Changes nothing more when it is called again with the same arguments, under any operation id (AOP-150)."""
    person_only: bool = False
    """Never for a token that a model or a worker holds, in any role (C-53)."""
    key_scope: str = ""
    """The scope of a key of the HTTP interface that opens it; empty: no key does."""
    in_turn: bool = False
    """Changes nothing but what a coding agent says in its turn; of all that mutates, such an agent gets only these."""
    expandable: bool = False
    """Whether the policy may give it to further roles; every other row it can only narrow (AOP-158)."""
    lean: bool = False
    """Whether its schemas have few words, for agents that pay for each of them in every request (FORGE-064)."""
    reveal: Callable[[Kernel, Any], Struct] | None = None
    """Adds what must be in the answer but never in the record, such as a token."""
    resolve: Callable[[Call, Mapping[str, Json]], Outcome | None] | None = None
    """Given what a dead caller was about to do: finishes it and answers, or undoes it and returns None."""


class Kernel(Struct, frozen=True, kw_only=True):
    """The ports, and the configuration as it is now."""

    record: Record
    git: Git
    files: Files
    processes: Processes
    locks: Locks
    worktree_extras: ExtrasSource
    calls: CallLog
    clock: Clock
    signer: Signer
    redact: Redactor
    new_id: NewId
    config: Callable[[], Config]
    reviewer: Reviewer | None = None
    """None where no model can be asked."""
    signatures: Signatures | None = None
    """None where nobody checks signatures of people; one that is needed is then refused."""
    remotes: Remotes | None = None
    """None where AOP reaches out to none."""
    tokenizer: Tokenizer | None = None
    """None where nothing counts tokens."""
    gate_workers: GateWorkers | None = None
    """None where all gates run on this machine."""
    tools: Mapping[str, Tool] = {}
    """The catalogue, for tools that describe other tools."""
    epoch: int | None = None
    """The epoch of the supervisor that acts through this; None for all others (AOP-336)."""
    disk: str = FILES
    """The disk whose files and worktrees show the record; a record in a database may be shown on several."""
    is_shared: bool = False
    """Whether other machines work with the record too; each has what it needs from the record and from the hub."""
    send_work: Callable[[FeatureState], None] = lambda _state: None
    """Has the work of a feature where other machines get it from. A change that names new work has it sent first, so
    that nobody waits for that; what was not sent is sent while the change is made. Raises: HubUnavailable."""
    hub: HubRefs | None = None
    """None where one machine alone works with the record."""
    capabilities: Mapping[str, Callable[[], object]] = {}
    """Ports of the rooms above the kernel, by name; the room that declares a port says what it is."""
    show_workflow: Callable[[Kernel, FeatureId], None] = lambda _kernel, _name: None
    """Brings the worktree of a gated workflow or a build up to the record; the caller holds the worktree."""
    question_ended: Callable[[Transaction, Call, Question], None] = lambda _tx, _call, _question: None
    """Told of each question that was answered or closed, in the same transaction."""
    workspace_of: Callable[[Snapshot, Principal], Workspace] = no_workspace
    """Returns the workspace of a caller: that of its workflow, or of its build. Raises: as the room of either."""
    decision_lines: dict[FeatureId, tuple[JournalEntry, tuple[str, ...]]] = {}
    """The lines that `decisions.md` of a feature had when it was last written, and the entry of the last of them."""
    prove_contracts: Callable[[Snapshot], Mapping[str, int]] = lambda _view: {}
    """Checks the contracts of projects against the journal, and counts what matches; raises `EvidenceBroken`."""

    def now(self) -> str:
        """Return the time of day as AOP writes it."""
        return timestamp(self.clock.now())


class Call(Struct, frozen=True, kw_only=True):
    """A call that passed who, may and well-formed."""

    kernel: Kernel
    principal: Principal
    tool: Tool
    operation_id: OperationId | None
    report: Report

    def event(self, kind: str, feature_id: FeatureId | None, **payload: Json) -> Event:
        """Return an event of this call."""
        return Event(
            kind=kind,
            at=self.kernel.now(),
            actor=self.principal.actor,
            operation_id=self.operation(),
            feature_id=feature_id,
            payload=payload,
        )

    def operation(self) -> OperationId:
        """Return the id of this mutating call."""
        if self.operation_id is None:
            raise Fault(f"`{self.tool.name}` is not listed as mutating.")
        return self.operation_id

    def intend(self, intent: Mapping[str, Json], *, durable: bool = True) -> None:
        """Note what happens next outside the database, so that a later process can settle this call if it dies.

        What nothing has to be settled by need not be `durable`: a power cut may take it back.
        """
        with self.kernel.record.write(durable=durable) as tx:
            refuse_old_epoch(tx, self.kernel.epoch)
            tx.intend(self.operation(), intent)

    def commit(self, decide: Callable[[Transaction], Outcome]) -> Outcome:
        """Decide in one transaction that also stores the answer; a refusal raised inside changes nothing."""
        with self.kernel.record.write() as tx:
            refuse_old_epoch(tx, self.kernel.epoch)
            outcome = decide(tx)
            tx.finish_operation(self.operation(), envelope(self.tool, outcome).as_json())
        return outcome


A = TypeVar("A", bound=Arguments)


def committed(decide: Callable[[Call, A, Transaction], Outcome]) -> Callable[[Call, A], Outcome]:
    """Return the run of a tool whose whole work is one decision, made and stored in one transaction."""
    return lambda call, arguments: call.commit(lambda tx: decide(call, arguments, tx))


def envelope(tool: Tool, outcome: Outcome) -> Envelope:
    """Wrap an outcome; an output that does not fit the tool's own schema is a fault, not an answer."""
    if isinstance(outcome, Refusal):
        return refusal_envelope(outcome)
    data, evidence = (outcome.data, outcome.evidence) if isinstance(outcome, Answer) else (outcome, {})
    plain = _plain(data)
    try:
        msgspec.convert(plain, tool.output)
    except msgspec.ValidationError as error:
        raise Fault(f"The answer of `{tool.name}` does not fit its schema: {error}") from error
    return Envelope(ok=True, data=plain, evidence=_plain(evidence))


def refusal_envelope(refusal: Refusal) -> Envelope:
    """Wrap a refusal."""
    return Envelope(ok=False, error=_plain(refusal.as_error()), evidence=_plain(refusal.evidence))


def _plain(value: Any) -> Any:
    """Return a value as it is when it comes from JSON: an answer is the same at first and from the ledger."""
    return msgspec.json.decode(msgspec.json.encode(value))


def the_feature(view: Snapshot, arguments: FeatureArguments) -> FeatureState:
    """Return the feature that arguments name, at their expected version. Raises: UnknownFeature, VersionConflict."""
    state = feature_named(view, arguments.feature_id)
    expected = arguments.expected_version if isinstance(arguments, ChangeArguments) else None
    if expected is not None and expected != state.version:
        raise VersionConflict(f"The feature `{state.feature_id}`", expected=expected, current=state.version)
    return state


def feature_named(view: Snapshot, feature_id: str) -> FeatureState:
    """Return a feature as it is now. Raises: UnknownFeature."""
    state = view.get(FeatureState, feature_id)
    if state is None:
        raise UnknownFeature(feature_id, (each.feature_id for each in view.all(FeatureState)))
    return state

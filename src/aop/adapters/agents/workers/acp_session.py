"""ACP sessions: one turn of a custom agent that speaks the Agent Client Protocol.

As in every session, the result is the submission and the tree that the agent leaves.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from aop.adapters.agents.kept_sessions import KeptSession
from aop.adapters.agents.model_access import model_provider_of
from aop.adapters.agents.prompts import session_prompt
from aop.adapters.agents.scratch_trees import scratch_of
from aop.adapters.agents.turn_logs import fresh_log, last_lines, turn_log
from aop.adapters.agents.vendors.catalogue import TOKEN_VARIABLE, Vendor
from aop.adapters.agents.vendors.launch import AgentSession, session_folder_of
from aop.adapters.agents.vendors.programs import library_of
from aop.adapters.agents.workers.acp_protocol import AcpTurn, Conversation
from aop.adapters.agents.workers.command import CONNECT_STREAMS, TurnWatch
from aop.adapters.agents.workers.named_pipes import NamedPipes
from aop.adapters.agents.workers.turn_faults import clearest_fault, protocol_fault
from aop.adapters.agents.workers.vendor_session import SessionContext, answer_of, dropped_on_failure, write_home
from aop.adapters.files.own_folders import held_folder
from aop.adapters.models.metering.tallies import MeterReport
from aop.adapters.processes.step_log import StepLog
from aop.core.errors import AgentTimedOut, NoUsableAnswer
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.config.agents import Provider
from aop.kernel.ports.processes import Command, CommandResult, Ending
from aop.kernel.record.documents.usage import Usage
from aop.kernel.record.spending import left_of_caps, reaches_cap
from aop.supervisor.workers import WorkerInput, WorkerOutput

if TYPE_CHECKING:  # it brings a web server along
    from aop.adapters.models.metering.sessions import Meter

OVERLAY = "The tools of the server `aop` are listed beside your own, perhaps with a prefix."
_GOODBYE_SECONDS = 3.0
"""The time between asking an agent to stop, or its last answer, and killing it."""


class AcpResult(Struct, frozen=True, kw_only=True):
    """The result of one turn."""

    ended: CommandResult
    broken: NoUsableAnswer | None
    """The protocol error that ended the turn, if there was one."""
    usage: Usage
    stop_reason: str
    """The agent's own stop reason; empty if it gave none."""
    session_id: str = ""
    """The id of a session that the agent can go on with; else empty."""
    metered: MeterReport | None = None
    """The counts of its meter; None without one."""


class AcpProgram:
    """A custom command that speaks the protocol, and its context."""

    def __init__(
        self,
        argv: tuple[str, ...],
        context: SessionContext,
        vendor: Vendor | None = None,
        *,
        key_variable: str | None = None,
    ) -> None:
        """Take the row of the agent, if there is one: with an endpoint, it gets a meter."""
        self._argv = argv
        self._context = context
        self._vendor = vendor
        self._key_variable = key_variable

    @property
    def prompt(self) -> str:
        """Return the line of the prompt that says how its model finds AOP's tools."""
        return (self._vendor.row.prompt if self._vendor else "") or OVERLAY

    def kept_session(self, feature_id: FeatureId, role: Role) -> KeptSession | None:
        """Return the place of the session that goes on in the next turn; None if the policy wants none."""
        return self._context.kept_session(feature_id, role, self._vendor.provider if self._vendor else Provider.CUSTOM)

    def session_folder(self, tree: Path) -> str:
        """Return the folder of its home that has its sessions in a tree; empty if its row names none."""
        return session_folder_of(self._vendor.row, tree) if self._vendor else ""

    def run_turn(
        self, acp_turn: AcpTurn, role: Role, feature_id: FeatureId, folder: Path, kept: KeptSession | None = None
    ) -> AcpResult:
        """Start the agent in its tree, with a private folder, and run one turn; a kept session goes on."""
        log, vendor, home = f"{role}-says", self._vendor, folder / "home"
        command = self._command(role, feature_id, Path(acp_turn.tree), folder)
        converse = partial(self._converse, folder=folder, log=log, feature_id=feature_id, kept=kept)
        if vendor is None:
            write_home(home, {})
            return converse(acp_turn, command)
        session = AgentSession(
            role=role,
            model=acp_turn.model,
            home=home,
            tree=Path(acp_turn.tree),
            mcp_url=acp_turn.mcp_url,
            token=acp_turn.token,
            model_url="",
            model_key="",
            sandboxed=self._context.has_sandbox(),
        )
        # A model that the row hands over needs no request of the protocol, which not every agent knows.
        turn = msgspec.structs.replace(acp_turn, model=None) if vendor.row.uses("model") else acp_turn
        if vendor.row.endpoint is None:
            return converse(turn, _with_row(command, vendor, session))
        with self._context.access(vendor, feature_id, role, self._key_variable) as meter:
            metered = msgspec.structs.replace(session, model_url=meter.base_url, model_key=meter.placeholder_key)
            result = converse(turn, _with_row(command, vendor, metered), meter=meter)
            report = meter.report()
        return msgspec.structs.replace(result, usage=report.turn_usage, metered=report)

    def _converse(
        self,
        acp_turn: AcpTurn,
        command: Command,
        *,
        folder: Path,
        log: str,
        feature_id: FeatureId,
        kept: KeptSession | None,
        meter: Meter | None = None,
    ) -> AcpResult:
        context = self._context
        if kept is not None and acp_turn.resumed:
            kept.restore(folder / "home", self.session_folder(Path(acp_turn.tree)))
        with NamedPipes(folder) as pipes, ExitStack() as stack:
            said = StepLog(fresh_log(context.logs, feature_id, log), context.kernel.redact)
            stack.callback(said.close)
            conversation = Conversation(pipes, lambda text: said.feed(text.encode()))
            stopped = partial(context.stopped, feature_id)
            watch = TurnWatch(folder / "begun", pipes.output_bytes, context.timeouts, time.monotonic, stopped)
            ends_early = meter.ends_early(watch.ends_early) if meter else watch.ends_early
            watched = msgspec.structs.replace(command, ends_early=ends_early)
            ended, broken = self._run_and_speak(conversation, acp_turn, pipes, watched)
        usage, stop_reason = conversation.usage, conversation.stop_reason
        session_id = conversation.session_id
        return AcpResult(ended=ended, broken=broken, usage=usage, stop_reason=stop_reason, session_id=session_id)

    def _run_and_speak(
        self, conversation: Conversation, acp_turn: AcpTurn, pipes: NamedPipes, command: Command
    ) -> tuple[CommandResult, NoUsableAnswer | None]:
        """Run the agent and its conversation; return how it ended, and a protocol error if there was one."""
        with ThreadPoolExecutor(1) as thread:
            speaking = thread.submit(conversation.run, acp_turn)
            end = _TurnEnd(conversation, speaking, pipes, command.timeout_seconds)
            early = command.ends_early
            watched = msgspec.structs.replace(
                command, ends_early=lambda silent: end.reason_to_stop() or (early or _never)(silent)
            )
            ended = self._context.kernel.processes.run(watched)
            # An error that follows from stopping the agent is not the cause.
            is_cause = speaking.done() or ended.ending is Ending.EXITED
            pipes.end()
            try:
                speaking.result()
            except NoUsableAnswer as refusal:
                return ended, refusal if is_cause else None
        return ended, None

    def clearest_fault(self, refusal: NoUsableAnswer, result: AcpResult) -> NoUsableAnswer:
        """Return the refusal that explains best why a turn has no answer: what its meter saw, or the agent said."""
        told = _clearest_refusal(refusal, result.broken, result.stop_reason)
        if result.metered is None or self._vendor is None:
            return told
        return clearest_fault(told, result.metered, model_provider_of(self._vendor))

    def cap_check(self, feature_id: FeatureId) -> Callable[[Usage], bool]:
        """Return a function that tells whether a turn has used up the feature's remaining budget."""
        kernel = self._context.kernel
        with kernel.record.read() as view:
            dollars, tokens = left_of_caps(view, kernel.config().policy.cost, feature_id)
        return lambda usage: reaches_cap(usage, dollars=dollars, tokens=tokens)

    def _command(self, role: Role, feature_id: FeatureId, tree: Path, folder: Path) -> Command:
        context, rules = self._context, self._context.kernel.config().policy.execution
        program = shutil.which(self._argv[0], path=context.path)
        path = [*([os.path.dirname(program)] if program else []), context.path]
        named = [word for word in self._argv[1:] if os.path.isabs(word) and os.path.exists(word)]
        own = {"PATH": os.pathsep.join(path), "HOME": str(folder / "home")}
        return Command(
            argv=(*CONNECT_STREAMS, str(folder), *self._argv),
            cwd=tree,
            worktree=tree,
            env=(*context.environment(feature_id), *own.items()),
            env_allowlist=rules.env_allowlist,
            timeout_seconds=context.timeouts.seconds,
            log_path=fresh_log(context.logs, feature_id, role),
            max_log_bytes=rules.max_log_bytes,
            sandbox=rules.sandbox,
            # Without a meter, the address of the model is unknown: the user opens the network in the policy.
            network="host" if rules.network == "host" else "ports",
            ports=(urlsplit(context.mcp_url).port or 0,),
            readable=(*rules.sandbox_read, *(library_of(program) if program else ()), *named),
            writable=(*rules.sandbox_write, str(folder)),
            limits=rules.limits,
        )


class AcpWorker:
    """Implements `aop.supervisor.workers.Worker` with a custom agent that speaks the protocol."""

    def __init__(self, program: AcpProgram, context: SessionContext) -> None:
        self._program = program
        self._context = context

    def turn(self, given: WorkerInput) -> WorkerOutput:
        context, feature_id = self._context, given.feature_id
        context.private.mkdir(parents=True, exist_ok=True)
        turn = context.kernel.new_id("turn")
        with (
            context.token(given.role, feature_id, turn) as token,
            scratch_of(context.kernel, feature_id) as scratch,
            held_folder(context.private) as folder,
        ):
            edits = given.role is not Role.PLANNER
            kept = self._program.kept_session(feature_id, given.role)
            acp_turn = AcpTurn(
                prompt=session_prompt(given, self._program.prompt, turn),
                tree=str(scratch.folder),
                mcp_url=context.mcp_url,
                token=token,
                model=given.model,
                edits=edits,
                shell=edits and context.has_sandbox(),
                is_over=self._program.cap_check(feature_id),
                resumed="" if kept is None else kept.session_id,
            )
            result = self._program.run_turn(acp_turn, given.role, feature_id, folder, kept)
            diff = context.scratches.diff(scratch) if edits and result.stop_reason else ""
            try:
                lines = last_lines(turn_log(context.logs, feature_id, given.role))
                with dropped_on_failure(kept):
                    output = answer_of(context.submission(turn, given), diff, result.ended, lines)
            except NoUsableAnswer as refusal:
                clearest = self._program.clearest_fault(refusal, result)
                clearest.facts["usage"] = msgspec.to_builtins(result.usage)
                raise clearest from refusal
            session_id = ""
            if kept is not None and result.session_id:
                place, mask = self._program.session_folder(scratch.folder), context.kernel.redact.mask_secrets
                session_id = kept.keep(folder / "home", place, mask, result.session_id)
        return msgspec.structs.replace(output, usage=result.usage, session=session_id)


def _with_row(command: Command, vendor: Vendor, session: AgentSession) -> Command:
    """Return the command as its row says, with its home written; behind a meter, without the variable of the key."""
    launch, key = vendor.launch(session), vendor.row.key_variable
    write_home(session.home, launch.files)
    inherited = [name for name in command.env_allowlist if name != key]
    return msgspec.structs.replace(
        command,
        env=(*command.env, (TOKEN_VARIABLE, session.token), *launch.env.items()),
        env_allowlist=(*inherited, *([key] if key and not session.model_url else [])),
        ports=(*command.ports, *([urlsplit(session.model_url).port or 0] if session.model_url else [])),
    )


class _TurnEnd:
    """Notices that a conversation is over, or has to end."""

    def __init__(self, conversation: Conversation, speaking: Future[None], pipes: NamedPipes, seconds: float) -> None:
        self._conversation = conversation
        self._speaking = speaking
        self._pipes = pipes
        self._cancel_at = time.monotonic() + max(0.0, seconds - _GOODBYE_SECONDS)
        self._leave_at: float | None = None

    def reason_to_stop(self) -> str:
        """Return why the agent must be stopped now, or nothing."""
        now = time.monotonic()
        if self._speaking.done() and self._leave_at is None:
            # Most agents exit when their input ends.
            self._pipes.end()
            self._leave_at = now + _GOODBYE_SECONDS
        elif now >= self._cancel_at:
            self._cancel_at = float("inf")
            self._conversation.cancel()
        return "Its turn is over." if self._leave_at is not None and now >= self._leave_at else ""


def _never(_silent: float) -> str:
    return ""


def _clearest_refusal(refusal: NoUsableAnswer, broken: NoUsableAnswer | None, stop_reason: str) -> NoUsableAnswer:
    """Return the refusal that explains best why a turn has no answer."""
    if stop_reason:
        return NoUsableAnswer(f"The agent stopped (`{stop_reason[:40]}`) without a submission or a changed file.")
    # A conversation that broke explains why AOP stopped the agent, but not why the agent exited.
    is_unexplained = refusal.code in (NoUsableAnswer.code, AgentTimedOut.code)
    if broken is None or ("error" not in broken.facts and not is_unexplained):
        return refusal
    return protocol_fault(broken.message, dict(broken.facts)) or broken

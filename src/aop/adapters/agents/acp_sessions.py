"""Turns of coding agents that speak the Agent Client Protocol: the user's command, AOP's tools, and a rule for consent.

What counts is what counts for every session: what was submitted, and the tree that the agent leaves.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from aop.adapters.agents.acp import AcpTurn, Conversation
from aop.adapters.agents.acp_families import model_variables
from aop.adapters.agents.custom import TurnWatch
from aop.adapters.agents.installed import library_of
from aop.adapters.agents.named_pipes import NamedPipes
from aop.adapters.agents.scratch import scratch_of
from aop.adapters.agents.session_prompts import session_prompt
from aop.adapters.agents.sessions import SessionDesk, answer_of
from aop.adapters.agents.turn_logs import fresh_log
from aop.adapters.agents.vendors import Vendor
from aop.adapters.git.folders import held_folder
from aop.adapters.steplogs import StepLog
from aop.core.errors import NoUsableAnswer
from aop.core.roles import Role
from aop.kernel.ports import Command, Ended, Ending
from aop.kernel.usage import Usage, left_of_caps
from aop.supervisor.workers import WorkerInput, WorkerOutput

if TYPE_CHECKING:  # it brings a web server along
    from aop.adapters.metering.sessions import Meter

_OVERLAY = "The tools of the server `aop` stand beside your own, perhaps with words before their names."
_GOODBYE_SECONDS = 3.0
"""From asking an agent to stop, or from its answer, to ending it."""
# The shell only connects pipes and becomes the command: none of the words is read as shell.
_CONNECTED = ("/bin/sh", "-c", ': >"$0/begun" && exec <"$0/in" >"$0/out" && exec "$@"')


class AcpWorker:
    """Implements `aop.supervisor.workers.Worker` with an agent of the user's that speaks the protocol."""

    def __init__(self, argv: tuple[str, ...], desk: SessionDesk, vendor: Vendor | None = None) -> None:
        """Take whose models it asks, if that is known: then a meter stands before them."""
        self._argv = argv
        self._desk = desk
        self._vendor = vendor

    def turn(self, given: WorkerInput) -> WorkerOutput:
        if self._vendor is None:
            return self._taken(given, None)
        with self._desk.access(self._vendor, given.feature_id, given.role, None) as meter:
            try:
                output = self._taken(given, meter)
            except NoUsableAnswer as refusal:
                refusal.facts["usage"] = msgspec.to_builtins(meter.report().turn_usage)
                raise
        return msgspec.structs.replace(output, usage=meter.report().turn_usage)

    def _taken(self, given: WorkerInput, meter: Meter | None) -> WorkerOutput:
        desk = self._desk
        desk.private.mkdir(parents=True, exist_ok=True)
        turn = desk.kernel.new_id("turn")
        with desk.token(given.role, given.feature_id, turn) as token, ExitStack() as stack:
            scratch = stack.enter_context(scratch_of(desk.kernel, given.feature_id))
            folder = stack.enter_context(held_folder(desk.private))
            pipes = stack.enter_context(NamedPipes(folder))
            said = StepLog(fresh_log(desk.logs, given.feature_id, f"{given.role}-says"), desk.kernel.redact)
            stack.callback(said.close)
            edits = given.role is not Role.PLANNER
            asked = AcpTurn(
                prompt=session_prompt(given, _OVERLAY, turn),
                tree=str(scratch.folder),
                mcp_url=desk.mcp_url,
                token=token,
                model=given.model,
                edits=edits,
                shell=edits and desk.is_enclosed(),
                is_over=self._cap(given),
            )
            conversation = Conversation(pipes, lambda text: said.feed(text.encode()))
            command = self._reaching(meter, self._command(given, scratch.folder, folder, pipes.heard_bytes))
            ended, broken = self._held(conversation, asked, pipes, command)
            diff = desk.scratches.diff(scratch) if edits and conversation.stop_reason else ""
            try:
                output = answer_of(desk.submitted(turn, given), diff, ended)
            except NoUsableAnswer as refusal:
                told = _better_told(refusal, broken, conversation.stop_reason)
                told.facts["usage"] = msgspec.to_builtins(conversation.usage)
                raise told from refusal
        return msgspec.structs.replace(output, usage=conversation.usage)

    def _held(
        self, conversation: Conversation, asked: AcpTurn, pipes: NamedPipes, command: Command
    ) -> tuple[Ended, NoUsableAnswer | None]:
        """Run the agent and speak with it; return how it ended, and what was wrong with what it said."""
        with ThreadPoolExecutor(1) as thread:
            speaking = thread.submit(conversation.hold, asked)
            end = _End(conversation, speaking, pipes, command.timeout_seconds)
            early = command.ends_early
            watched = msgspec.structs.replace(command, ends_early=lambda silent: end.why() or (early or _never)(silent))
            ended = self._desk.kernel.processes.run(watched)
            # What breaks in the conversation because the agent was ended says nothing of why.
            is_cause = speaking.done() or ended.ending is Ending.EXITED
            pipes.end()
            try:
                speaking.result()
            except NoUsableAnswer as refusal:
                return ended, refusal if is_cause else None
        return ended, None

    def _cap(self, given: WorkerInput) -> Callable[[Usage], bool]:
        kernel = self._desk.kernel
        with kernel.record.read() as view:
            dollars, tokens = left_of_caps(view, kernel.config().policy.cost, given.feature_id)

        def is_over(usage: Usage) -> bool:
            used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
            return (tokens is not None and used >= tokens) or (
                dollars is not None and usage.cost_usd is not None and usage.cost_usd >= dollars
            )

        return is_over

    def _command(self, given: WorkerInput, tree: Path, folder: Path, heard_bytes: Callable[[], int]) -> Command:
        desk, rules = self._desk, self._desk.kernel.config().policy.execution
        home = folder / "home"
        home.mkdir(mode=0o700)
        program = shutil.which(self._argv[0], path=desk.path)
        path = [*([os.path.dirname(program)] if program else []), desk.path]
        named = [word for word in self._argv[1:] if os.path.isabs(word) and os.path.exists(word)]
        own = {"PATH": os.pathsep.join(path), "HOME": str(home)}
        return Command(
            argv=(*_CONNECTED, str(folder), *self._argv),
            cwd=tree,
            worktree=tree,
            env=(*desk.environment(given.feature_id), *own.items()),
            env_allowlist=rules.env_allowlist,
            timeout_seconds=desk.patience.seconds,
            ends_early=TurnWatch(folder / "begun", heard_bytes, desk.patience, time.monotonic).ends_early,
            log_path=fresh_log(desk.logs, given.feature_id, given.role),
            max_log_bytes=rules.max_log_bytes,
            sandbox=rules.sandbox,
            # Where the model of an agent without a meter is, only the user knows, and opens the network by the policy.
            network="host" if rules.network == "host" else "ports",
            ports=(urlsplit(desk.mcp_url).port or 0,),
            readable=(*rules.sandbox_read, *(library_of(program) if program else ()), *named),
            writable=(*rules.sandbox_write, str(folder)),
            limits=rules.limits,
        )

    def _reaching(self, meter: Meter | None, command: Command) -> Command:
        """Return the command with the way to its meter; the user's key is replaced, wherever it comes from."""
        if meter is None or self._vendor is None:
            return command
        variables = model_variables(self._vendor, meter.base_url, meter.placeholder_key)
        return msgspec.structs.replace(
            command,
            env=(*command.env, *variables.items()),
            ports=(*command.ports, urlsplit(meter.base_url).port or 0),
        )


class _End:
    """Sees when a conversation is over, or has to be."""

    def __init__(self, conversation: Conversation, speaking: Future[None], pipes: NamedPipes, seconds: float) -> None:
        self._conversation = conversation
        self._speaking = speaking
        self._pipes = pipes
        self._cancel_at = time.monotonic() + max(0.0, seconds - _GOODBYE_SECONDS)
        self._leave_at: float | None = None

    def why(self) -> str:
        """Return why the agent is to be ended now, or nothing."""
        now = time.monotonic()
        if self._speaking.done() and self._leave_at is None:
            # An agent ends with its input, as a rule.
            self._pipes.end()
            self._leave_at = now + _GOODBYE_SECONDS
        elif now >= self._cancel_at:
            self._cancel_at = float("inf")
            self._conversation.cancel()
        return "Its turn was over." if self._leave_at is not None and now >= self._leave_at else ""


def _never(_silent: float) -> str:
    return ""


def _better_told(refusal: NoUsableAnswer, broken: NoUsableAnswer | None, stop_reason: str) -> NoUsableAnswer:
    """Return what says most about a turn without an answer."""
    if stop_reason:
        return NoUsableAnswer(
            f"The agent stopped (`{stop_reason[:40]}`), submitted nothing, and left the tree as it was."
        )
    return broken or refusal

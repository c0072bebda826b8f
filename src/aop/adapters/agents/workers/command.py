"""Custom commands as coding agents: one JSON object in, one JSON object out.

A command runs like a gate step: in the sandbox, with the allow-listed environment, in a temporary copy of the feature's
tree. Only its answer counts.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.agents.turn_logs import fresh_log, last_lines
from aop.adapters.agents.workers.turn_faults import fault_of
from aop.adapters.files.own_folders import held_folder
from aop.core.errors import AgentOutputTooLarge, NoUsableAnswer, ProviderAuthMissing
from aop.core.ids import FeatureId
from aop.core.text.json import MalformedText, parse_json
from aop.core.text.visible import visible
from aop.kernel.config.policy import ExecutionRules, SupervisorRules
from aop.kernel.ports.processes import Command, CommandResult, Processes
from aop.supervisor.workers import WorkerInput, WorkerOutput

DEFAULT_VARIABLE = "AOP_CUSTOM_AGENT"
SCHEMA = 1
LARGEST_ANSWER = 8 * 1024 * 1024
_EXCERPT = 300
_GOODBYE_SECONDS = 2.0
_ASK_SECONDS = 1.0
"""The pause between looks whether the feature was stopped."""
# The shell only redirects the streams and then becomes the command; the words are not parsed as shell.
CONNECT_STREAMS = ("/bin/sh", "-c", ': >"$0/begun" && exec <"$0/in" >"$0/out" && exec "$@"')


class TurnTimeouts(Struct, frozen=True, kw_only=True):
    """The time limits of a turn."""

    seconds: float
    """For the whole turn."""
    spawn_seconds: float
    """Until the command has started."""
    idle_seconds: float
    """Without output; 0 means no limit."""


def timeouts_of(rules: SupervisorRules) -> TurnTimeouts:
    """Return the time limits of the policy."""
    return TurnTimeouts(
        seconds=rules.turn_timeout_seconds, spawn_seconds=rules.turn_spawn_seconds, idle_seconds=rules.turn_idle_seconds
    )


class CommandContext(Struct, frozen=True, kw_only=True):
    """The parts of this machine that a command works with."""

    processes: Processes
    rules: Callable[[], ExecutionRules]
    scratch: Callable[[FeatureId], AbstractContextManager[Path]]
    """Checks out a temporary copy of a feature's tree."""
    environment: Callable[[FeatureId], tuple[tuple[str, str], ...]]
    """The variables that name a feature's ports."""
    private: Path
    """AOP's private folder, for input and output."""
    logs: Path
    path: str
    """The PATH for programs."""
    timeouts: TurnTimeouts
    stopped: Callable[[FeatureId], str]
    """Returns why a feature was stopped; empty if it was not."""


class CustomCommand:
    """A command that is started for each turn."""

    def __init__(self, argv: tuple[str, ...], context: CommandContext) -> None:
        self._argv = argv
        self._context = context

    def answer(self, request: bytes, feature_id: FeatureId, role: str) -> bytes:
        """Start the command with one object, and return its output. Raises: NoUsableAnswer."""
        self._context.private.mkdir(parents=True, exist_ok=True)
        with self._context.scratch(feature_id) as tree, held_folder(self._context.private) as folder:
            (folder / "in").write_bytes(request)
            with _OutputPipe(folder / "out", LARGEST_ANSWER) as pipe:
                stopped = partial(self._context.stopped, feature_id)
                watch = TurnWatch(folder / "begun", pipe.output_bytes, self._context.timeouts, time.monotonic, stopped)
                log = fresh_log(self._context.logs, feature_id, role)
                command = self._command(tree, folder, watch, log)
                own = self._context.environment(feature_id)
                ended = self._context.processes.run(msgspec.structs.replace(command, env=(*own, *command.env)))
        _refuse_failure(pipe.output, ended, last_lines(log))
        return pipe.output

    def _command(self, tree: Path, folder: Path, watch: TurnWatch, log: Path) -> Command:
        rules = self._context.rules()
        program, *others = self._argv
        # The folder of a program given by its path must be readable, as for one on the PATH.
        path = [*([os.path.dirname(program)] if os.path.isabs(program) else []), self._context.path]
        named = [os.path.realpath(program), *others] if os.path.isabs(program) else others
        return Command(
            argv=(*CONNECT_STREAMS, str(folder), *self._argv),
            cwd=tree,
            worktree=tree,
            env=(("PATH", os.pathsep.join(path)),),
            env_allowlist=rules.env_allowlist,
            timeout_seconds=self._context.timeouts.seconds,
            ends_early=watch.ends_early,
            log_path=log,
            max_log_bytes=rules.max_log_bytes,
            sandbox=rules.sandbox,
            network=rules.network,
            readable=(*rules.sandbox_read, *filter(_is_existing_path, named)),
            writable=(*rules.sandbox_write, str(folder)),
            limits=rules.limits,
        )


class CustomWorker:
    """Implements `aop.supervisor.workers.Worker`."""

    def __init__(self, argv: tuple[str, ...], context: CommandContext) -> None:
        self._command = CustomCommand(argv, context)

    def turn(self, given: WorkerInput) -> WorkerOutput:
        request = msgspec.json.encode({"schema": SCHEMA, **msgspec.to_builtins(given)})
        return _parse_answer(self._command.answer(request, given.feature_id, given.role))


def _is_existing_path(word: str) -> bool:
    return os.path.isabs(word) and os.path.exists(word)


class TurnWatch:
    """Notices that a command has not started or is silent for too long, and that its feature was stopped."""

    def __init__(
        self,
        begun: Path,
        output_bytes: Callable[[], int],
        timeouts: TurnTimeouts,
        clock: Callable[[], float],
        stopped: Callable[[], str],
    ) -> None:
        self._begun = begun
        self._output_bytes = output_bytes
        self._timeouts = timeouts
        self._clock = clock
        self._stopped = stopped
        self._since = self._asked = clock()
        self._seen_bytes: int | None = None

    def ends_early(self, silent_seconds: float) -> str:
        """Return why the command must be stopped now, or nothing; its log has been silent for so many seconds."""
        now, timeouts = self._clock(), self._timeouts
        if now - self._asked >= _ASK_SECONDS:
            self._asked = now
            if reason := self._stopped():
                return reason
        if self._seen_bytes is None and not self._begun.exists():
            is_late = now - self._since >= timeouts.spawn_seconds
            return _late_text("had not started", timeouts.spawn_seconds) if is_late else ""
        output = self._output_bytes()
        if output != self._seen_bytes:
            self._seen_bytes, self._since = output, now
        silent = min(silent_seconds, now - self._since)
        is_idle = bool(timeouts.idle_seconds) and silent >= timeouts.idle_seconds
        return _late_text("had printed nothing", timeouts.idle_seconds) if is_idle else ""


def _late_text(what: str, seconds: float) -> str:
    return f"The command {what} after {seconds:g} seconds."


class _OutputPipe:
    """Reads a named pipe up to a limit, then stops reading."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._chunks: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> _OutputPipe:
        os.mkfifo(self._path, 0o600)
        self._reader = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Held open for writing: otherwise the reader sees the end before the process has started.
        self._keeper = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        os.set_blocking(self._reader, True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._keeper)
        # A stray child of the process may hold the pipe open; wait for it only this long.
        self._thread.join(_GOODBYE_SECONDS)

    @property
    def output(self) -> bytes:
        return b"".join(self._chunks)

    def output_bytes(self) -> int:
        """Return the number of bytes read so far."""
        return sum(map(len, self._chunks))

    def _read(self) -> None:
        left = self._limit + 1
        with open(self._reader, "rb", buffering=0) as stream:
            while left > 0 and (chunk := stream.read(min(left, 1 << 16))):
                self._chunks.append(chunk)
                left -= len(chunk)


def _refuse_failure(output: bytes, ended: CommandResult, lines: Sequence[str]) -> None:
    if len(output) > LARGEST_ANSWER:
        raise AgentOutputTooLarge(f"The agent's answer is larger than {LARGEST_ANSWER} bytes.")
    fault = fault_of(ended, lines)
    if fault is not None:
        raise fault


def _parse_answer(output: bytes) -> WorkerOutput:
    try:
        answer: WorkerOutput = msgspec.convert(parse_json(output.decode()), WorkerOutput)
    except (UnicodeDecodeError, MalformedText, msgspec.ValidationError) as error:
        excerpt = output[:_EXCERPT].decode(errors="replace")
        begins = f" It begins with: {visible(' '.join(excerpt.split()))}" if excerpt.strip() else " It is empty."
        raise NoUsableAnswer(
            f"The agent's answer is not a valid proposal: {error}.{begins}", begins_with=excerpt
        ) from error
    if answer.usage is None:
        return answer
    return msgspec.structs.replace(answer, usage=msgspec.structs.replace(answer.usage, self_reported=True))


def split_command(command: str) -> tuple[str, ...]:
    """Split a command line into words. Raises: ProviderAuthMissing if it has no words."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ProviderAuthMissing(f"The command of the custom agent cannot be parsed: {error}.") from error
    if not words:
        raise ProviderAuthMissing("The command of the custom agent is empty.")
    return words


def command_from(environ: Mapping[str, str], config_ref: str | None) -> str:
    """Return the command in the named variable, or in the default one. Raises: ProviderAuthMissing."""
    variable = config_ref or DEFAULT_VARIABLE
    command = environ.get(variable, "").strip()
    if not command:
        raise ProviderAuthMissing(
            f"The provider `custom` needs a command in `{variable}`, which is not set.",
            hint=f"Set `{variable}` to the command of your agent, or name another variable with --provider-config-env.",
            variable=variable,
        )
    return command

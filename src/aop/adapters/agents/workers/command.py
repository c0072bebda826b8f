"""A coding agent that is a command of the user's: one JSON object on its standard input, one on its standard output.

It runs like a gate: in the sandbox, with the allow-listed environment, in a copy of the feature's tree that is thrown
away afterwards. Only what it answers counts.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.agents.turn_logs import fresh_log
from aop.adapters.files.own_folders import held_folder
from aop.core.errors import NoUsableAnswer, ProviderAuthMissing
from aop.core.ids import FeatureId
from aop.core.text.json import MalformedText, parse_json
from aop.kernel.config.policy import ExecutionRules, SupervisorRules
from aop.kernel.ports.processes import Command, Ended, Ending, Processes
from aop.supervisor.workers import WorkerInput, WorkerOutput

DEFAULT_VARIABLE = "AOP_CUSTOM_AGENT"
SCHEMA = 1
LARGEST_ANSWER = 8 * 1024 * 1024
_EXCERPT = 300
_GOODBYE_SECONDS = 2.0
# The shell only connects files and becomes the command: none of the words is read as shell.
_CONNECTED = ("/bin/sh", "-c", ': >"$0/begun" && exec <"$0/in" >"$0/out" && exec "$@"')


class TurnPatience(Struct, frozen=True, kw_only=True):
    """How long a turn may take."""

    seconds: float
    """All in all."""
    spawn_seconds: float
    """Until the command has begun."""
    idle_seconds: float
    """While it prints nothing; 0 is for ever."""


def patience_of(rules: SupervisorRules) -> TurnPatience:
    """Return what the policy allows."""
    return TurnPatience(
        seconds=rules.turn_timeout_seconds,
        spawn_seconds=rules.turn_spawn_seconds,
        idle_seconds=rules.turn_idle_seconds,
    )


class CommandContext(Struct, frozen=True, kw_only=True):
    """What a turn of a command needs from this machine."""

    processes: Processes
    rules: Callable[[], ExecutionRules]
    scratch: Callable[[FeatureId], AbstractContextManager[Path]]
    """Gives a copy of a feature's tree that is gone afterwards."""
    environment: Callable[[FeatureId], tuple[tuple[str, str], ...]]
    """What tells a feature's processes which ports are theirs."""
    private: Path
    """A folder of AOP's own, for what goes in and out."""
    logs: Path
    path: str
    """Where programs are looked up."""
    patience: TurnPatience


class CustomCommand:
    """A command of the user's that is started once a turn."""

    def __init__(self, argv: tuple[str, ...], context: CommandContext) -> None:
        self._argv = argv
        self._context = context

    def answer(self, asked: bytes, feature_id: FeatureId, role: str) -> bytes:
        """Start it with one object, and return all that it says.

        Raises: NoUsableAnswer.
        """
        self._context.private.mkdir(parents=True, exist_ok=True)
        with self._context.scratch(feature_id) as tree, held_folder(self._context.private) as folder:
            (folder / "in").write_bytes(asked)
            with _OutputPipe(folder / "out", LARGEST_ANSWER) as listener:
                watch = TurnWatch(folder / "begun", listener.output_bytes, self._context.patience, time.monotonic)
                log = fresh_log(self._context.logs, feature_id, role)
                command = self._command(tree, folder, watch, log)
                own = self._context.environment(feature_id)
                ended = self._context.processes.run(msgspec.structs.replace(command, env=(*own, *command.env)))
        _refuse_failure(listener.heard, ended)
        return listener.heard

    def _command(self, tree: Path, folder: Path, watch: TurnWatch, log: Path) -> Command:
        rules = self._context.rules()
        program, *others = self._argv
        # A program that is named by its path brings its library along, as one on the PATH does.
        path = [*([os.path.dirname(program)] if os.path.isabs(program) else []), self._context.path]
        named = [os.path.realpath(program), *others] if os.path.isabs(program) else others
        return Command(
            argv=(*_CONNECTED, str(folder), *self._argv),
            cwd=tree,
            worktree=tree,
            env=(("PATH", os.pathsep.join(path)),),
            env_allowlist=rules.env_allowlist,
            timeout_seconds=self._context.patience.seconds,
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
        asked = msgspec.json.encode({"schema": SCHEMA, **msgspec.to_builtins(given)})
        return _parse_answer(self._command.answer(asked, given.feature_id, given.role))


def _is_existing_path(word: str) -> bool:
    return os.path.isabs(word) and os.path.exists(word)


class TurnWatch:
    """Sees when a command has not begun, or has said nothing, for too long."""

    def __init__(
        self, begun: Path, output_bytes: Callable[[], int], patience: TurnPatience, clock: Callable[[], float]
    ) -> None:
        self._begun = begun
        self._output_bytes = output_bytes
        self._patience = patience
        self._clock = clock
        self._since = clock()
        self._heard: int | None = None

    def ends_early(self, silent_seconds: float) -> str:
        """Return why the command is to be ended now, or nothing; it has not written to its log for so long."""
        now, patience = self._clock(), self._patience
        if self._heard is None and not self._begun.exists():
            return (
                ""
                if now - self._since < patience.spawn_seconds
                else _late_text("had not begun", patience.spawn_seconds)
            )
        heard = self._output_bytes()
        if heard != self._heard:
            self._heard, self._since = heard, now
        silent = min(silent_seconds, now - self._since)
        is_idle = bool(patience.idle_seconds) and silent >= patience.idle_seconds
        return _late_text("had said nothing more", patience.idle_seconds) if is_idle else ""


def _late_text(what: str, seconds: float) -> str:
    return f"It {what} after {seconds:g} seconds."


class _OutputPipe:
    """Takes what a process writes to a pipe with a name, up to a limit; whoever writes on then has no reader."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._chunks: list[bytes] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> _OutputPipe:
        os.mkfifo(self._path, 0o600)
        self._reader = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Held open for writing, so that the reader sees no end before the process has begun.
        self._keeper = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        os.set_blocking(self._reader, True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._keeper)
        # What got away from the process holds the pipe no longer than this.
        self._thread.join(_GOODBYE_SECONDS)

    @property
    def heard(self) -> bytes:
        return b"".join(self._chunks)

    def output_bytes(self) -> int:
        """Return how much was heard so far."""
        return sum(map(len, self._chunks))

    def _listen(self) -> None:
        left = self._limit + 1
        with open(self._reader, "rb", buffering=0) as pipe:
            while left > 0 and (chunk := pipe.read(min(left, 1 << 16))):
                self._chunks.append(chunk)
                left -= len(chunk)


def _refuse_failure(said: bytes, ended: Ended) -> None:
    if len(said) > LARGEST_ANSWER:
        raise NoUsableAnswer(f"The agent wrote more than {LARGEST_ANSWER} bytes.")
    if ended.ending is Ending.NOT_STARTED:
        raise NoUsableAnswer(f"The agent's command did not start: {ended.problem}", ending=ended.ending)
    if ended.ending is not Ending.EXITED or ended.exit_code:
        why = ended.problem or f"It ended with {ended.exit_code}."
        raise NoUsableAnswer(f"The agent's command failed: {why}", ending=ended.ending, exit_code=ended.exit_code)


def _parse_answer(said: bytes) -> WorkerOutput:
    """Read an answer from the wire.

    Raises: NoUsableAnswer.
    """
    try:
        output: WorkerOutput = msgspec.convert(parse_json(said.decode()), WorkerOutput)
    except (UnicodeDecodeError, MalformedText, msgspec.ValidationError) as error:
        excerpt = said[:_EXCERPT].decode(errors="replace")
        raise NoUsableAnswer(f"The agent's answer is not one of the four: {error}.", begins_with=excerpt) from error
    return output


def split_command(command: str) -> tuple[str, ...]:
    """Split a command as a person writes it in a variable.

    Raises: ProviderAuthMissing if it names nothing that could be run.
    """
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ProviderAuthMissing(f"The command of the custom agent cannot be split: {error}.") from error
    if not words:
        raise ProviderAuthMissing("The command of the custom agent is empty.")
    return words


def command_from(environ: Mapping[str, str], config_ref: str | None) -> str:
    """Return the command that the named variable holds, or the usual one.

    Raises: ProviderAuthMissing.
    """
    variable = config_ref or DEFAULT_VARIABLE
    command = environ.get(variable, "").strip()
    if not command:
        raise ProviderAuthMissing(
            f"The provider `custom` takes its command from `{variable}`, which is not set.",
            hint=f"Set `{variable}` to the command of your agent, or name another variable: `--provider-config-env`.",
            variable=variable,
        )
    return command

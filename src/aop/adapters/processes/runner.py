"""Runner of gate steps: in the best sandbox, a clean environment, and limits."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from aop.adapters.files.own_folders import held_folder
from aop.adapters.machine.own_environment import without_folders
from aop.adapters.processes.child import (
    DRAIN_SECONDS,
    MAKER,
    MARKER,
    WAIT_FOR_LINE,
    CannotStart,
    Child,
    InheritedDescriptors,
    start_child,
)
from aop.adapters.processes.command_lines import ResolvedCommand, resolve_program
from aop.adapters.processes.home_folders import link_user_places, private_folder
from aop.adapters.processes.limits import Limiter, limiter
from aop.adapters.processes.program_hashes import programs_hash
from aop.adapters.processes.sandbox.bubblewrap import (
    Bubblewrap,
    FailedProof,
    Mount,
    installed_bubblewraps,
    make_caches,
    prove,
    step_view,
    system_view,
)
from aop.adapters.processes.sandbox.landlock import NO_PORT_RULES, Landlock
from aop.adapters.processes.sandbox.shown_git import HiddenRepository, ShownGit, closed_places
from aop.adapters.processes.step_log import StepLog, without_controls
from aop.adapters.processes.toolchains import homes_of_tools, is_within, named_roots, tool_roots
from aop.core.errors import Fault, SandboxUnavailable
from aop.kernel.ports.processes import Command, CommandResult, Ending

T = TypeVar("T")

RUNGS = ("bubblewrap", "landlock")
"""The sandboxes, the best one first."""

_KILLED = 128 + signal.SIGKILL
_FILE_TOO_LARGE = 128 + signal.SIGXFSZ
_POLL_SECONDS = 0.2
_COUNT_SECONDS = 0.05


class _Outcome(Struct, frozen=True, kw_only=True):
    ending: Ending
    exit_code: int | None = None
    problem: str = ""
    transient: bool = False


class _Logs(Struct, frozen=True, kw_only=True):
    output: StepLog
    errors: StepLog | None = None
    """The log of standard error; None if it is part of the output."""
    kept: bytearray
    """The first bytes of the output as they were printed."""
    most_kept: int

    def take(self, part: bytes) -> None:
        """Take bytes of the output."""
        self.kept.extend(part[: self.most_kept - len(self.kept)])
        self.output.feed(part)

    def take_errors(self) -> Callable[[bytes], None] | None:
        """Return what takes the bytes of standard error; None if the output takes them."""
        return None if self.errors is None else self.errors.feed


class LocalProcesses:
    """Implements `aop.kernel.ports.processes.Processes`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        redact: Callable[[str], str],
        *,
        private_root: Path,  # no sandboxed step sees it
        repository: HiddenRepository | None = None,
        hidden: tuple[str, ...] = (),  # folders of AOP's own that no variable of a step leads into
        clock_seconds: Callable[[], float] = time.monotonic,
        grace_seconds: float = 2.0,  # from SIGTERM to SIGKILL
        rungs: Sequence[str] = RUNGS,
    ) -> None:
        """Take the environment that steps get a part of, and the repository that sandboxes hide."""
        self._environ = without_folders(environ, hidden)
        self._hidden = hidden
        self._redact = redact
        self._private_root = private_root
        self._closed = closed_places(repository)
        self._shown_git = ShownGit(repository)
        self._clock = clock_seconds
        self._grace_seconds = grace_seconds
        home = os.path.normpath(environ.get("HOME") or "/")
        self._home = home if os.path.isabs(home) and home != "/" else "/home/aop"
        self._rungs = rungs
        self._proof: Bubblewrap | Landlock | FailedProof | None = None
        self._port_proof: Landlock | FailedProof | None = None

    def sandbox_level(self, sandbox: str) -> str:
        """Return the level that the self-test proves for this setting. Raises: SandboxUnavailable."""
        return _level(self._sandbox(sandbox))

    def why_ports_stay_open(self, sandbox: str) -> str:
        """Return why commands cannot be kept to some ports; empty if they can. Raises: SandboxUnavailable."""
        holding = self._sandbox(sandbox)
        if holding is None:
            return "no sandbox holds"
        proof = self._ports_of(holding) if isinstance(holding, Bubblewrap) else holding
        if isinstance(proof, FailedProof):
            return proof.reason
        return "" if proof.rules_over_ports else NO_PORT_RULES

    def identity(self, sandbox: str, programs: Sequence[str]) -> str:
        """Return the level, and a hash of the programs."""
        return f"{self.sandbox_level(sandbox)}:{programs_hash(programs, self._environ.get('PATH', os.defpath))}"

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run each task in a thread."""
        with ThreadPoolExecutor(max_workers=max(1, len(tasks))) as threads:
            return list(threads.map(lambda task: task(), tasks))

    def run(self, command: Command) -> CommandResult:
        """Run one command to its end. Raises: SandboxUnavailable."""
        sandbox = self._sandbox(command.sandbox)
        logs = self._logs(command)
        began = self._clock()
        try:
            outcome = self._outcome(command, sandbox, logs)
        except CannotStart as error:
            logs.output.feed(f"{error}\n".encode(errors="replace"))
            problem = self._redact(without_controls(str(error)))
            outcome = _Outcome(ending=Ending.NOT_STARTED, problem=problem, transient=error.transient)
        finally:
            log_bytes, log_truncated = logs.output.close()
            if logs.errors is not None:
                logs.errors.close()
        return CommandResult(
            ending=outcome.ending,
            exit_code=outcome.exit_code,
            seconds=self._clock() - began,
            sandbox_level=_level(sandbox),
            log_bytes=log_bytes,
            log_truncated=log_truncated,
            problem=outcome.problem,
            transient=outcome.transient,
            output=bytes(logs.kept),
        )

    def _logs(self, command: Command) -> _Logs:
        def log_at(path: Path) -> StepLog:
            return StepLog(path, self._redact, max_bytes=command.max_log_bytes)

        errors = command.error_log_path
        return _Logs(
            output=log_at(command.log_path),
            errors=None if errors is None else log_at(errors),
            kept=bytearray(),
            most_kept=command.kept_output_bytes,
        )

    def _outcome(self, command: Command, sandbox: Bubblewrap | Landlock | None, logs: _Logs) -> _Outcome:
        program = resolve_program(command, self._environ, self._hidden)
        with limiter(command.limits) as limits:
            with self._start(command, program, sandbox, limits, logs) as child:
                too_late = self._wait(child, command, limits)
                # One with too many processes would make more of them in the time that it gets to end.
                if too_late and not limits.excess:
                    child.terminate()
                    child.ended_by(self._clock() + self._grace_seconds)
                elif not too_late:
                    child.output_ended_by(self._clock() + DRAIN_SECONDS)
            out_of_memory = limits.ran_out_of_memory(child.exit_code)
        if limits.excess:
            return _Outcome(ending=Ending.EXITED, exit_code=_KILLED, problem=limits.excess)
        if too_late:
            return _Outcome(ending=Ending.TIMED_OUT, problem=too_late)
        if out_of_memory:
            problem = "The kernel killed it, because the memory was used up."
            return _Outcome(ending=Ending.OUT_OF_MEMORY, exit_code=child.exit_code, problem=problem)
        child.check_was_run(program.argv[0])
        problem = ""
        if child.exit_code == _FILE_TOO_LARGE and command.limits.file_bytes:
            problem = f"It wrote a file of more than {command.limits.file_bytes} bytes."
        return _Outcome(ending=Ending.EXITED, exit_code=child.exit_code, problem=problem)

    def _wait(self, child: Child, command: Command, limits: Limiter) -> str:
        """Wait for the end; return why the process must be ended, or an empty text."""
        deadline = self._clock() + command.timeout_seconds
        pause = command.timeout_seconds if command.ends_early is None else _POLL_SECONDS
        pause = _COUNT_SECONDS if limits.counts_processes else pause
        while not child.ended_by(min(deadline, self._clock() + pause)):
            if self._clock() >= deadline:
                return f"It did not end within {command.timeout_seconds:g} seconds."
            why = command.ends_early(self._clock() - child.heard_at) if command.ends_early else ""
            if why := limits.find_excess(child.pid) or why:
                return why
        return ""

    def _sandbox(self, setting: str) -> Bubblewrap | Landlock | None:
        if setting not in ("auto", "require", "off"):
            raise Fault(f"`{setting}` is not a setting of `execution.sandbox`.")
        if setting == "off":
            return None
        if self._proof is None:
            self._proof = self._prove()
        if not isinstance(self._proof, FailedProof):
            return self._proof
        if setting == "require":
            raise SandboxUnavailable(f"No sandbox holds on this machine: {self._proof.reason}.")
        return None

    def _prove(self) -> Bubblewrap | Landlock | FailedProof:
        reasons = []
        for rung in self._rungs:
            proof = self._prove_bubblewrap() if rung == "bubblewrap" else self._prove_landlock()
            if not isinstance(proof, FailedProof):
                return proof
            reasons.append(proof.reason)
        return FailedProof("; ".join(reasons) or "none may be used")

    def _prove_bubblewrap(self) -> Bubblewrap | FailedProof:
        with held_folder(self._scratch()) as folder:
            return prove(installed_bubblewraps(self._environ.get("PATH", "").split(os.pathsep)), folder / "proof")

    def _prove_landlock(self) -> Landlock | FailedProof:
        # Only needed if bubblewrap does not work.
        from aop.adapters.processes.sandbox.landlock_proof import prove_landlock

        with held_folder(self._scratch()) as folder:
            return prove_landlock(folder / "proof", home=self._home)

    def _ports_of(self, bubblewrap: Bubblewrap) -> Landlock | FailedProof:
        if self._port_proof is None:
            # Only agent sessions need it.
            from aop.adapters.processes.sandbox.port_proof import prove_ports

            self._port_proof = prove_ports(bubblewrap)
        return self._port_proof

    def _scratch(self) -> Path:
        self._private_root.mkdir(parents=True, exist_ok=True)
        return self._private_root

    def _start(
        self,
        command: Command,
        program: ResolvedCommand,
        sandbox: Bubblewrap | Landlock | None,
        limits: Limiter,
        logs: _Logs,
    ) -> AbstractContextManager[Child]:
        if sandbox is None:
            return self._without_sandbox(program, limits, logs)
        if isinstance(sandbox, Bubblewrap):
            return self._in_bubblewrap(command, program, sandbox, limits, logs)
        return self._under_landlock(command, program, sandbox, limits, logs)

    @contextmanager
    def _in_bubblewrap(
        self, command: Command, program: ResolvedCommand, bubblewrap: Bubblewrap, limits: Limiter, logs: _Logs
    ) -> Iterator[Child]:
        """Start the program in bubblewrap, whose own environment holds only its marker."""
        with self._shown_git.of(command.worktree.resolve(), command.report) as shown, InheritedDescriptors() as handed:
            view = self._view(command, program)
            if shown is not None:
                view[self._closed[1]] = Mount("--ro-bind", str(shown))
            argv = bubblewrap.command(
                program.argv,
                view,
                env={"HOME": self._home, "TMPDIR": "/tmp", **program.env},
                cwd=program.cwd,
                network="none" if command.network == "none" else "host",
                handed=handed,
                tmp_bytes=command.limits.tmp_bytes,
            )
            if command.network == "ports" and isinstance(proof := self._ports_of(bubblewrap), Landlock):
                argv = [*proof.confining_words(command.ports, handed), *argv]
            env = {MAKER: f"{os.getpid()}-{self._private_root}"}
            with start_child(
                [*WAIT_FOR_LINE, *argv],
                limits=limits,
                take=logs.take,
                take_errors=logs.take_errors(),
                clock=self._clock,
                handed=handed,
                env=env,
            ) as child:
                yield child

    @contextmanager
    def _under_landlock(
        self, command: Command, program: ResolvedCommand, landlock: Landlock, limits: Limiter, logs: _Logs
    ) -> Iterator[Child]:
        """Start the program under Landlock, with private home and temporary folders."""
        worktree = command.worktree.resolve()
        if (worktree / ".git").is_dir():
            raise CannotStart(f"The worktree `{worktree}` is a repository, which Landlock cannot keep as it is.")
        view = self._view(command, program)
        # Landlock cannot close a file in an open folder, so this one is restored afterwards.
        for place in (str(worktree / ".git"), *map(os.path.realpath, command.read_only)):
            view.pop(place, None)
        with (
            private_folder(self._scratch()) as folder,
            self._shown_git.of(worktree, command.report, linked=True) as shown,
            InheritedDescriptors() as handed,
        ):
            if shown is not None:
                view[str(shown)] = Mount("--ro-bind", str(shown))
            places = [place for place, mount in view.items() if mount.source == place]
            link_user_places(folder / "home", os.path.realpath(self._home), places)
            argv = landlock.command(
                program.argv,
                landlock.restrictions(view, writable=[str(folder)], network=command.network, ports=command.ports),
                env={**_private_variables(folder), **_java_options(folder), **program.env},
                cwd=program.cwd,
                handed=handed,
            )
            with start_child(
                argv,
                limits=limits,
                take=logs.take,
                take_errors=logs.take_errors(),
                clock=self._clock,
                handed=handed,
            ) as child:
                yield child

    @contextmanager
    def _without_sandbox(self, program: ResolvedCommand, limits: Limiter, logs: _Logs) -> Iterator[Child]:
        """Start the program without a sandbox, with private home and temporary folders."""
        with private_folder(self._scratch()) as folder:
            env = {**homes_of_tools(self._home), **_private_variables(folder), **program.env, MARKER: folder.name}
            with start_child(
                program.argv,
                limits=limits,
                take=logs.take,
                take_errors=logs.take_errors(),
                clock=self._clock,
                cwd=program.cwd,
                env=env,
            ) as child:
                yield child

    def _view(self, command: Command, program: ResolvedCommand) -> dict[str, Mount]:
        worktree = str(command.worktree)
        folder = os.path.dirname(program.argv[0])
        is_own = is_within(folder, worktree, os.path.realpath(worktree))
        tools = tool_roots(
            program.path if is_own else (*program.path, folder),
            named_roots(program.env),
            home=self._home,
            hidden=(*self._closed, worktree, str(self._private_root)),
        )
        read_only = [os.path.realpath(path) for path in command.read_only if not os.path.islink(path)]
        make_caches(read_only)
        return step_view(
            system_view(self._home, command.network),
            tools,
            home=self._home,
            worktree=worktree,
            closed=self._closed,
            readable=command.readable,
            writable=command.writable,
            read_only=read_only,
        )


def _level(sandbox: Bubblewrap | Landlock | None) -> str:
    return "none" if sandbox is None else type(sandbox).__name__.lower()


def _private_variables(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}


def _java_options(folder: Path) -> dict[str, str]:
    """Return the variable that leads Java to the private folders; it ignores `HOME` and `TMPDIR`."""
    return {"JAVA_TOOL_OPTIONS": f"-Duser.home='{folder}/home' -Djava.io.tmpdir='{folder}/tmp'"}

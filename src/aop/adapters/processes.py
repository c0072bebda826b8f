"""Runs gate steps on this machine: in the sandbox where it holds, with a clean environment, within a time limit."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from aop.adapters.children import DRAIN_SECONDS, MARKER, CannotStart, Child, started
from aop.adapters.sandbox import (
    Bubblewrap,
    HandedDown,
    Mount,
    Unproven,
    installed_bubblewraps,
    prove,
    step_view,
    system_view,
)
from aop.adapters.steplogs import StepLog
from aop.adapters.toolchains import homes_of_tools, is_within, named_roots, search_path, tool_roots
from aop.core.errors import Fault, SandboxUnavailable
from aop.kernel.ports import Command, Ended, Ending

_FIXED = {
    "CI": "true",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    # 1980 is the earliest year that a zip file, and so a wheel or a jar, can hold.
    "SOURCE_DATE_EPOCH": "315532800",
}
_KILLED = 137


class _Outcome(Struct, frozen=True, kw_only=True):
    ending: Ending
    exit_code: int | None = None
    problem: str = ""


class _Program(Struct, frozen=True, kw_only=True):
    """What a command comes to on this machine."""

    argv: tuple[str, ...]
    cwd: str
    path: tuple[str, ...]
    env: dict[str, str]


class LocalProcesses:
    """Implements `aop.kernel.ports.Processes`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        redact: Callable[[str], str],
        *,
        private_root: Path,
        git_dirs: Sequence[Path] = (),
        clock_seconds: Callable[[], float] = time.monotonic,
        grace_seconds: float = 2.0,
        bubblewraps: Sequence[str] | None = None,
    ) -> None:
        """Take the environment that steps may get a part of, and the git folders that they may only read.

        `private_root` is a folder that no sandboxed step sees; `grace_seconds` is the time from SIGTERM to SIGKILL;
        `bubblewraps` are the sandbox programs to try, instead of those that are installed.
        """
        self._environ = environ
        self._redact = redact
        self._private_root = private_root
        self._git_dirs = tuple(os.path.realpath(folder) for folder in git_dirs)
        self._clock = clock_seconds
        self._grace_seconds = grace_seconds
        home = os.path.normpath(environ.get("HOME") or "/")
        self._home = home if os.path.isabs(home) and home != "/" else "/home/aop"
        self._bubblewraps = bubblewraps
        self._proof: Bubblewrap | Unproven | None = None

    def sandbox_level(self, sandbox: str) -> str:
        """Return `bubblewrap` or `none`: the level that the self-test proves for this setting.

        Raises: SandboxUnavailable.
        """
        return "bubblewrap" if self._bubblewrap(sandbox) else "none"

    def run(self, command: Command) -> Ended:
        """Run one command to its end.

        Raises: SandboxUnavailable.
        """
        bubblewrap = self._bubblewrap(command.sandbox)
        log = StepLog(command.log_path, self._redact)
        began = self._clock()
        try:
            outcome = self._outcome(command, bubblewrap, log)
        except CannotStart as error:
            log.feed(f"{error}\n".encode(errors="replace"))
            outcome = _Outcome(ending=Ending.NOT_STARTED, problem=self._redact(str(error)))
        finally:
            log_bytes, log_truncated = log.close()
        return Ended(
            ending=outcome.ending,
            exit_code=outcome.exit_code,
            seconds=self._clock() - began,
            sandbox_level="bubblewrap" if bubblewrap else "none",
            log_bytes=log_bytes,
            log_truncated=log_truncated,
            problem=outcome.problem,
        )

    def _bubblewrap(self, sandbox: str) -> Bubblewrap | None:
        if sandbox not in ("auto", "require", "off"):
            raise Fault(f"`{sandbox}` is not a setting of `execution.sandbox`.")
        if sandbox == "off":
            return None
        if self._proof is None:
            programs = self._bubblewraps
            if programs is None:
                programs = installed_bubblewraps(self._environ.get("PATH", "").split(":"))
            self._proof = prove(programs, self._private_root / os.urandom(8).hex())
        if isinstance(self._proof, Bubblewrap):
            return self._proof
        if sandbox == "require":
            raise SandboxUnavailable(f"No sandbox holds on this machine: {self._proof.reason}.")
        return None

    def _outcome(self, command: Command, bubblewrap: Bubblewrap | None, log: StepLog) -> _Outcome:
        program = self._resolved(command)
        memory_kills = _memory_kills()
        with self._sandboxed(command, program, bubblewrap, log) if bubblewrap else self._bare(program, log) as child:
            timed_out = not child.ended_by(self._clock() + command.timeout_seconds)
            if timed_out:
                child.terminate()
                child.ended_by(self._clock() + self._grace_seconds)
            else:
                child.fell_silent_by(self._clock() + DRAIN_SECONDS)
        if timed_out:
            return _Outcome(
                ending=Ending.TIMED_OUT, problem=f"It did not end within {command.timeout_seconds:g} seconds."
            )
        if child.exit_code == _KILLED and _memory_kills() > memory_kills:
            problem = "The kernel killed it, because the memory was used up."
            return _Outcome(ending=Ending.OUT_OF_MEMORY, exit_code=_KILLED, problem=problem)
        if not child.was_run:
            raise CannotStart(f"The sandbox could not run `{program.argv[0]}`; the line above says why.")
        return _Outcome(ending=Ending.EXITED, exit_code=child.exit_code)

    # --- what is run --------------------------------------------------------------------------------

    def _resolved(self, command: Command) -> _Program:
        worktree, cwd = os.path.realpath(command.worktree), os.path.realpath(command.cwd)
        if not is_within(cwd, worktree) or not os.path.isdir(cwd):
            raise CannotStart(f"The folder `{command.cwd}` is not one in the worktree `{command.worktree}`.")
        own = ("HOME", "TMPDIR", MARKER)
        allowed = {n: self._environ[n] for n in command.env_allowlist if n in self._environ and n not in own}
        env = {**_FIXED, **allowed, **dict(command.env)}
        _check_texts(command.argv, env)
        path = search_path(env.get("PATH", self._environ.get("PATH", "")), worktree)
        argv = (_found(command.argv[0], cwd, path), *command.argv[1:])
        return _Program(argv=argv, cwd=cwd, path=path, env={**env, "PATH": ":".join(path)})

    # --- how it is run ------------------------------------------------------------------------------

    @contextmanager
    def _sandboxed(self, command: Command, program: _Program, bubblewrap: Bubblewrap, log: StepLog) -> Iterator[Child]:
        """Start the program in the sandbox, where bubblewrap itself gets no environment to be led astray by."""
        env = {"HOME": self._home, "TMPDIR": "/tmp", **program.env}
        with HandedDown() as handed:
            status_fd, reports_fd = os.pipe()
            handed.callback(os.close, status_fd)
            handed.add(reports_fd)
            os.set_blocking(status_fd, False)
            argv = bubblewrap.command(
                program.argv,
                self._view(command, program),
                env=env,
                cwd=program.cwd,
                network=command.network,
                handed=handed,
                status_fd=reports_fd,
            )
            inherited = handed.descriptors
            with started(
                argv, cwd="/", env={}, take=log.feed, clock=self._clock, descriptors=inherited, status_fd=status_fd
            ) as child:
                yield child

    def _view(self, command: Command, program: _Program) -> dict[str, Mount]:
        worktree = str(command.worktree)
        folder = os.path.dirname(program.argv[0])
        is_own = is_within(folder, worktree, os.path.realpath(worktree))
        tools = tool_roots(
            program.path if is_own else (*program.path, folder),
            named_roots(program.env),
            home=self._home,
            hidden=(*self._git_dirs, worktree, str(self._private_root)),
        )
        return step_view(
            system_view(self._home, command.network),
            tools,
            home=self._home,
            worktree=worktree,
            git_dirs=self._git_dirs,
            readable=command.readable,
            writable=command.writable,
        )

    @contextmanager
    def _bare(self, program: _Program, log: StepLog) -> Iterator[Child]:
        """Start the program as it is, with home and temporary folders of its own."""
        step_id = os.urandom(8).hex()
        with _private_folder(self._private_root / step_id) as folder:
            own = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
            env = {**homes_of_tools(self._home), **own, **program.env, MARKER: step_id}
            with started(program.argv, cwd=program.cwd, env=env, take=log.feed, clock=self._clock) as child:
                yield child


def _check_texts(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse what cannot be handed to a process.

    Raises: CannotStart.
    """
    if not argv or not argv[0]:
        raise CannotStart("The command is empty.")
    for name in env:
        if not name or "=" in name:
            raise CannotStart(f"{name!a} cannot be the name of a variable.")
    texts = {
        **{f"The argument {text!a}": text for text in argv},
        **{f"The variable {name!a}": name + env[name] for name in env},
    }
    for what, text in texts.items():
        try:
            if b"\0" in os.fsencode(text):
                raise CannotStart(f"{what} holds a NUL character.")
        except UnicodeEncodeError as error:
            raise CannotStart(f"{what} is not text.") from error


def _found(name: str, cwd: str, path: Sequence[str]) -> str:
    """Return the program: a plain name is looked up in `path`, another is a path from `cwd`.

    Raises: CannotStart.
    """
    places = [os.path.normpath(os.path.join(cwd, name))] if "/" in name else [os.path.join(f, name) for f in path]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    if "/" in name:
        raise CannotStart(f"`{name}` is not a program in `{cwd}`.")
    raise CannotStart(f"There is no program `{name}` on the PATH `{':'.join(path)}`.")


@contextmanager
def _private_folder(folder: Path) -> Iterator[Path]:
    """Make a folder with `home` and `tmp` in it, which is gone afterwards."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        # Some tools write-protect the folders of their caches.
        for parent, names, _ in os.walk(folder):
            for path in (os.path.join(parent, name) for name in names):
                if not os.path.islink(path):
                    os.chmod(path, stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)


def _memory_kills() -> int:
    """Return how often the kernel has killed a process for want of memory."""
    try:
        counters = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in counters.splitlines() if line.startswith("oom_kill ")), 0)

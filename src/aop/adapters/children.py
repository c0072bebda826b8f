"""One child process with all that it starts: watched until it ends, and then gone.

In the sandbox a step is a process namespace of its own, which ends as a whole with its main process or with AOP.
Without one, what a step leaves behind is found by its process group and by a variable in its environment: a process
that leaves the group and clears its environment gets away, and a step outlives an AOP that is killed with SIGKILL.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec

MARKER = "AOP_STEP_ID"
"""The variable by which the processes of a step are known."""

DRAIN_SECONDS = 0.2
"""How long output is taken from processes that outlive the main one."""

_CHUNK = 64 * 1024
_KILL_SECONDS = 2.0
_POLL_SECONDS = 0.02
_LONGEST_WAIT_SECONDS = 3600
_SCANS = 3

_core_limit = threading.Lock()


class CannotStart(Exception):
    """The process was not started; the text says why."""


class _BubblewrapStatus(msgspec.Struct, rename="kebab"):
    child_pid: int = 0
    exit_code: int | None = None


@contextmanager
def started(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    take: Callable[[bytes], None],
    clock: Callable[[], float],
    descriptors: Sequence[int] = (),
    status_fd: int | None = None,
) -> Iterator[Child]:
    """Start a process in a session of its own; whatever happens, nothing of it that can be found is left behind.

    `status_fd` is where bubblewrap reports, if it is what is started.

    Raises: CannotStart.
    """
    try:
        with _without_core_dumps():
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=descriptors,
            )
    except OSError as error:
        raise CannotStart(f"`{argv[0]}` could not be started: {error.strerror}.") from error
    child = Child(process, take, clock, marker=env.get(MARKER, ""), status_fd=status_fd)
    try:
        yield child
    finally:
        child.end()


class Child:
    """A running process; its output goes to `take` while it is watched."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        take: Callable[[bytes], None],
        clock: Callable[[], float],
        *,
        marker: str,
        status_fd: int | None,
    ) -> None:
        self._process = process
        self._take = take
        self._clock = clock
        self._marker = f"{MARKER}={marker}".encode() if marker else b""
        self._status_fd = status_fd
        self._status_text = b""
        self.was_run = False
        """Whether the sandbox, if there is one, did run the program; known when it has ended."""
        self._has_ended = False
        self._is_silent = False
        self._output = process.stdout.fileno() if process.stdout else -1
        self._exit = _exit_descriptor(process.pid)
        self._poll = select.poll()
        for descriptor in (self._output, self._exit):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code as a shell does, 128 + N for signal N; None if the process could not be killed."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    def ended_by(self, deadline: float) -> bool:
        """Take output until the process ends; tell whether it did before the deadline."""
        while not self._has_ended and self._clock() < deadline:
            self._attend(deadline)
        return self._has_ended

    def fell_silent_by(self, deadline: float) -> bool:
        """Take output until nobody holds the pipe any more; tell whether that was before the deadline."""
        while not self._is_silent and self._clock() < deadline:
            self._attend(deadline)
        return self._is_silent

    def terminate(self) -> None:
        """Ask the process group to end by itself."""
        # Bubblewrap would die of the signal at once, and the step with it: the step itself is asked.
        _signal_group(self._status().child_pid or self._process.pid, signal.SIGTERM)

    def end(self) -> None:
        """Kill what is left, take what it has still written, and reap the process."""
        # The process has not been reaped, so its id, which is that of the group, belongs to nobody else.
        _signal_group(self._process.pid, signal.SIGKILL)
        for _ in range(_SCANS):
            if not self._marker or not _kill_marked(self._marker):
                break
        try:
            self.ended_by(self._clock() + _KILL_SECONDS)
            self.fell_silent_by(self._clock() + DRAIN_SECONDS)
            self.was_run = self._status_fd is None or self._status().exit_code is not None
        finally:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_SECONDS)
            if self._process.stdout is not None:
                self._process.stdout.close()
            if self._exit is not None:
                os.close(self._exit)

    def _attend(self, deadline: float) -> None:
        """Wait until there is output, or the end, or the deadline has come."""
        # Without a descriptor for the end of the process, it is looked for from time to time.
        longest = _LONGEST_WAIT_SECONDS if self._exit is not None else _POLL_SECONDS
        seconds = min(max(0.0, deadline - self._clock()), longest)
        for descriptor, _ in self._poll.poll(int(seconds * 1000) + 1):
            if descriptor == self._output and (chunk := os.read(descriptor, _CHUNK)):
                self._take(chunk)
                continue
            self._poll.unregister(descriptor)
            self._is_silent |= descriptor == self._output
            self._has_ended |= descriptor == self._exit
        if self._exit is None:
            self._has_ended = self._process.poll() is not None

    def _status(self) -> _BubblewrapStatus:
        """Return what bubblewrap has reported until now, one JSON object a line."""
        if self._status_fd is None:
            return _BubblewrapStatus()
        with suppress(BlockingIOError):
            self._status_text += os.read(self._status_fd, _CHUNK)
        whole, _, _ = self._status_text.rpartition(b"\n")
        merged = _BubblewrapStatus()
        for line in whole.splitlines():
            said = msgspec.json.decode(line, type=_BubblewrapStatus)
            merged.child_pid = said.child_pid or merged.child_pid
            merged.exit_code = merged.exit_code if said.exit_code is None else said.exit_code
        return merged


def _exit_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None where the system has no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


@contextmanager
def _without_core_dumps() -> Iterator[None]:
    """Let children begin with a limit that keeps their memory, which may hold secrets, from being written to a file.

    The limit is inherited, so it is our own for the moment in which a child is made: setting it later would miss what
    the child has started by then.
    """
    with _core_limit:
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_marked(marker: bytes) -> bool:
    """Kill the processes that were started with the marker in their environment; tell whether there were any."""
    found = False
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdecimal() and marker in _environment_of(name):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)
                found = True
    return found


def _environment_of(pid: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return file.read().split(b"\0")
    except OSError:
        return []

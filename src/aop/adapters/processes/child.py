"""Child process with its descendants: limited, watched to its end, and cleaned up.

In a sandbox the child is the sandbox itself: it waits until it is limited, reports about the step, and ends with its
descendants and with AOP. If AOP is killed while it starts, a variable in its environment lets the next AOP find it.
Without a sandbox the child is the step. Its descendants are found by process group and by a variable: a process that
leaves the group and clears its environment escapes, and a step survives an AOP that is killed with SIGKILL.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

import msgspec

from aop.adapters.processes.limits import Limiter

MARKER = "AOP_STEP_ID"
"""The variable that marks the processes of a step without a sandbox."""
MAKER = "AOP_SANDBOX_OF"
"""The variable that marks a sandbox, but not the step in it: the process that started it, and its folder."""
WAIT_FOR_LINE = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
"""The prefix that makes a command wait for a line before it begins."""
DRAIN_SECONDS = 0.2
"""The time for which output of surviving processes is read."""

_CHUNK = 64 * 1024
_KILL_SECONDS = 3.0
_POLL_SECONDS = 0.02
_LONGEST_WAIT_SECONDS = 3600
_LAST_WORDS = 300
_TAIL_BYTES = 4096
_SCANS = 3
_TRANSIENT = (errno.EAGAIN, errno.ENOMEM, errno.ETXTBSY)

_core_limit = threading.Lock()


class CannotStart(Exception):
    """The step was not started, with the reason."""

    def __init__(self, why: str, *, transient: bool = False) -> None:
        super().__init__(why)
        self.transient = transient
        """Whether a retry may succeed."""


class InheritedDescriptors(ExitStack):
    """Descriptors that a child inherits; the parent's copies are closed at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptors: list[int] = []
        status_fd, reports_fd = os.pipe()
        os.set_blocking(status_fd, False)
        self.status_fd = self.keep(status_fd)
        self.reports_fd = self.add(reports_fd)
        """The child writes its reports here; AOP reads them from `status_fd`."""

    def keep(self, descriptor: int) -> int:
        """Close a descriptor at the end."""
        self.callback(os.close, descriptor)
        return descriptor

    def add(self, descriptor: int) -> int:
        """Hand down an open descriptor."""
        self.descriptors.append(self.keep(descriptor))
        return descriptor

    def content(self, data: bytes) -> int:
        """Hand down a descriptor with this content."""
        descriptor = self.add(os.memfd_create("aop"))
        while data:
            data = data[os.write(descriptor, data) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


class _Status(msgspec.Struct, rename="kebab"):
    child_pid: int = 0
    error: int = 0
    exit_code: int | None = None


@contextmanager
def start_child(
    argv: Sequence[str],
    *,
    limits: Limiter,
    take: Callable[[bytes], None],
    take_errors: Callable[[bytes], None] | None = None,
    clock: Callable[[], float],
    handed: InheritedDescriptors | None = None,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    """Start a process in a new session, and kill it with its descendants in the end. Raises: CannotStart.

    Without `take_errors` its standard error is part of its output.
    """
    # With `handed` the process is a sandbox: it waits for a line first, and reports.
    env = env or {}
    try:
        with _without_core_dumps(), limits.entered():
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                bufsize=0,
                stdin=subprocess.PIPE if handed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if take_errors is None else subprocess.PIPE,
                start_new_session=True,
                pass_fds=handed.descriptors if handed else (),
            )
    except OSError as error:
        raise _start_failure(argv[0], error) from error
    takes = (take, take_errors or take)
    child = Child(process, takes, clock, marker=env.get(MARKER, ""), status_fd=handed.status_fd if handed else None)
    try:
        child.begin(limits)
        yield child
    finally:
        child.end()


class Child:
    """A running process, whose output and errors go to `takes`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        takes: tuple[Callable[[bytes], None], Callable[[bytes], None]],
        clock: Callable[[], float],
        *,
        marker: str,
        status_fd: int | None,
    ) -> None:
        self._process = process
        self._clock = clock
        self._marker = f"{MARKER}={marker}".encode() if marker else b""
        self._status_fd = status_fd
        self._status_text = b""
        self._last_status = _Status()
        self._has_ended = False
        self._tail = b""
        self.heard_at = clock()
        """The time of its last output, or of its start."""
        streams = zip((process.stdout, process.stderr), takes, strict=True)
        self._open = {stream.fileno(): take for stream, take in streams if stream is not None}
        """What takes the bytes of each stream that is not closed yet."""
        self._exit = _exit_descriptor(process.pid)
        self._poll = select.poll()
        for descriptor in (*self._open, self._exit):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code as a shell does, 128 + N for signal N; None if the process could not be killed."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    def begin(self, limits: Limiter) -> None:
        """Limit the process, and let it begin if it waits. Raises: CannotStart."""
        try:
            limits.impose(self._process.pid)
        except ProcessLookupError:
            pass
        except OSError as error:
            raise CannotStart(f"The step could not be limited: {error.strerror}.") from error
        if self._process.stdin is not None:
            # A process that ended already has printed why.
            with suppress(BrokenPipeError):
                self._process.stdin.write(b"\n")
            self._process.stdin.close()

    def ended_by(self, deadline: float) -> bool:
        """Read output until the process ends; tell whether it ended before the deadline."""
        while not self._has_ended and self._clock() < deadline:
            self._wait_for_event(deadline)
        return self._has_ended

    def output_ended_by(self, deadline: float) -> bool:
        """Read output until its pipes are closed; tell whether that was before the deadline."""
        while self._open and self._clock() < deadline:
            self._wait_for_event(deadline)
        return not self._open

    def terminate(self) -> None:
        """Send SIGTERM to the step."""
        # Bubblewrap would die of the signal at once, and the step with it, so the step itself gets it.
        _signal_group(self._status().child_pid or self._process.pid, signal.SIGTERM)

    def end(self) -> None:
        """Kill what is left, read the rest of the output, and reap the process."""
        try:
            if self._status_fd is not None and not self._has_ended:
                # Bubblewrap dies of it, with its namespace; the launcher kills its descendants first.
                self._process.terminate()
                self.ended_by(self._clock() + _KILL_SECONDS)
            # The process is not reaped yet, so its id, which is also the group, cannot be reused.
            _signal_group(self._process.pid, signal.SIGKILL)
            if self._marker:
                _kill_marked(self._marker)
            self.ended_by(self._clock() + _KILL_SECONDS)
            self._last_status = self._status()
            _await_end(self._last_status.child_pid)
            self.output_ended_by(self._clock() + DRAIN_SECONDS)
        finally:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_SECONDS)
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()
            if self._exit is not None:
                os.close(self._exit)

    def check_was_run(self, program: str) -> None:
        """Check that the step itself has ended, and not the sandbox before it. Raises: CannotStart."""
        if self._status_fd is None:
            return
        if self._last_status.error:
            raise _start_failure(program, OSError(self._last_status.error, os.strerror(self._last_status.error)))
        if self._last_status.exit_code is None:
            words = self._tail.decode("utf-8", "replace").strip().rpartition("\n")[2][-_LAST_WORDS:]
            transient = any(words.endswith(os.strerror(code)) for code in _TRANSIENT)
            why = words or "the sandbox was ended"
            raise CannotStart(f"`{program}` could not be started: {why}.", transient=transient)

    def _wait_for_event(self, deadline: float) -> None:
        """Wait for output, the end, or the deadline."""
        # Without a descriptor for the end of the process, it is polled.
        longest = _LONGEST_WAIT_SECONDS if self._exit is not None else _POLL_SECONDS
        seconds = min(max(0.0, deadline - self._clock()), longest)
        for descriptor, _ in self._poll.poll(int(seconds * 1000) + 1):
            take = self._open.get(descriptor)
            if take is not None and (chunk := os.read(descriptor, _CHUNK)):
                self._tail, self.heard_at = (self._tail + chunk)[-_TAIL_BYTES:], self._clock()
                take(chunk)
                continue
            self._poll.unregister(descriptor)
            self._open.pop(descriptor, None)
            self._has_ended |= descriptor == self._exit
        if self._exit is None:
            self._has_ended = self._process.poll() is not None

    def _status(self) -> _Status:
        """Return the reports of the sandbox up to now, one JSON object a line."""
        if self._status_fd is None:
            return _Status()
        with suppress(BlockingIOError):
            self._status_text += os.read(self._status_fd, _CHUNK)
        whole, _, _ = self._status_text.rpartition(b"\n")
        merged = _Status()
        for line in whole.splitlines():
            said = msgspec.json.decode(line, type=_Status)
            merged.child_pid = said.child_pid or merged.child_pid
            merged.error = said.error or merged.error
            merged.exit_code = merged.exit_code if said.exit_code is None else said.exit_code
        return merged


def _start_failure(what: str, error: OSError) -> CannotStart:
    return CannotStart(f"`{what}` could not be started: {error.strerror}.", transient=error.errno in _TRANSIENT)


def _exit_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None if the system has none."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _await_end(pid: int) -> None:
    """Wait for the first process of a namespace, which ends last; bubblewrap does not wait for it."""
    descriptor = _exit_descriptor(pid) if pid else None
    if descriptor is not None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(_KILL_SECONDS * 1000)
        os.close(descriptor)


@contextmanager
def _without_core_dumps() -> Iterator[None]:
    """Let children start without core dumps, which may hold secrets."""
    # The limit is inherited, so this process has it while the child is made: set later, it would miss descendants.
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


def _kill_marked(marker: bytes) -> None:
    """Kill the processes that were started with the marker in their environment."""
    for _ in range(_SCANS):
        found = [int(name) for name in os.listdir("/proc") if name.isdecimal() and _is_marked(name, marker)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _is_marked(pid: str, marker: bytes) -> bool:
    # This runs for hundreds of processes after every step, so it makes no file object.
    try:
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    environment = b"\0"
    try:
        # The kernel fills what it is given, so a shorter piece is the last one.
        while len(piece := os.read(descriptor, _CHUNK)) == _CHUNK:
            environment += piece
        environment += piece
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return b"\0%s\0" % marker in environment + b"\0"

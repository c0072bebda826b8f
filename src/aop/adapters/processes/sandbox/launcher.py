"""Launcher: the process that confines a gate step, waits for it, and cleans up.

A Python interpreter runs this for every step, without site and environment, so each import here is paid for every step:
`signal` alone would double the cost of the rest.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import ctypes
import marshal
import os
import stat
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 22, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_SECCOMP_MODE_FILTER = 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH, _NET_PORT = 1, 2
_CONNECT_TCP = 1 << 1
_RIGHTS_OVER_FILES = 0b1100_0000_0000_0111
_CAPABILITY_VERSION = 0x20080522
_BYTES_OF_INSTRUCTION = 8
_KILL_SECONDS = 2.0
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD)


def main() -> None:
    """Run the step described by the descriptor in the last argument, and exit with its code."""
    with open(int(sys.argv[-1]), "rb") as file:
        status_fd, step = marshal.load(file)  # noqa: S302 - AOP wrote it
    os.set_inheritable(status_fd, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    system = _System()
    system.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    system.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if not os.read(0, 1):
        # AOP died before this process could be told.
        os._exit(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    pid = os.fork()
    if pid == 0:
        _become(step, system, status_fd)
    os.write(status_fd, b'{"child-pid": %d}\n' % pid)
    status = _wait_for(pid)
    _end_descendants()
    if status is None:
        os._exit(1)
    code = os.waitstatus_to_exitcode(status)
    code = code if code >= 0 else 128 - code
    os.write(status_fd, b'{"exit-code": %d}\n' % code)
    os._exit(code)


def confine() -> None:
    """Become the command after the descriptor, under the restrictions that it holds."""
    descriptor, *argv = sys.argv[2:]
    with open(int(descriptor), "rb") as file:
        restrictions = marshal.load(file)  # noqa: S302 - AOP wrote it
    system = _System()
    system.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _restrict(system, *restrictions)
    os.execv(argv[0], argv)  # noqa: S606 - this is what it is for


class _System:
    """System calls that Python has no functions for."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)

    def prctl(self, option: int, *arguments: int) -> int:
        numbers = [ctypes.c_ulong(number) for number in (*arguments, 0, 0, 0, 0)[:4]]
        return self._check_result(self._library.prctl(option, *numbers))

    def call(self, number: int, *arguments: int | bytes | None) -> int:
        values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
        return self._check_result(self._library.syscall(ctypes.c_long(number), *values))

    def drop_capabilities(self) -> None:
        try:
            for capability in range(64):
                self.prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            # All are dropped, or this is not root.
            pass
        self._check_result(self._library.capset(_CAPABILITY_VERSION.to_bytes(8, "little"), bytes(24)))

    def filter_calls(self, program: bytes) -> None:
        buffer = ctypes.create_string_buffer(program, len(program))
        described = ctypes.create_string_buffer(
            (len(program) // _BYTES_OF_INSTRUCTION).to_bytes(8, "little")
            + ctypes.addressof(buffer).to_bytes(8, "little"),
            16,
        )
        self.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(described))

    def _check_result(self, result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result


Restrictions = tuple[bytes, list[tuple[str, int]], list[int], bytes]
Step = tuple[list[str], dict[str, str], str, Restrictions]


def _become(step: Step, system: _System, status_fd: int) -> None:
    argv, env, cwd, restrictions = step
    try:
        os.setsid()
        system.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(cwd)
        system.prctl(_PR_SET_NO_NEW_PRIVS, 1)
        system.drop_capabilities()
        _restrict(system, *restrictions)
        # Python ignores these two, and a program inherits that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.execve(argv[0], argv, env)  # noqa: S606 - this is what it is for
    except OSError as error:
        os.write(status_fd, b'{"error": %d}\n' % (error.errno or 0))
    finally:
        os._exit(127)


def _restrict(system: _System, ruleset: bytes, opened: list[tuple[str, int]], ports: list[int], program: bytes) -> None:
    rules = system.call(_CREATE_RULESET, ruleset, len(ruleset), 0)
    for path, rights in opened:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            # An absent or unreadable path needs no rule.
            continue
        fitting = rights if stat.S_ISDIR(os.fstat(descriptor).st_mode) else rights & _RIGHTS_OVER_FILES
        rule = fitting.to_bytes(8, "little") + descriptor.to_bytes(4, "little")
        system.call(_ADD_RULE, rules, _PATH_BENEATH, rule, 0)
        os.close(descriptor)
    for port in ports:
        system.call(_ADD_RULE, rules, _NET_PORT, _CONNECT_TCP.to_bytes(8, "little") + port.to_bytes(8, "little"), 0)
    system.call(_RESTRICT_SELF, rules, 0)
    os.close(rules)
    system.filter_calls(program)


def _wait_for(step: int) -> int | None:
    """Wait for the step and its orphans; return its status, or None on SIGTERM."""
    while signal.sigwait(_SIGNALS) != signal.SIGTERM:
        for pid, status in _reap():
            if pid == step:
                return status
    return None


def _reap() -> list[tuple[int, int]]:
    """Reap ended children; return their ids and statuses."""
    ended = []
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(found)
    except ChildProcessError:
        pass
    return ended


def _end_descendants() -> None:
    """Kill all descendants; orphans become our children, so this takes several rounds."""
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        _reap()
        left = _descendants()
        if not left:
            return
        for pid in left:
            try:  # noqa: SIM105 - `contextlib` is another import
                os.kill(pid, signal.SIGKILL)
            except OSError:
                # It is gone, or runs as another user.
                pass
        signal.sigtimedwait((signal.SIGCHLD,), 0.01)


def _descendants() -> list[int]:
    """Return the living descendants, the children first."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return []
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                pass
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]

"""Limits of one gate step: per process, and by a control group where possible.

In a sandbox they are set before the process begins, and all descendants inherit them. Without one they are set a moment
after its start. A limit is only lowered, never raised.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import msgspec

from aop.adapters.processes.control_groups import ControlGroup, control_group
from aop.kernel.config.policy import NO_LIMITS, StepLimits

# When the machine runs out of memory, the kernel kills a step before AOP or programs of the user.
_OOM_SCORE = "500"


class Limiter:
    """Limits one step, and tells afterwards whether it ran out of memory."""

    def __init__(self, limits: StepLimits, group: ControlGroup | None) -> None:
        self._limits = limits
        self._group = group
        self._kills_before = _memory_kills()
        self.excess = ""
        """The sentence about a step with too many processes, which has to be ended."""

    @property
    def counts_processes(self) -> bool:
        """Tell whether nothing but a count from time to time limits the processes: the kernel does not limit root."""
        return self._limits.processes > 0 and self._group is None and os.geteuid() == 0

    def find_excess(self, pid: int) -> str:
        """Return a sentence if a process has too many descendants, threads included; else an empty text."""
        most = self._limits.processes
        if self.counts_processes and count_tasks(pid, most) > most:
            self.excess = f"It had more than {most} processes and threads, and was ended."
        return self.excess

    def entered(self) -> AbstractContextManager[None]:
        """Have what this thread starts begin in the control group of the step, where that is possible."""
        return nullcontext() if self._group is None else self._group.entered()

    def impose(self, pid: int) -> None:
        """Limit a process that was started, and its descendants."""
        if self._group is not None and not self._group.add(pid):
            self._group = None
        for kind, most in self._most().items():
            soft, hard = resource.prlimit(pid, kind)
            resource.prlimit(pid, kind, (_lower(soft, most), _lower(hard, most)))
        with suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")

    def ran_out_of_memory(self, exit_code: int | None) -> bool:
        """Tell whether the step failed because the kernel killed one of its processes for lack of memory."""
        if self._group is not None and self._group.limits_memory:
            return exit_code != 0 and self._group.memory_kills() > 0
        # Without a group there is only the counter of the machine, which counts if the step itself was killed.
        return exit_code == 128 + 9 and _memory_kills() > self._kills_before

    def _most(self) -> Mapping[int, int]:
        limits = self._limits
        most = {resource.RLIMIT_FSIZE: limits.file_bytes, resource.RLIMIT_NOFILE: limits.open_files}
        if self._group is None or not self._group.limits_memory:
            # Not RLIMIT_AS: Java, Go and Node reserve far more addresses than they ever use.
            most[resource.RLIMIT_DATA] = limits.memory_bytes
        # The kernel does not limit root in this way, and counts all processes of the user.
        if limits.processes and self._group is None and os.geteuid() != 0:
            most[resource.RLIMIT_NPROC] = limits.processes + _own_threads()
        return {resource.RLIMIT_CORE: 0, **{kind: figure for kind, figure in most.items() if figure}}


@contextmanager
def limiter(limits: StepLimits) -> Iterator[Limiter]:
    """Make the limiter of one step, and remove its control group afterwards."""
    # To move a process into a group may take 10 ms, so it is made only for what nothing else limits well.
    needs_group = limits.memory_bytes or (limits.processes and os.geteuid() == 0)
    with control_group(limits) if needs_group else nullcontext() as group:
        yield Limiter(limits, group)


def process_limit() -> str:
    """Return what limits the number of processes of a step: the kernel, a count of AOP's, or nothing (empty)."""
    if os.geteuid() != 0:
        return "RLIMIT_NPROC"
    with control_group(msgspec.structs.replace(NO_LIMITS, processes=1)) as group:
        if group is not None:
            return "a control group"
    return "a count by AOP" if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else ""


def count_tasks(pid: int, most: int) -> int:
    """Return the number of threads of a process and its descendants, or one that is over a limit.

    In a sandbox no descendant leaves this tree: one whose parent ends becomes a child of the sandbox.
    """
    count, waiting = 0, [str(pid)]
    while waiting and count <= most:
        folder = f"/proc/{waiting.pop()}/task"
        with suppress(OSError):
            tasks = os.listdir(folder)
            count += len(tasks)
            for task in tasks:
                waiting += Path(folder, task, "children").read_text(encoding="ascii").split()
    return count


def _lower(figure: int, most: int) -> int:
    return most if figure == resource.RLIM_INFINITY else min(figure, most)


def _own_threads() -> int:
    """Return the number of threads of the user, which all count against the limit."""
    count, user = 0, os.getuid()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                found = os.stat(f"/proc/{name}/task")
                # The link count of a folder is the number of its subfolders plus two.
                count += found.st_nlink - 2 if found.st_uid == user else 0
    return count


def _memory_kills() -> int:
    """Return how often the kernel has killed a process for lack of memory."""
    try:
        counters = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in counters.splitlines() if line.startswith("oom_kill ")), 0)

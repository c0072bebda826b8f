"""The limits of one gate step: those of the kernel for each process, and a control group where AOP can make one.

In a sandbox they are laid on a process that has not begun yet, and all that it starts inherits them. Without one they
come a moment after it has begun. A limit is only ever lowered.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from aop.adapters.processes.control_groups import ControlGroup, control_group
from aop.kernel.config.policy import StepLimits

# When the memory of the machine is used up, the kernel ends a step rather than AOP or what the user has open.
_FIRST_TO_GO = "500"


class Limiter:
    """Limits one step, and tells afterwards whether it ran into the limit that leaves no other trace."""

    def __init__(self, limits: StepLimits, group: ControlGroup | None) -> None:
        self._limits = limits
        self._group = group
        self._kills_before = _memory_kills()

    def impose(self, pid: int) -> None:
        """Limit a process and all that it will start."""
        if self._group is not None and not self._group.took(pid):
            self._group = None
        for kind, most in self._most().items():
            soft, hard = resource.prlimit(pid, kind)
            resource.prlimit(pid, kind, (_lower(soft, most), _lower(hard, most)))
        with suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")

    def ran_out_of_memory(self, exit_code: int | None) -> bool:
        """Tell whether the kernel killed a process of the step for want of memory, and the step ended with this."""
        if self._group is not None and self._group.limits_memory:
            return exit_code != 0 and self._group.memory_kills() > 0
        # Without a group only the machine's own counter is there: it counts for a step that was killed itself.
        return exit_code == 128 + 9 and _memory_kills() > self._kills_before

    def _most(self) -> Mapping[int, int]:
        limits = self._limits
        most = {resource.RLIMIT_FSIZE: limits.file_bytes, resource.RLIMIT_NOFILE: limits.open_files}
        if self._group is None or not self._group.limits_memory:
            # Not RLIMIT_AS: Java, Go and Node reserve far more addresses than they ever use.
            most[resource.RLIMIT_DATA] = limits.memory_bytes
        # The kernel does not limit root in this way, and others it limits by all that they run.
        if limits.processes and self._group is None and os.geteuid() != 0:
            most[resource.RLIMIT_NPROC] = limits.processes + _own_threads()
        return {resource.RLIMIT_CORE: 0, **{kind: figure for kind, figure in most.items() if figure}}


@contextmanager
def limiter(limits: StepLimits) -> Iterator[Limiter]:
    """Make what limits one step; a control group is gone afterwards."""
    # The way into a group takes 10 ms, so there is one only for what nothing else can limit well.
    if limits.memory_bytes:
        with control_group(limits) as group:
            yield Limiter(limits, group)
    else:
        yield Limiter(limits, None)


def _lower(figure: int, most: int) -> int:
    return most if figure == resource.RLIM_INFINITY else min(figure, most)


def _own_threads() -> int:
    """Return how many threads the user has, all of which count against the user's limit of processes."""
    count, user = 0, os.getuid()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                found = os.stat(f"/proc/{name}/task")
                # A folder has a link from each folder in it, from its parent and from itself.
                count += found.st_nlink - 2 if found.st_uid == user else 0
    return count


def _memory_kills() -> int:
    """Return how often the kernel has killed a process for want of memory."""
    try:
        counters = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in counters.splitlines() if line.startswith("oom_kill ")), 0)

"""The limits of a step: they hold from its first moment in a sandbox, for all that it starts, and are only lowered."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from aop.adapters.processes.control_groups import GroupFolder, control_group, wanted_folders
from aop.core.errors import Fault
from aop.kernel.config.policy import NO_LIMITS, StepLimits
from tests.adapters.processes.steps import Steps

pytestmark = [pytest.mark.on_disk, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

BOTH = msgspec.structs.replace(NO_LIMITS, memory_bytes=1000, processes=5)
SHOWN = "for which in c f n d; do echo $(ulimit -S$which) $(ulimit -H$which); done"


@pytest.fixture(params=["none", "landlock", "bubblewrap"])
def steps(tmp_path: Path, request: pytest.FixtureRequest) -> Steps:
    return Steps(tmp_path, request.param)


def shown(steps: Steps, limits: StepLimits) -> list[str]:
    """Return the limits of what a step starts: core dumps, file size (512 bytes), open files, data (kilobytes)."""
    return steps.output("sh", "-c", f"{later(steps)} sh -c '{SHOWN}'", limits=limits).splitlines()


def later(steps: Steps) -> str:
    """Without a sandbox a step begins a moment before it is limited; this is the last of its limits."""
    is_limited = "grep -qx 500 /proc/$$/oom_score_adj"
    return f"until {is_limited}; do sleep 0.01; done;" if steps.level == "none" else ""


@contextmanager
def own_limit(kind: int, figure: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (figure, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def test_the_limits_of_the_policy_hold_for_all_that_a_step_starts(steps: Steps) -> None:
    limits = msgspec.structs.replace(NO_LIMITS, file_bytes=1 << 20, open_files=64)
    assert shown(steps, limits)[:3] == ["0 0", "2048 2048", "64 64"]


def test_without_limits_a_step_has_those_of_the_machine(steps: Steps) -> None:
    files = " ".join(map(str, resource.getrlimit(resource.RLIMIT_NOFILE)))
    assert shown(steps, NO_LIMITS) == ["0 0", "unlimited unlimited", files, "unlimited unlimited"]


def test_a_limit_is_never_raised(steps: Steps) -> None:
    # Earlier tests of this process may have left files open, which count too.
    most = 100 + max(map(int, os.listdir("/proc/self/fd")))
    with own_limit(resource.RLIMIT_NOFILE, most):
        limits = msgspec.structs.replace(NO_LIMITS, open_files=2 * most)
        assert shown(steps, limits)[2] == f"{most} {2 * most}"


def test_a_limit_of_memory_is_one_of_the_group_or_of_each_process(steps: Steps) -> None:
    limits = msgspec.structs.replace(NO_LIMITS, memory_bytes=256 << 20)
    with control_group(limits) as group:
        each = "262144 262144" if group is None else "unlimited unlimited"
    assert shown(steps, limits)[3] == each
    assert groups_of_aop() == []


def groups_of_aop() -> list[str]:
    mark = f"aop-{os.getpid()}-"
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(path).startswith(mark)]


def test_the_processes_of_a_step_are_the_first_to_go_when_the_memory_is_used_up(steps: Steps) -> None:
    assert steps.output("sh", "-c", f"{later(steps)} cat /proc/self/oom_score_adj") == "500\n"


# --- control groups ------------------------------------------------------------------------------


def test_the_first_version_has_a_folder_for_memory_and_one_for_processes() -> None:
    own = "12:pids:/user\n5:cpu,cpuacct:/\n4:memory:/user/session\n0::/\n"
    assert wanted_folders(BOTH, own) == [
        GroupFolder(
            parents=("/sys/fs/cgroup/memory/user/session",),
            settings={"memory.limit_in_bytes": 1000},
            swap={"memory.memsw.limit_in_bytes": 1000},
        ),
        GroupFolder(parents=("/sys/fs/cgroup/pids/user",), settings={"pids.max": 5}),
    ]


def test_the_second_version_has_one_folder_beside_that_of_aop() -> None:
    assert wanted_folders(BOTH, "0::/user.slice/app.slice/terminal.scope\n") == [
        GroupFolder(
            parents=("/sys/fs/cgroup/user.slice/app.slice", "/sys/fs/cgroup/user.slice/app.slice/terminal.scope"),
            settings={"memory.max": 1000, "pids.max": 5},
            swap={"memory.swap.max": 0},
        )
    ]


def test_at_the_root_there_is_only_one_place() -> None:
    only_processes = msgspec.structs.replace(NO_LIMITS, processes=5)
    assert wanted_folders(only_processes, "0::/\n") == [
        GroupFolder(parents=("/sys/fs/cgroup",), settings={"pids.max": 5})
    ]


def test_nothing_to_limit_makes_no_group() -> None:
    assert wanted_folders(NO_LIMITS, "0::/a/b\n") == []
    assert wanted_folders(NO_LIMITS, "4:memory:/\n3:pids:/\n") == []
    with control_group(NO_LIMITS) as group:
        assert group is None


def test_a_group_is_gone_when_its_last_process_has_ended() -> None:
    with control_group(BOTH) as group:
        assert (group is not None) == bool(groups_of_aop())
    assert groups_of_aop() == []


@pytest.mark.parametrize("most", [1, 2, 50])
def test_a_process_begins_in_its_group_and_leaves_aop_outside(most: int) -> None:
    own = Path("/proc/thread-self/cgroup")
    before = own.read_text()
    with control_group(msgspec.structs.replace(NO_LIMITS, processes=most)) as group:
        if group is None:
            pytest.skip("no control group can be made here")
        with group.entered():
            process = subprocess.Popen(["cat", "-", own], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert own.read_text() == before
        assert group.add(process.pid)
        found = process.communicate("", timeout=60)[0]
        assert [line for line in found.splitlines() if Path(line).name.startswith(f"aop-{os.getpid()}-")] != []
    assert groups_of_aop() == []


def test_the_thread_that_starts_a_step_takes_no_place_of_its_processes() -> None:
    with control_group(msgspec.structs.replace(NO_LIMITS, processes=2)) as group:
        if group is None:
            pytest.skip("no control group can be made here")
        with group.entered():
            # A shell and one process that it starts, before this thread is out of the group again.
            subprocess.run(["sh", "-c", "/bin/true; exit 0"], check=True, timeout=60)
            third = ["sh", "-c", "(/bin/true; exit 0); exit 0"]
            complaint = subprocess.run(third, check=False, capture_output=True, text=True, timeout=60).stderr
        assert "fork" in complaint


def test_an_interrupted_start_leaves_aop_outside_of_the_group() -> None:
    own = Path("/proc/thread-self/cgroup")
    before = own.read_text()
    # Its own end would leave the group too, so that comes last.
    starting = ExitStack()
    with pytest.raises(KeyboardInterrupt):
        interrupt_a_start(starting)
    assert own.read_text() == before
    assert groups_of_aop() == []
    with suppress(Fault):
        starting.close()


def interrupt_a_start(starting: ExitStack) -> None:
    """Raise as if the signal came between the kernel's answer and the next line of AOP."""
    with control_group(msgspec.structs.replace(NO_LIMITS, processes=5)) as group:
        if group is None:
            pytest.skip("no control group can be made here")
        starting.enter_context(group.entered())
        raise KeyboardInterrupt


def test_a_group_made_while_another_thread_starts_a_step_is_not_one_below_that_of_the_step() -> None:
    with control_group(msgspec.structs.replace(NO_LIMITS, processes=50)) as group:
        if group is None:
            pytest.skip("no control group can be made here")
        with ThreadPoolExecutor(1) as threads:
            # A thread that begins in the group would be in it itself.
            threads.submit(groups_of_aop).result(60)
            with group.entered():
                folders = threads.submit(groups_made_with, processes=20).result(60)
    assert len(folders) == 2
    assert len({os.path.dirname(folder) for folder in folders}) == 1


def groups_made_with(*, processes: int) -> list[str]:
    with control_group(msgspec.structs.replace(NO_LIMITS, processes=processes)):
        return groups_of_aop()


def test_a_step_that_cannot_be_started_leaves_aop_outside_of_its_group(steps: Steps) -> None:
    own = Path("/proc/thread-self/cgroup")
    before = own.read_text()
    (steps.worktree / "broken").write_bytes(b"\0\1")
    (steps.worktree / "broken").chmod(0o755)
    ended, _ = steps.run("./broken", limits=msgspec.structs.replace(NO_LIMITS, processes=50))
    assert ended.exit_code != 0
    assert own.read_text() == before

"""Doctor checks for clocks, file systems and sandboxes of other machines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aop.adapters.reporting.doctor.checks import Health
from aop.adapters.reporting.doctor.machine import (
    check_clock,
    check_confinement,
    check_file_system,
    check_git,
    file_system_of,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)

MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:25 / /mnt/team rw shared:5 - nfs4 server:/team rw,vers=4.2
31 22 0:26 / /mnt/team rw shared:6 - tmpfs tmpfs rw
40 22 0:27 / /home/ada/my\\040work rw - fuse.sshfs ada@example.org:/ rw
41 22 0:28 / /c rw - 9p C:\\134 rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/shop/.aop", "ext4"),
        ("/mnt/team/shop", "tmpfs"),
        ("/mnt/teamwork", "ext4"),
        ("/home/ada/my work/shop", "fuse.sshfs"),
        ("/c", "9p"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_last_and_nearest_mount(path: str, kind: str) -> None:
    assert file_system_of(path, MOUNTS) == kind


@pytest.mark.hostile("S29")
@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "fuse.sshfs", "virtiofs"])
def test_a_file_system_of_another_machine_is_warned_of(kind: str, tmp_path: Path) -> None:
    check = check_file_system(tmp_path, f"22 1 0:1 / / rw - {kind} somewhere rw\n")
    assert (check.health, check.fix) == (Health.WARNING, "Keep the repository on a local disk.")
    assert f"is on {kind}" in check.found


@pytest.mark.parametrize(("mounts", "found"), [(MOUNTS, "ext4"), ("", "unknown on this system")])
def test_a_local_or_unknown_file_system_is_fine(mounts: str, found: str, tmp_path: Path) -> None:
    check = check_file_system(tmp_path, mounts)
    assert (check.health, check.found) == (Health.OK, found)


@pytest.mark.hostile("S41")
@pytest.mark.parametrize("now", [datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])
def test_a_clock_that_cannot_be_right_is_warned_of(now: datetime) -> None:
    assert check_clock(now, None).health is Health.WARNING
    assert check_clock(now, NOON).health is Health.WARNING


@pytest.mark.parametrize(
    ("behind", "health"), [(timedelta(hours=1), Health.WARNING), (timedelta(seconds=1), Health.OK)]
)
def test_a_clock_that_went_back_is_warned_of(behind: timedelta, health: Health) -> None:
    assert check_clock(NOON, NOON + behind).health is health


def git_that_says(text: str, folder: Path) -> dict[str, str]:
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\necho '{text}'\n")
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("text", "health"),
    [
        ("git version 2.37.9", Health.FAILURE),
        ("git version 2.38.0", Health.OK),
        ("git version 2.49.0.windows.1", Health.OK),
        ("git version 3.0", Health.OK),
        ("something else", Health.FAILURE),
    ],
)
def test_git_must_be_able_to_merge_without_a_worktree(text: str, health: Health, tmp_path: Path) -> None:
    assert check_git(git_that_says(text, tmp_path / "bin")).health is health


def test_a_machine_without_git_is_told_so() -> None:
    assert check_git({"PATH": "/nowhere"}).health is Health.FAILURE


def test_a_sandbox_that_is_switched_off_is_warned_of() -> None:
    sandbox, processes, network = check_confinement("off", {})
    assert (sandbox.health, sandbox.fix) == (
        Health.WARNING,
        "Set `execution.sandbox` in policy.yaml to `auto` or `require`.",
    )
    assert (network.health, network.found) == (
        Health.WARNING,
        "Coding agents can connect to every host that you can: no sandbox holds.",
    )
    assert processes.found in ("by RLIMIT_NPROC", "by a control group") or processes.health is Health.WARNING

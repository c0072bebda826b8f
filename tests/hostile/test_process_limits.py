"""Fork bombs in the gates of root, where no control group can be made: they end by name, and honest steps pass."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.tools.worlds import configured, gates_of

UNSHARE = shutil.which("unshare")
MOST = 60
BOMB = """\
import os, time
for _ in range(20000):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
"""
# Each process leaves its parent, which ends at once.
ORPHANS = """\
import os, time
while True:
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
"""
THREADS = """\
import threading, time
for _ in range(2000):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
time.sleep(600)
"""
HONEST = """\
import subprocess, sys
started = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(12)]
for each in started:
    each.communicate(b"\\n")
"""

pytestmark = [
    pytest.mark.hostile("G29"),
    pytest.mark.skipif(os.geteuid() != 0 or UNSHARE is None, reason="the kernel limits all users but root by itself"),
]


def run_gates(tmp_path: Path, script: str) -> dict[str, Any]:
    """Run a script as a gate, by an `aop` for which there are no control groups; return the answer."""
    world = configured(
        tmp_path / "repo",
        policy={"execution": {"limits": {"processes": MOST}}},
        gates=gates_of(fast=[{"name": "check", "cmd": ["python3", "bomb.py"], "timeout_seconds": 30}]),
        files={"bomb.py": script},
    )
    world.plan()
    world.patch()
    world.close()
    hidden = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
    aop = [sys.executable, "-m", "aop.cli.main", "call", "gates.run", '{"feature_id": "one", "mode": "fast"}']
    ran = subprocess.run(
        [str(UNSHARE), "-m", "sh", "-c", hidden, "sh", *aop],
        cwd=world.root,
        env={**os.environ, "USER": "ada"},
        capture_output=True,
        text=True,
        check=False,
    )
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


@pytest.mark.parametrize("bomb", [BOMB, ORPHANS, THREADS], ids=["processes", "orphans", "threads"])
def test_a_fork_bomb_of_root_ends_by_name_where_no_control_group_can_be_made(tmp_path: Path, bomb: str) -> None:
    error = run_gates(tmp_path, bomb)["error"]
    assert error["code"] == "gate_failed"
    assert f"It had more than {MOST} processes and threads, and was ended." in error["message"]


def test_a_step_with_fewer_processes_passes_there(tmp_path: Path) -> None:
    assert run_gates(tmp_path, HONEST)["ok"]

"""Secrets of the database: what opens it reaches no step, no agent, no log and no record."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.adapters.storage.postgres_clusters import PASSWORD
from tests.cli.scripted_agents import agent_command
from tests.fleet.platforms import SECONDS, Platform
from tests.world import git

pytestmark = pytest.mark.fleet
POLICY = """\
version: 1
execution:
  sandbox: "off"
  env_allowlist: [PATH, AOP_DATABASE, PGPASSWORD, PGPASSFILE]
"""
PEEK = r'''
import os, sys


def environ_of(pid):
    with open(f"/proc/{pid}/environ", errors="surrogateescape") as file:
        return dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line)


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def secrets():
    """Yield what opens the database, from the process of AOP: without a sandbox nothing hides it."""
    pid, found = os.getppid(), {}
    while pid > 1 and "://" not in (found := environ_of(pid)).get("AOP_DATABASE", ""):
        pid = parent_of(pid)
    if pid == 1:
        return
    yield found["AOP_DATABASE"].rpartition("@")[0].rpartition(":")[2]
    yield found.get("PGPASSWORD", "none")
    yield open(found["PGPASSFILE"]).read().rpartition(":")[2] if "PGPASSFILE" in found else "none"


print("own", *(name for name in ("PGPASSWORD", "PGPASSFILE") if name in os.environ), file=sys.stderr)
print("address", "://" in os.environ.get("AOP_DATABASE", ""), file=sys.stderr)
print("found", *secrets(), file=sys.stderr, flush=True)
'''
AGENT = """
import io, runpy
given = sys.stdin.read()
if '"telling_one"' in given:
    print("It is", *secrets())
    sys.exit()
sys.stdin, sys.argv = io.StringIO(given), sys.argv[1:]
runpy.run_path(sys.argv[0])
"""


def peeking_agent(folder: Path) -> dict[str, str]:
    """Return an agent that looks for what opens the database before it works, or says it instead of working."""
    _python, words = agent_command(folder).split(" ", 1)
    (folder / "peek.py").write_text(PEEK + AGENT)
    return {"AOP_CUSTOM_AGENT": f"{sys.executable} {folder / 'peek.py'} {words}", "AOP_AGENT_PROVIDER": "custom"}


def peeking_gates(platform: Platform) -> None:
    """Have gates without a sandbox that look for what opens the database."""
    (platform.root / "agentic/orchestrator/policy.yaml").write_text(POLICY)
    (platform.root / "check.sh").write_text("exec python3 peek.py\n")
    (platform.root / "peek.py").write_text(PEEK)
    git(platform.root, "add", "-A")
    git(platform.root, "commit", "-qm", "Peek")


def way_in(platform: Platform, way: str, user: str, password: str) -> Mapping[str, str]:
    """Return the variables that open the database as a user, with the password in one of three places."""
    rest = platform.url.rpartition("@")[2]
    if way == "address":
        return {"AOP_DATABASE": f"postgresql://{user}:{password}@{rest}"}
    url = {"AOP_DATABASE": f"postgresql://{user}@{rest}"}
    if way == "variable":
        return {**url, "PGPASSWORD": password}
    file = platform.folder / "passwords"
    file.write_text(f"*:*:*:{user}:{password}")
    file.chmod(0o600)
    return {**url, "PGPASSFILE": str(file)}


def seen(log: str) -> list[str]:
    """Return what a step saw of its own, and what it found."""
    return [line for line in log.splitlines() if line.startswith(("own", "address", "found"))]


@pytest.mark.parametrize("way", ["address", "variable", "file"])
def test_a_worker_hides_what_opens_the_database_from_steps_and_agents_and_masks_its_password(
    platform: Platform, way: str
) -> None:
    peeking_gates(platform)
    user, password = f"own_{uuid.uuid4().hex[:8]}", f"pw-{uuid.uuid4().hex}"
    platform.rows(f"CREATE ROLE {user} LOGIN PASSWORD '{password}' IN ROLE aop_worker")
    env = {**way_in(platform, way, user, password), **peeking_agent(platform.folder / "agent")}
    worker = platform.worker("one", "--queues", "gates,agents", url=env["AOP_DATABASE"], env=env)
    specs = platform.folder / "specs"
    specs.mkdir()
    for name in ("plain_one", "telling_one"):
        (specs / f"{name}.md").write_text(f"Write {name}.\n")
    unable = {"AOP_CUSTOM_AGENT": "/bin/false", "AOP_AGENT_PROVIDER": "custom"}
    ran = platform.aop("run", "-fl", str(specs), "--wait", "--json", env=unable)
    rows = {row["feature_id"]: row["status"] for row in platform.aop("status", "--json").json["data"]["features"]}
    assert rows.get("plain_one") == "ready_to_merge", ran.out + ran.err + worker.errors.read_text()
    [gates, *_] = platform.evidence("plain_one")
    assert gates["worker"] == worker.id
    place = ["address", "variable", "file"].index(way)
    for path in (gates["steps"][0]["log_path"], ".aop/logs/plain_one/planner.log"):
        log = (platform.root / path).read_text()
        own, address, found = seen(log)
        assert (own, address) == ("own", "address False"), log
        assert found.split()[1:][place] == "[redacted:known-value]", log
    # What it says goes into the record, and the leader does not know this password.
    everything = [ran.out + ran.err, worker.errors.read_text()]
    everything += [str(platform.rows(f"SELECT * FROM {table}")) for table in ("aop.all_documents", "aop.journals")]
    everything += [path.read_text(errors="replace") for path in (platform.root / ".aop/logs").rglob("*.log")]
    assert "It is" in "".join(everything)
    assert [text for text in everything if password in text] == []


def test_a_leader_masks_the_password_that_it_has_from_a_file(platform: Platform) -> None:
    peeking_gates(platform)
    platform.env |= way_in(platform, "file", "aop", PASSWORD)
    platform.feature("search")
    # A process of its own: only then its environment can be seen from outside.
    ran = platform.started_gates("search", "op-peek")
    out, err = ran.communicate(timeout=SECONDS)
    assert ran.returncode == 0, out + err
    [run] = platform.evidence("search")
    own, address, found = seen((platform.root / run["steps"][0]["log_path"]).read_text())
    assert (own, address, found.split()[3]) == ("own", "address False", "[redacted:known-value]")

"""Runs whose record is in a database: one leader, found, refused and stopped by way of the database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.adapters.storage.postgres_clusters import needs_postgres, running_cluster
from tests.cli.shops import SECONDS, Shop, agents_alive, error_of
from tests.racing import until
from tests.world import git, run_aop

pytestmark = [needs_postgres, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with running_cluster() as url:
        yield url


def shop_in(folder: Path, cluster: str, name: str) -> Shop:
    shop = Shop(folder)
    shop.env |= {"AOP_DATABASE": cluster, "AOP_REPOSITORY": name}
    return shop


def test_a_run_in_the_background_keeps_its_lease_is_refused_twice_stopped_and_resumed(
    cluster: str, tmp_path: Path
) -> None:
    shop = shop_in(tmp_path, cluster, "background")
    shop.wants("held_one")
    begun = shop.run("-fl", str(shop.specs), "--json")
    assert begun.code == 0, begun.err
    pid = begun.json["data"]["pid"]
    until(lambda: shop.turns_in_progress() == 1, seconds=SECONDS)
    second = shop.run("-fl", str(shop.specs), "--json")
    assert (second.code, error_of(second)["code"]) == (5, "supervisor_running")
    assert f"process {pid}" in error_of(second)["message"]
    stopped = run_aop(shop.root, "stop", "--json", env=shop.env)
    assert (stopped.code, stopped.json["data"]["stopped"]) == (0, pid)
    until(lambda: not agents_alive(shop), seconds=SECONDS)
    (shop.agent / "go").touch()
    resumed = run_aop(shop.root, "resume", "--wait", env=shop.env)
    assert resumed.code == 0, resumed.err
    assert "ready_to_merge" in run_aop(shop.root, "status", env=shop.env).out
    assert run_aop(shop.root, "evidence", "verify", env=shop.env).code == 0


class Machine:
    """A machine with a clone, a home and a name of its own; hub and database are those of all."""

    def __init__(self, shop: Shop, folder: Path, name: str) -> None:
        self.name = name
        self.root = folder / "repo"
        home = folder / "home"
        home.mkdir(parents=True)
        if shop.root != self.root:
            git(folder, "clone", "-q", str(shop.root), str(self.root))
        self.env = {**shop.env, "HOME": str(home)}
        self.output = folder / "output"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command; what it prints goes into a file."""
        own_name = ["unshare", "-u", "sh", "-c", f'hostname {self.name}; exec "$@"', "sh"] if os.geteuid() == 0 else []
        with self.output.open("ab") as output:
            return subprocess.Popen(
                [*own_name, sys.executable, "-m", "aop.cli.main", *words],
                cwd=self.root,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def ran(self, *words: str) -> int:
        """Run a command to its end."""
        return self.start(*words).wait(SECONDS)


class Fleet:
    """Two machines that share a record and a hub, and what the record says."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self.shop = shop
        self.url, self.name = shop.env["AOP_DATABASE"], shop.env["AOP_REPOSITORY"]
        self.here, self.there = Machine(shop, folder / "a", "box-a"), Machine(shop, folder / "b", "box-b")

    def events(self) -> Counter[tuple[str, str]]:
        """Return how often each thing happened to each feature."""
        rows = self._rows("SELECT kind, coalesce(feature_id, '') FROM aop.journals")
        return Counter((kind, feature) for kind, feature in rows)

    def statuses(self) -> dict[str, str]:
        """Return the status of each feature."""
        rows = self._rows("SELECT key, body::json->>'status' FROM aop.all_documents", "AND kind = 'feature'")
        return dict(rows)

    def _rows(self, select: str, condition: str = "") -> list[tuple[str, str]]:
        own = "repository = (SELECT number FROM aop.repositories WHERE name = %s)"
        with psycopg.connect(self.url) as connection:
            return connection.execute(f"{select} WHERE {own} {condition}", (self.name,)).fetchall()


@pytest.fixture
def fleet(cluster: str, tmp_path: Path) -> Fleet:
    shop = shop_in(tmp_path / "a", cluster, tmp_path.name)
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "hub.git"))
    shop.env |= {"AOP_HUB": str(tmp_path / "hub.git")}
    return Fleet(shop, tmp_path)


@contextmanager
def ended_at_last(*children: subprocess.Popen[bytes]) -> Iterator[None]:
    """End processes whatever happens."""
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


NAMES = ("held_three", "held_two", "one")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_machine_goes_on_from_git_and_the_record_when_the_leader_dies(
    fleet: Fleet, number: signal.Signals
) -> None:
    shop, there = fleet.shop, fleet.there
    shop.wants(*NAMES)
    leader = fleet.here.start("run", "-fl", str(shop.specs), "--wait")
    with ended_at_last(leader):
        until(lambda: shop.turns_in_progress() == 2 or leader.poll() is not None, seconds=SECONDS)
        until(lambda: fleet.statuses().get("one") == "ready_to_merge", seconds=SECONDS)
        standby = there.start("resume", "--standby", "--wait")
        with ended_at_last(standby):
            leader.send_signal(number)
            (shop.agent / "go").touch()
            assert standby.wait(SECONDS) == 0, there.output.read_text()
    assert fleet.statuses() == dict.fromkeys(NAMES, "ready_to_merge")
    events = fleet.events()
    assert {events[(kind, name)] for kind in ("plan_accepted", "patch_applied") for name in NAMES} == {1}
    assert all((there.root / ".worktrees" / name).is_dir() for name in NAMES if name != "one")
    assert there.ran("evidence", "verify") == 0, there.output.read_text()
    assert "on other machines: prove them there" in there.output.read_text()


def test_the_thawed_leader_is_refused_by_its_epoch_and_ends(fleet: Fleet) -> None:
    shop, here, there = fleet.shop, fleet.here, fleet.there
    shop.wants("held_one")
    leader = here.start("run", "-fl", str(shop.specs), "--wait")
    with ended_at_last(leader):
        until(lambda: shop.turns_in_progress() == 1, seconds=SECONDS)
        standby = there.start("resume", "--standby", "--wait")
        with ended_at_last(standby):
            leader.send_signal(signal.SIGSTOP)
            (shop.agent / "go").touch()
            assert standby.wait(SECONDS) == 0, there.output.read_text()
        events = fleet.events()
        leader.send_signal(signal.SIGCONT)
        assert leader.wait(SECONDS) == 5, here.output.read_text()
    assert "[supervisor_replaced]" in here.output.read_text()
    assert (fleet.events(), fleet.statuses()) == (events, {"held_one": "ready_to_merge"})


def test_a_leader_on_another_machine_is_stopped_and_a_pause_reaches_it(fleet: Fleet) -> None:
    shop, here, there = fleet.shop, fleet.here, fleet.there
    shop.wants("held_one")
    leader = here.start("run", "-fl", str(shop.specs), "--wait")
    with ended_at_last(leader):
        until(lambda: shop.turns_in_progress() == 1, seconds=SECONDS)
        assert there.ran("pause", "held_one") == 0, there.output.read_text()
        assert there.ran("stop") == 0, there.output.read_text()
        assert leader.wait(SECONDS) != 0
    assert f"Stopped process {leader.pid}" in there.output.read_text()


def test_what_the_hub_does_not_take_is_not_recorded_and_without_a_hub_a_shared_record_is_refused(fleet: Fleet) -> None:
    here, there = fleet.here, fleet.there
    assert here.ran("status") == 0, here.output.read_text()
    here.env["AOP_HUB"] = str(here.root.parent / "nowhere.git")
    assert here.ran("call", "feature.init", '{"feature_id": "one"}') != 0
    assert "hub_unavailable" in here.output.read_text()
    assert fleet.statuses() == {}
    del there.env["AOP_HUB"]
    assert there.ran("status") == 2
    assert "hub_missing" in there.output.read_text()


PATIENT_HUB = """\
#!/bin/sh
touch "{folder}/reached"
for _ in $(seq 1000); do [ -e "{folder}/go" ] && exit 0; sleep 0.1; done
echo "nobody let it go on" >&2
exit 1
"""
"""A hook that takes nothing before it is told to; it gives up before a connection that waits in a change is ended."""


def test_other_writers_do_not_wait_while_work_is_sent_to_the_hub(fleet: Fleet, tmp_path: Path) -> None:
    here, there = fleet.here, fleet.there
    assert here.ran("call", "feature.init", '{"feature_id": "one"}') == 0, here.output.read_text()
    assert there.ran("status") == 0, there.output.read_text()
    git(here.root, "commit", "-q", "--allow-empty", "-m", "Another base")
    hook = tmp_path / "hub.git" / "hooks" / "pre-receive"
    hook.write_text(PATIENT_HUB.format(folder=tmp_path))
    hook.chmod(0o755)
    sending = here.start("call", "feature.init", '{"feature_id": "two"}')
    with ended_at_last(sending):
        until((tmp_path / "reached").exists, seconds=SECONDS)
        assert there.ran("call", "feature.log_append", '{"feature_id": "one", "note": "Meanwhile"}') == 0
        (tmp_path / "go").touch()
        assert sending.wait(SECONDS) == 0, here.output.read_text()
    assert sorted(fleet.statuses()) == ["one", "two"]


def test_machines_do_not_take_each_others_live_leases(fleet: Fleet) -> None:
    wanted = json.dumps({"feature_id": "two", "resource": "openapi", "wait_timeout_seconds": 0})
    for name in ("one", "two"):
        assert fleet.here.ran("call", "feature.init", json.dumps({"feature_id": name})) == 0
    assert fleet.here.ran("call", "locks.acquire", wanted.replace("two", "one")) == 0, fleet.here.output.read_text()
    assert fleet.there.ran("call", "locks.acquire", wanted) != 0
    assert "lock_conflict" in fleet.there.output.read_text()
    assert fleet.events()[("stale_lock_reclaimed", "one")] == 0

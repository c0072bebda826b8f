"""Leads: a worker starts the leader of a repository that has something to do, and takes a dead one's place."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.storage.postgres_clusters import PASSWORD
from tests.cli.scripted_agents import agent_command
from tests.fleet.platforms import Platform, WorkerProcess, user_of
from tests.racing import until
from tests.world import git

pytestmark = pytest.mark.fleet
SECONDS = 300.0


class LedShop:
    """A repository on the platform, specs beside it, and an agent that workers have too."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.name = platform.env["AOP_REPOSITORY"]
        self.agent = platform.folder / "agent"
        self.env = {"AOP_CUSTOM_AGENT": agent_command(self.agent), "AOP_AGENT_PROVIDER": "custom"}
        added = platform.aop("platform", "add", platform.env["AOP_HUB"], "--name", self.name)
        assert added.code == 0, added.err

    def worker(self, name: str, *words: str) -> WorkerProcess:
        return self.platform.worker(name, "--queues", "leads", *words, env=self.env)

    def run(self, *names: str) -> None:
        """Leave some features to the workers."""
        specs = self.platform.folder / "specs"
        specs.mkdir(exist_ok=True)
        for path in [specs / f"{name}.md" for name in names]:
            if not path.exists():
                path.write_text(f"Write {path.stem}.\n")
        ran = self.platform.aop("run", "-fl", str(specs), "--json", env=self.env)
        assert (ran.code, ran.json["data"]) == (0, {"pid": None, "features": sorted(names)}), ran.out + ran.err

    def leader(self) -> Any:
        """Return the leader as `aop platform status` names it."""
        rows = self.platform.aop("platform", "status", "--json").json["data"]["repositories"]
        return next(row["leader"] for row in rows if row["name"] == self.name)

    def statuses(self) -> dict[str, str]:
        rows = self.platform.rows(
            "SELECT d.key, d.body::json ->> 'status' FROM aop.all_documents d JOIN aop.repositories r"
            " ON r.number = d.repository WHERE r.name = %s AND d.kind = 'feature'",
            self.name,
        )
        return dict(rows)

    def events(self) -> Counter[tuple[str, str]]:
        """Return how often each thing happened to each feature."""
        rows = self.platform.rows(
            "SELECT j.kind, coalesce(j.feature_id, '') FROM aop.journals j JOIN aop.repositories r"
            " ON r.number = j.repository WHERE r.name = %s",
            self.name,
        )
        return Counter((kind, feature) for kind, feature in rows)

    def until_turn(self, worker: WorkerProcess) -> None:
        """Wait until an agent works for a worker."""
        turns = worker.cache / "leads~" / self.name / ".aop" / "tmp"
        until(lambda: any(turns.glob("*/in")) or worker.process.poll() is not None, seconds=SECONDS)

    def until_ready(self, *names: str) -> None:
        until(lambda: self.statuses() == dict.fromkeys(names, "ready_to_merge"), seconds=SECONDS)


def test_a_run_is_left_to_a_worker_which_leads_it_in_a_clone_of_its_own(platform: Platform) -> None:
    shop = LedShop(platform)
    worker = shop.worker("one")
    shop.run("held_one", "two")
    shop.until_turn(worker)
    assert shop.leader() == worker.id
    assert platform.listed()["one"]["busy"] == 1
    refused = platform.aop("platform", "remove", shop.name, "--json")
    assert (refused.code, "a process leads it" in refused.json["error"]["message"]) == (1, True)
    (shop.agent / "go").touch()
    shop.until_ready("held_one", "two")
    until(lambda: shop.leader() is None, seconds=SECONDS)
    assert not any((platform.root / ".worktrees").glob("*"))
    assert platform.aop("evidence", "verify").code == 0
    assert worker.end() == 0


def test_a_claim_whose_answer_was_lost_keeps_nobody_from_leading(platform: Platform) -> None:
    shop = LedShop(platform)
    worker = shop.worker("one")
    platform.rows("INSERT INTO fleet.leads (repository, worker) VALUES (%s, %s)", shop.name, worker.id)
    shop.run("one")
    shop.until_ready("one")


def test_a_worker_without_rights_on_the_record_is_refused_as_a_leader(platform: Platform) -> None:
    url = user_of(platform, "aop_worker")
    refused = platform.aop("worker", "--queues", "gates,leads", "--json", env={"AOP_DATABASE": url})
    assert (refused.code, refused.json["error"]["code"]) == (2, "database_rights")


@pytest.mark.parametrize("how", ["killed", "drained"])
def test_another_worker_takes_the_place_of_one_that_ended(platform: Platform, how: str) -> None:
    shop = LedShop(platform)
    first = shop.worker("one")
    shop.run("held_one", "two")
    shop.until_turn(first)
    until(lambda: shop.statuses().get("two") == "ready_to_merge", seconds=SECONDS)
    second = shop.worker("two")
    if how == "killed":
        first.process.send_signal(signal.SIGKILL)
    else:
        assert platform.aop("worker", "drain", first.id).code == 0
        assert first.process.wait(SECONDS) == 0
    until(lambda: shop.leader() == second.id, seconds=SECONDS)
    (shop.agent / "go").touch()
    shop.until_ready("held_one", "two")
    events = shop.events()
    assert {events[(kind, name)] for kind in ("plan_accepted", "patch_applied") for name in ("held_one", "two")} == {1}
    until(lambda: shop.leader() is None, seconds=SECONDS)
    assert not processes_in(first.cache)
    assert second.end() == 0


def test_a_person_stops_what_a_worker_leads_and_lets_it_go_on(platform: Platform) -> None:
    shop = LedShop(platform)
    worker = shop.worker("one")
    shop.run("held_one")
    shop.until_turn(worker)
    stopped = platform.aop("stop", "--json", env=shop.env)
    assert stopped.code == 0, stopped.out
    claimed = "SELECT 1 FROM fleet.leads WHERE repository = %s"
    until(lambda: not platform.rows(claimed, shop.name), seconds=SECONDS)
    (shop.agent / "go").touch()
    # As many looks as would have started it again.
    looks = [platform.rows(claimed, shop.name) for _ in range(5) if platform.aop("workers").code == 0]
    assert (looks, shop.leader(), shop.statuses()["held_one"]) == ([[]] * 5, None, "planning")
    resumed = platform.aop("resume", "--json", env=shop.env)
    assert (resumed.code, resumed.json["data"]["pid"]) == (0, None), resumed.out
    shop.until_ready("held_one")


def test_what_a_person_merges_elsewhere_is_the_base_of_the_features_that_wait_for_it(platform: Platform) -> None:
    shop = LedShop(platform)
    shop.worker("one")
    specs = platform.folder / "specs"
    specs.mkdir()
    (specs / "two.md").write_text("---\ndepends_on: [one]\n---\nWrite two.\n")
    shop.run("one", "two")
    until(lambda: shop.statuses().get("one") == "ready_to_merge", seconds=SECONDS)
    merged = platform.aop("merge", "one", "--yes", "--json", env=shop.env)
    assert merged.code == 0, merged.out
    until(lambda: shop.statuses().get("two") == "ready_to_merge", seconds=SECONDS)
    [(base,)] = platform.rows(
        "SELECT d.body::json ->> 'base_commit' FROM aop.all_documents d JOIN aop.repositories r"
        " ON r.number = d.repository WHERE r.name = %s AND d.kind = 'feature' AND d.key = 'two'",
        shop.name,
    )
    assert base == git(platform.root, "rev-parse", "main").strip()


def test_no_agent_sees_the_address_of_the_database(platform: Platform) -> None:
    shop = LedShop(platform)
    look = platform.folder / "look.sh"
    # In another alphabet: what is printed is redacted, and so would prove nothing.
    look.write_text(
        "{ env; cat /proc/*/environ; cat /proc/*/cmdline; } 2>/dev/null | tr '\\0a-z' '\\nb-za' >&2; exec \"$@\"\n"
    )
    shop.env["AOP_CUSTOM_AGENT"] = f"sh {look} {shop.env['AOP_CUSTOM_AGENT']}"
    worker = shop.worker("one")
    shop.run("one")
    shop.until_ready("one")
    found = (worker.cache / "leads~" / shop.name / ".aop").rglob("*.log")
    logs = "".join(path.read_text(errors="replace") for path in found)
    hidden = PASSWORD.translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "bcdefghijklmnopqrstuvwxyza"))
    assert "PATH=" in logs
    assert hidden not in logs


def test_a_leader_that_cannot_begin_is_named_and_tried_again_when_it_can(platform: Platform) -> None:
    shop = LedShop(platform)
    other = platform.worker("none", "--queues", "leads")
    shop.run("one")
    until(lambda: "[provider_auth_missing]" in other.errors.read_text(), seconds=SECONDS)
    until(lambda: platform.listed()["none"]["busy"] == 0, seconds=SECONDS)
    able = shop.worker("able")
    shop.until_ready("one")
    assert able.end() == 0


def test_a_repository_that_was_not_added_is_led_where_the_command_was_given(platform: Platform) -> None:
    shop = LedShop(platform)
    assert platform.aop("platform", "remove", shop.name).code == 0
    shop.worker("one")
    specs = platform.folder / "specs"
    specs.mkdir()
    (specs / "one.md").write_text("Write one.\n")
    ran = platform.aop("run", "-fl", str(specs), "--json", env=shop.env)
    assert (ran.code, isinstance(ran.json["data"]["pid"], int)) == (0, True), ran.out
    shop.until_ready("one")
    assert git(platform.root, "worktree", "list").count("\n") >= 1


def processes_in(folder: Path) -> list[str]:
    """Return the processes that work below a folder."""
    return [str(path.parent) for path in Path("/proc").glob("[0-9]*/cwd") if _is_below(path, folder)]


def _is_below(link: Path, folder: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except OSError:
        return False

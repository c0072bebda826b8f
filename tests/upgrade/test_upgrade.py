"""Unfinished work of earlier versions: it is opened, finished and landed by the present code (`make.py` made it)."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from aop.adapters.tickets.systems.local.server import Local
from tests.adapters.storage.postgres_clusters import needs_postgres, running_cluster
from tests.forge.builds.run.builders import BUILD, HONEST, PROJECT
from tests.forge.builds.run.endpoint import building
from tests.forge.generation.writers import env_for
from tests.tickets.local_worlds import BRANCH, KEY
from tests.upgrade.make import (
    BY_HAND,
    REPLIES,
    agent_environment,
    config_hash,
    gated_environment,
    ok,
    statuses,
    ticket_environment,
)
from tests.world import git, run_aop

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.gz"))

pytestmark = pytest.mark.parametrize("archive", ARCHIVES, ids=[path.name.split(".")[0] for path in ARCHIVES])


class Unpacked:
    """An archive in a folder that the version which made it never saw."""

    def __init__(self, archive: Path, folder: Path) -> None:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        self.folder = folder
        self.facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
        self.shop, self.store = folder / "shop", folder / "store"
        for root in (self.shop, self.store):
            # Git's own way after a repository was moved: its worktrees and it name each other by whole paths.
            git(root, "worktree", "repair", *(str(path) for path in (root / ".worktrees").iterdir()))


@pytest.fixture
def unpacked(archive: Path, tmp_path: Path) -> Unpacked:
    return Unpacked(archive, tmp_path)


def land(root: Path, feature: str, token: str, *, holds: bool, env: Mapping[str, str] | None = None) -> None:
    """Merge a feature by the approval of the version that packed it; where that is void, do what the refusals say."""
    words = ("merge", feature, "--token", token, "--json")
    ran = run_aop(root, *words, env=env)
    if holds:
        assert ran.code == 0, ran.out + ran.err
    else:
        if ran.json["error"]["code"] == "evidence_stale":
            assert "Run the named gate modes again" in ran.out
            for mode in ("fast", "full"):
                ok(root, "call", "gates.run", json.dumps({"feature_id": feature, "mode": mode}), env=env)
            ran = run_aop(root, *words, env=env)
        error = ran.json["error"]
        told = (error["code"], f"`aop approve {feature}`" in " ".join(error["details"]["suggested_next_actions"]))
        assert told == ("approval_invalid", True), error
        ok(root, "merge", feature, "--yes", env=env)
    assert statuses(root, env)[feature] == "merged"


def is_configured_as_then(root: Path, known: Mapping[str, Any], env: Mapping[str, str] | None = None) -> bool:
    """Tell whether approvals hold: a version with another default has another configuration, and voids them."""
    return config_hash(root, env) == str(known["config_hash"])


def test_an_approved_feature_lands_and_the_next_approval_is_void_because_the_base_moved(unpacked: Unpacked) -> None:
    root, known = unpacked.shop, unpacked.facts["shop"]
    assert statuses(root) == {
        "asks_colour": "planning",
        "begin": "merged",
        "gated": "building",
        "labels": "ready_to_merge",
        BUILD: "building",
        BY_HAND: "qa",
        "search": "ready_to_merge",
        "waits_for_stock": "building",
    }
    checks = json.loads(ok(root, "doctor", "--json"))["data"]["checks"]
    assert [each for each in checks if each["name"] in ("record", "worktrees") and each["health"] != "ok"] == []
    ok(root, "evidence", "verify", "--anchor", known["anchor"].strip())

    land(root, "search", known["tokens"]["search"], holds=is_configured_as_then(root, known))
    assert (root / "src/search.txt").read_text() == "Write search.\n"
    land(root, "labels", known["tokens"]["labels"], holds=False)
    assert git(root, "log", "--first-parent", "--format=%s", "-3", "main").splitlines() == [
        "Merge feature labels",
        "Merge feature search",
        "Merge feature begin",
    ]
    ok(root, "evidence", "verify", "--anchor", known["anchor"].strip())


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was_and_a_feature_in_qa_is_proven(unpacked: Unpacked) -> None:
    root, agent = unpacked.shop, agent_environment(unpacked.folder / "agent")
    (unpacked.folder / "agent" / "go").touch()
    ok(root, "answer", "q1", "Blue.")
    ran = run_aop(root, "resume", "--wait", "--json", env=agent)
    assert ran.code == 0, ran.out + ran.err
    ok(root, "call", "gates.run", json.dumps({"feature_id": BY_HAND, "mode": "full"}))
    found = statuses(root)
    assert {found[name] for name in ("asks_colour", "waits_for_stock", BY_HAND)} == {"ready_to_merge"}
    ok(root, "merge", "asks_colour", "--yes")
    assert (root / "src/asks_colour.txt").read_text() == "Write asks_colour.\n"


@pytest.mark.slow
def test_a_killed_build_goes_on_with_the_next_reply_and_is_sealed(unpacked: Unpacked) -> None:
    root = unpacked.shop
    with building(HONEST) as server:
        ran = run_aop(root, "forge", "build", PROJECT, "--json", env=env_for("openai", server))
    assert (ran.code, ran.json["data"]["status"]) == (0, "sealed"), ran.out + ran.err
    assert server.asked == list(range(REPLIES + 1, len(HONEST) + 1))
    ok(root, "forge", "verify", BUILD)


@pytest.mark.slow
def test_a_gated_workflow_goes_on_in_the_middle_of_its_plan_and_lands(unpacked: Unpacked) -> None:
    root, agent = unpacked.shop, gated_environment()
    words = ("gated", "run", "--agent-provider", "custom", "--json")
    ran = run_aop(root, *words, env=agent)
    assert (ran.code, ran.json["data"]["ending"]) == (4, "waits_for_approval"), ran.out + ran.err
    ok(root, "merge", "gated", "--yes")
    ran = run_aop(root, *words, env=agent)
    assert (ran.code, ran.json["data"]["ending"]) == (0, "done"), ran.out + ran.err
    assert git(root, "show", "main:src/one.txt") == "one\nAnd that is all.\n"


def test_a_killed_ticket_run_goes_on_and_writes_nothing_twice(unpacked: Unpacked) -> None:
    root, env = unpacked.shop, ticket_environment(unpacked.folder)
    (before,) = json.loads(ok(root, "ticket", "runs", "--json", env=env))["data"]["runs"]
    ran = run_aop(root, "ticket", "scaffold", KEY, "--json", env=env)
    assert ran.code == 0, ran.out + ran.err
    made = ran.json["data"]
    assert (made["run"], made["outcome"], made["branch"]) == (before["run_id"], "scaffolded", BRANCH)
    ticket: Any = Local(unpacked.folder / "local", env).tickets.get(KEY)
    assert (ticket["status"], len(ticket["comments"])) == ("In Review", 2)


@needs_postgres
def test_a_record_in_postgresql_is_restored_adopted_and_lands_its_approved_feature(unpacked: Unpacked) -> None:
    root, known = unpacked.store, unpacked.facts["store"]
    with running_cluster() as url:
        with psycopg.connect(url) as connection:
            connection.execute((unpacked.folder / "store.sql").read_bytes())
        env = {"AOP_DATABASE": url}
        elsewhere = run_aop(root, "status", "--json", env=env)
        assert (elsewhere.json["error"]["code"], "`aop record adopt`" in elsewhere.out) == ("record_elsewhere", True)
        ok(root, "record", "adopt", env=env)
        assert statuses(root, env) == {"one": "ready_to_merge", "two": "building"}
        ok(root, "evidence", "verify", "--anchor", known["anchor"].strip(), env=env)
        land(root, "one", known["tokens"]["one"], holds=is_configured_as_then(root, known, env), env=env)
        ok(root, "evidence", "verify", "--anchor", known["anchor"].strip(), env=env)
    assert git(root, "show", "main:src/a.txt") == "one\nTWO\nthree\n"

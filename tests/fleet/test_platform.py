"""The platform's repositories: added by the address of their hub, listed, and removed without their record."""

from __future__ import annotations

import pytest

from tests.fleet.platforms import Platform
from tests.world import git

pytestmark = pytest.mark.fleet


def test_the_platform_is_shown_with_repositories_queues_and_workers(platform: Platform) -> None:
    platform.worker("one")
    platform.feature("search")
    shown = platform.aop("platform", "status", "--json").json
    assert (shown["ok"], set(shown["data"])) == (True, {"repositories", "queues", "workers"})
    [own] = [row for row in shown["data"]["repositories"] if row["name"] == platform.env["AOP_REPOSITORY"]]
    assert own == {"name": own["name"], "leader": None, "features": {"planning": 1}, "questions": 0}
    assert {"name": "gates", "waiting": 0, "running": 0, "oldest_seconds": 0.0} in shown["data"]["queues"]
    assert (shown["data"]["workers"]["live"], set(shown["data"]["workers"])) == (1, {"live", "gone"})


def test_a_repository_is_added_once_and_its_name_belongs_to_one_hub(platform: Platform) -> None:
    hub = platform.env["AOP_HUB"]
    other = platform.folder / "other.git"
    git(platform.folder, "clone", "-q", "--bare", str(platform.root), str(other))
    first = platform.aop("platform", "add", str(other), "--json").json["data"]
    assert first == {"name": "other", "hub": f"file://{other}", "branch": "main", "added": True}
    again = platform.aop("platform", "add", str(other), "--json").json["data"]
    assert again == {**first, "added": False}
    taken = platform.aop("platform", "add", hub, "--name", "other", "--json")
    assert (taken.code, taken.json["error"]["code"]) == (2, "repository_name_taken")
    named = platform.aop("platform", "add", hub, "--name", "named", "--json").json["data"]
    assert (named["name"], named["hub"]) == ("named", hub)
    listed = platform.aop("platform", "status", "--json").json["data"]["repositories"]
    assert {"name": "other", "leader": None, "features": {}, "questions": 0} in listed


def test_a_hub_that_git_cannot_read_or_begin_from_is_not_added(platform: Platform) -> None:
    git(platform.folder, "init", "-q", "--bare", str(platform.folder / "empty.git"))
    refused = {
        str(platform.folder / "nowhere.git"): "cannot be read",
        str(platform.folder / "empty.git"): "has no branch",
        "https://ada:secret@git.example.org/x.git": "holds a password",
        "ext::sh -c id": "is not an address of git",
    }
    before = platform.aop("platform", "status", "--json").json["data"]["repositories"]
    for hub, why in refused.items():
        ran = platform.aop("platform", "add", hub, "--name", "shop", "--json")
        assert (ran.json["error"]["code"], why in ran.json["error"]["message"]) == ("hub_unavailable", True), hub
        assert "secret" not in ran.out + ran.err
    wrong = platform.aop("platform", "add", platform.env["AOP_HUB"], "--name", "../etc", "--json")
    assert (wrong.code, wrong.json["error"]["code"]) == (2, "invalid_cli_args")
    assert platform.aop("platform", "status", "--json").json["data"]["repositories"] == before


def test_a_repository_with_unfinished_features_is_removed_only_by_force_and_its_record_stays(
    platform: Platform,
) -> None:
    name = platform.env["AOP_REPOSITORY"]
    assert platform.aop("platform", "add", platform.env["AOP_HUB"], "--name", name).code == 0
    platform.feature("search")
    kept = platform.aop("platform", "remove", name, "--json")
    assert (kept.code, kept.json["error"]["code"]) == (1, "repository_busy")
    assert "1 unfinished feature" in kept.json["error"]["message"]
    assert platform.aop("platform", "remove", name, "--force").code == 0
    assert platform.rows("SELECT count(*) FROM fleet.repositories WHERE name = %s", name) == [(0,)]
    assert platform.aop("status", "search").code == 0
    unknown = platform.aop("platform", "remove", name, "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (1, "unknown_repository")


def test_only_a_person_changes_the_platform(platform: Platform) -> None:
    for words in (("add", platform.env["AOP_HUB"]), ("remove", "shop")):
        ran = platform.aop("platform", *words, "--json", env={"AOP_TOKEN": "x"})
        assert ran.json["error"]["code"] == "person_required", words

"""`aop gc` at a hub: refs that no feature needs any more go; what another machine, or another record, needs stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId
from aop.kernel.gateway.calls import feature_named
from aop.kernel.record.documents.base import revise
from tests.adapters.storage.postgres_clusters import needs_postgres, running_cluster
from tests.cli.run.test_machines import Fleet, ended_at_last, shop_in
from tests.cli.shops import SECONDS
from tests.racing import until
from tests.world import Ran, World, files, git, make_repository, run_aop

pytestmark = [needs_postgres, pytest.mark.slow]

AT_ONCE = ("gc", "--apply", "--hub-minutes", "0", "--json")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with running_cluster() as url:
        yield url


class Hub:
    """A hub, with machines that share a record through it."""

    def __init__(self, cluster: str, folder: Path) -> None:
        self.folder = folder
        self.bare = folder / "hub.git"
        git(folder, "init", "-q", "--bare", str(self.bare))
        self.env = {"AOP_DATABASE": cluster, "AOP_REPOSITORY": folder.name, "AOP_HUB": str(self.bare)}
        self.here = make_repository(folder / "a" / "repo")
        # Records of one database that have the same commits keep each other's refs.
        git(self.here, "commit", "-q", "--allow-empty", "-m", folder.name)
        self.there = folder / "b" / "repo"
        git(folder, "clone", "-q", str(self.here), str(self.there))
        self.base = git(self.here, "rev-parse", "main").strip()

    def refs(self) -> set[str]:
        """Return the refs at the hub."""
        return {*git(self.bare, "for-each-ref", "--format=%(refname)").split()}

    def tree_ref(self, tree: str = "main^{tree}") -> str:
        """Return the ref of a tree on the first commit."""
        return f"refs/aop/trees/{self.base}/{git(self.here, 'rev-parse', tree).strip()}"

    def aop(self, *words: str, root: Path | None = None, **env: str) -> Ran:
        return run_aop(root or self.here, *words, env={**self.env, **env})

    def started(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command; what it prints is not read."""
        return subprocess.Popen(
            [sys.executable, "-m", "aop.cli.main", *words],
            cwd=self.here,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def writers_waiting(self) -> int:
        """Return how many changes wait for the lock of a record."""
        with psycopg.connect(self.env["AOP_DATABASE"]) as connection:
            rows = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            return int(rows.fetchall()[0][0])

    def call(self, tool: str, root: Path | None = None, **arguments: Any) -> Any:
        ran = self.aop("call", tool, json.dumps(arguments), root=root)
        assert ran.code == 0, ran.out + ran.err
        return ran.json["data"]

    def patched(self, name: str) -> str:
        """Make a feature with a patch; return its tree."""
        world = World(self.here, self.env)
        world.plan(name)
        tree: str = world.patch(name)["tree"]
        world.close()
        return tree

    def delete(self, name: str) -> None:
        self.call("feature.delete", feature_id=name, dry_run=False)

    def events(self) -> list[Any]:
        """Return what the journal says of refs at the hub."""
        own = "repository = (SELECT number FROM aop.repositories WHERE name = %s)"
        with psycopg.connect(self.env["AOP_DATABASE"]) as connection:
            sql = f"SELECT payload FROM aop.journals WHERE {own} AND kind = 'hub_cleaned' ORDER BY seq"
            return [json.loads(row[0]) for row in connection.execute(sql, (self.env["AOP_REPOSITORY"],))]

    def hook(self, text: str) -> Path:
        hook = self.bare / "hooks" / "pre-receive"
        hook.write_text(text)
        hook.chmod(0o755)
        return hook


@pytest.fixture
def hub(cluster: str, tmp_path: Path) -> Hub:
    return Hub(cluster, tmp_path)


def found_at_hub(ran: Ran, part: str = "found") -> set[str]:
    rows = [each.get("leftover", each) for each in ran.json["data"][part]]
    return {row["name"] for row in rows if row["kind"] == "hub_ref"}


def test_a_merged_feature_leaves_the_hub_and_another_machine_finishes_the_one_in_work(
    cluster: str, tmp_path: Path
) -> None:
    shop = shop_in(tmp_path / "a", cluster, tmp_path.name)
    bare = tmp_path / "hub.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    shop.env |= {"AOP_HUB": str(bare)}
    fleet = Fleet(shop, tmp_path)
    shop.wants("held_one", "two")
    leader = fleet.here.start("run", "-fl", str(shop.specs), "--wait")
    with ended_at_last(leader):
        until(lambda: shop.turns_in_progress() == 1 or leader.poll() is not None, seconds=SECONDS)
        until(lambda: fleet.statuses().get("two") == "ready_to_merge", seconds=SECONDS)
        assert fleet.here.ran("merge", "two", "--yes") == 0, fleet.here.output.read_text()

        def refs() -> set[str]:
            return {*git(bare, "for-each-ref", "--format=%(refname)").split()}

        before = refs()
        assert fleet.here.ran("gc", "--apply") == 0, fleet.here.output.read_text()
        assert refs() == before
        assert fleet.here.ran("gc", "--apply", "--hub-minutes", "0") == 0, fleet.here.output.read_text()
        kept = {f"refs/aop/trees/{base}/{tree}" for base, tree in _works(fleet)} | {
            ref for ref in before if ref.startswith("refs/aop/merged/")
        }
        assert (refs(), len(before - refs())) == (kept, 1)
        leader.send_signal(signal.SIGKILL)
        leader.wait(SECONDS)
    (shop.agent / "go").touch()
    assert fleet.there.ran("resume", "--standby", "--wait") == 0, fleet.there.output.read_text()
    assert fleet.statuses() == {"held_one": "ready_to_merge", "two": "merged"}
    assert fleet.events()[("patch_applied", "held_one")] == 1
    for machine in (fleet.there, fleet.here):
        assert machine.ran("evidence", "verify") == 0, machine.output.read_text()


def _works(fleet: Fleet) -> list[tuple[str, str]]:
    """Return base and tree of the features that are not merged."""
    sql = (
        "SELECT body::json->>'base_commit', body::json->>'tree' FROM aop.all_documents WHERE kind = 'feature'"
        " AND body::json->>'status' <> 'merged' AND repository = (SELECT number FROM aop.repositories WHERE name = %s)"
    )
    with psycopg.connect(fleet.url) as connection:
        return connection.execute(sql, (fleet.name,)).fetchall()


@pytest.mark.parametrize("newest", ["kept", "deleted"])
def test_of_merges_the_newest_stays_and_a_new_machine_has_them_all_by_it(hub: Hub, newest: str) -> None:
    merges = []
    for name in ("one", "two"):
        world, path = World(hub.here, hub.env), f"src/{name}.txt"
        diff = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{name}\n"
        world.ready(name, diff, files=files(create=(path,)))
        world.close()
        merged = hub.aop("merge", name, "--yes", "--json")
        assert merged.code == 0, merged.out
        merges.append(merged.json["data"]["merge_commit"])
    first, second = (f"refs/aop/merged/{commit}" for commit in merges)
    assert {first, second} <= hub.refs()
    ran = hub.aop(*AT_ONCE)
    assert (ran.code, hub.refs()) == (0, {second}), ran.out
    if newest == "deleted":
        hub.delete("two")
    hub.call("feature.init", root=hub.there, feature_id="three")
    assert git(hub.there, "cat-file", "-t", merges[0 if newest == "deleted" else 1]) == "commit\n"
    assert hub.aop("evidence", "verify", root=hub.there).code == 0


def test_what_was_left_within_the_hour_stays_and_a_dry_run_removes_nothing(hub: Hub) -> None:
    tree = hub.patched("one")
    before = hub.refs()
    assert before == {hub.tree_ref(), hub.tree_ref(tree)}
    young = hub.aop("gc", "--json")
    assert (young.code, found_at_hub(young), young.json["data"]["hub_error"]) == (0, set(), None)
    # The feature has gone on to its second tree.
    listed = hub.aop("gc", "--hub-minutes", "0", "--json")
    assert (listed.code, found_at_hub(listed), hub.refs()) == (3, {hub.tree_ref()}, before)
    gone = hub.aop(*AT_ONCE)
    assert (gone.code, found_at_hub(gone, "removed"), hub.refs()) == (0, {hub.tree_ref()}, {hub.tree_ref(tree)})
    assert hub.events() == [{"refs": [hub.tree_ref()]}]
    again = hub.aop("gc", "--apply", "--hub-minutes", "0")
    assert (again.code, again.err) == (0, "Nothing to clean up.\n")


@pytest.mark.parametrize("by", ["a_new_process", "one_from_before"])
def test_work_that_comes_back_is_at_the_hub_again_and_reaches_another_machine(hub: Hub, by: str) -> None:
    hub.patched("one")
    before = World(hub.here, hub.env)
    # It knows now what is at the hub.
    before.ok("feature.request_changes", feature_id="one", text="Say TWO louder.")
    assert hub.aop(*AT_ONCE).code == 0
    assert hub.tree_ref() not in hub.refs()
    # This machine has sent the base's tree before, and would think that it is still there.
    if by == "a_new_process":
        hub.call("feature.undo", feature_id="one")
    else:
        before.ok("feature.undo", feature_id="one")
    before.close()
    assert hub.tree_ref() in hub.refs()
    assert hub.call("repo.ensure_worktree", root=hub.there, feature_id="one")["feature_id"] == "one"
    assert (hub.there / ".worktrees/one/src/a.txt").read_text() == "one\ntwo\nthree\n"


LOST_ANSWER = """\
#!/bin/sh
while read -r old new ref; do git update-ref -d "$ref"; done
touch "{folder}/reached"
for _ in $(seq 1000); do [ -e "{folder}/go" ] && exit 1; sleep 0.1; done
exit 1
"""
"""A hook that removes refs, and answers only when it is told to."""


def test_after_a_cleaning_that_was_killed_nothing_counts_as_sent(hub: Hub) -> None:
    hub.call("feature.init", feature_id="one")
    hub.delete("one")
    hook = hub.hook(LOST_ANSWER.format(folder=hub.folder))
    killed = hub.started(*AT_ONCE)
    with ended_at_last(killed):
        until((hub.folder / "reached").exists, seconds=SECONDS)
        killed.kill()
        killed.wait()
        (hub.folder / "go").touch()
    hook.unlink()
    assert hub.refs() == set()
    hub.call("feature.init", feature_id="two")
    assert hub.refs() == {hub.tree_ref()}
    assert hub.aop(*AT_ONCE).code == 0
    assert hub.refs() == {hub.tree_ref()}


MOVED = """\
#!/bin/sh
while read -r old new ref; do git update-ref "$ref" {other}; done
"""


def test_a_ref_that_was_moved_meanwhile_stays(hub: Hub) -> None:
    hub.patched("one")
    other = git(hub.bare, "rev-parse", hub.tree_ref() + "^").strip()
    hook = hub.hook(MOVED.format(other=other))
    ran = hub.aop(*AT_ONCE)
    (removal,) = ran.json["data"]["removed"]
    assert (ran.code, removal["problem"] != "", hub.events()) == (1, True, [])
    assert git(hub.bare, "rev-parse", hub.tree_ref()).strip() == other
    hook.unlink()


def test_a_ref_that_was_moved_before_the_hub_was_asked_again_stays(hub: Hub) -> None:
    hub.patched("one")
    listed, other = (git(hub.bare, "rev-parse", hub.tree_ref() + suffix).strip() for suffix in ("", "^"))
    git(hub.bare, "update-ref", hub.tree_ref(), other)
    world = World(hub.here, hub.env)
    assert world.app.hub is not None
    assert world.app.hub.remove({hub.tree_ref(): CommitId(ObjectId(listed))}) == {
        hub.tree_ref(): "It was moved meanwhile."
    }
    for ref in ("refs/heads/main", "refs/aop/undone/one", "refs/aop/trees/*"):
        with pytest.raises(Fault, match="is not a ref that AOP removes"):
            world.app.hub.remove({ref: CommitId(ObjectId(other))})
    world.close()
    assert git(hub.bare, "rev-parse", hub.tree_ref()).strip() == other


PATIENT_REMOVAL = """\
#!/bin/sh
while read -r old new ref; do case "$new" in *[1-9a-f]*) exit 0;; esac; done
touch "{folder}/reached"
for _ in $(seq 1000); do [ -e "{folder}/go" ] && exit 0; sleep 0.1; done
exit 1
"""
"""A hook that lets no ref go before it is told to."""


def test_a_feature_that_comes_to_need_a_ref_while_others_are_removed_keeps_it(hub: Hub) -> None:
    hub.call("feature.init", feature_id="ended")
    hub.delete("ended")
    hub.patched("one")
    # More than are removed at once: the ref of the tree comes last.
    below = f"refs/aop/gates/{hub.env['AOP_REPOSITORY']}/turn.ended"
    git(hub.here, "push", "-q", str(hub.bare), *(f"main:{below}.{number}" for number in range(250)))
    hub.hook(PATIENT_REMOVAL.format(folder=hub.folder))
    world = World(hub.here, hub.env)

    def go_back() -> None:
        with world.app.record.write() as tx:
            state = feature_named(tx, "one")
            tx.put(revise(state, tree=hub.tree_ref().rpartition("/")[2]), "one")

    going_back = threading.Thread(target=go_back)
    cleaning = hub.started(*AT_ONCE)
    with ended_at_last(cleaning):
        until((hub.folder / "reached").exists, seconds=SECONDS)
        going_back.start()
        # It gets the lock of all changes when the first part has gone.
        until(lambda: hub.writers_waiting() > 0, seconds=SECONDS)
        (hub.folder / "go").touch()
        assert cleaning.wait(SECONDS) == 1
    going_back.join(SECONDS)
    world.close()
    assert hub.tree_ref() in hub.refs()
    assert [len(event["refs"]) for event in hub.events()] == [200, 50]


def test_refs_of_gates_and_turns_go_with_their_feature_and_those_of_others_stay(hub: Hub) -> None:
    name, tree = hub.env["AOP_REPOSITORY"], hub.patched("ended")
    hub.call("feature.init", feature_id="alive")
    below = [f"refs/aop/gates/{name}/{each}" for each in ("ended", "turn.ended.builder")]
    others = [
        *(f"refs/aop/gates/{name}/{each}" for each in ("alive", "turn.alive.planner", "unknown")),
        "refs/aop/gates/other/ended",
        f"refs/aop/trees/{hub.base}/{'7' * 40}",
        f"refs/aop/trees/{'7' * 40}/{tree}",
        f"refs/aop/else/{hub.base}/{tree}",
        "refs/heads/main",
        "refs/heads/ended",
    ]
    git(hub.here, "push", "-q", str(hub.bare), *(f"main:{ref}" for ref in [*below, *others]))
    hub.delete("ended")
    ran = hub.aop(*AT_ONCE)
    assert (ran.code, found_at_hub(ran, "removed")) == (0, {*below, hub.tree_ref(tree)})
    assert hub.refs() == {*others, hub.tree_ref()}


def test_another_record_of_the_same_commits_keeps_its_refs(hub: Hub) -> None:
    tree = hub.patched("one")
    theirs = hub.folder / "c" / "repo"
    git(hub.folder, "clone", "-q", str(hub.here), str(theirs))
    made = hub.aop("call", "feature.init", '{"feature_id": "one"}', root=theirs, AOP_REPOSITORY=f"{hub.folder.name}-2")
    assert made.code == 0, made.out
    hub.delete("one")
    ran = hub.aop(*AT_ONCE)
    assert (ran.code, found_at_hub(ran), hub.refs()) == (0, set(), {hub.tree_ref(), hub.tree_ref(tree)})


def test_a_hub_out_of_reach_is_named_and_the_rest_is_done(hub: Hub) -> None:
    hub.call("feature.init", feature_id="one")
    hub.delete("one")
    nowhere = str(hub.folder / "nowhere.git")
    ran = hub.aop(*AT_ONCE, AOP_HUB=nowhere)
    assert (ran.code, ran.json["data"]["hub_error"]["code"]) == (1, "hub_unavailable")
    assert [each["leftover"]["kind"] for each in ran.json["data"]["removed"]] == ["worktree", "branch"]
    told = hub.aop("gc", "--apply", AOP_HUB=nowhere)
    assert (told.code, "[hub_unavailable]" in told.err) == (1, True)
    assert hub.refs() == {hub.tree_ref()}

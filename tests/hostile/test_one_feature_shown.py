"""The git directory that code in a sandbox sees: its feature and the base branch, nothing else of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.agents.contexts import command_context
from aop.adapters.agents.staff import feature_scratch
from aop.adapters.agents.workers.command import CustomWorker
from aop.adapters.processes.runner import LocalProcesses
from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.gateway.gateway import Gateway
from aop.supervisor.workers import Note, WorkerInput
from aop.wiring.catalogue import CATALOGUE
from tests.adapters.processes.steps import hidden_repository
from tests.world import FILES, World, files, git, make_repository

pytestmark = [
    pytest.mark.on_disk,
    pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are those of Linux"),
]

SECRET = "the secret of another feature"
PASSWORD = "hunter2hunter2"
NEW_FILE = f"--- /dev/null\n+++ b/src/new.txt\n@@ -0,0 +1 @@\n+{SECRET}\n"

# Every fact on lines of its own, after a title.
LOOK = """\
import os, subprocess
def said(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else "failed: " + done.stderr
git_dir = said("git", "rev-parse", "--path-format=absolute", "--git-common-dir").strip()
facts = {
    "objects": said("git", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"),
    "refs": said("git", "for-each-ref", "--format=%(refname)"),
    "config": said("git", "config", "--local", "--list"),
    "reflog": said("git", "reflog", "--all"),
    "hooks": "".join(os.listdir(git_dir + "/hooks")) if os.path.exists(git_dir + "/hooks") else "",
    "record": str(os.path.exists(git_dir + "/../.aop/record.db")),
    "history": str(os.path.exists(git_dir + "/../.aop/history")),
    "worktrees": " ".join(os.listdir(git_dir + "/worktrees")),
    "describe": said("git", "describe", "--tags", "--dirty"),
    "log": said("git", "log", "--format=%s", "main"),
    "blame": said("git", "blame", "-s", "src/a.txt"),
    "status": said("git", "status", "--porcelain"),
    "changed": said("git", "diff", "--name-only", "main"),
    "branch": said("git", "diff", "--name-only", "main...HEAD"),
    "staged": said("git", "diff", "--cached", "HEAD"),
    "fsck": said("git", "fsck", "--connectivity-only", "--no-dangling"),
}
"""
LOOK_AND_PRINT = LOOK + "import json; print('SEEN' + json.dumps(facts))\n"


class Planted(World):
    """A repository with secrets wherever another one could look for them."""

    def plant(self) -> None:
        """Add tags, a remote with a password, a branch, a stash, a lost object, and another feature."""
        root = self.root
        git(root, "tag", "-a", "v1.0", "-m", "The first release")
        git(root, "tag", "light")
        git(root, "commit", "-q", "--allow-empty", "-m", "After the release")
        git(root, "switch", "-q", "-c", "private")
        (root / "README.md").write_text(SECRET)
        git(root, "commit", "-qam", SECRET)
        git(root, "tag", "-a", "private-tag", "-m", SECRET)
        git(root, "switch", "-q", "main")
        (root / "README.md").write_text(f"{SECRET} in a stash")
        git(root, "stash", "-q")
        subprocess.run(
            ["git", "hash-object", "-w", "--stdin"],
            cwd=root,
            input=SECRET.encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        git(root, "remote", "add", "origin", f"https://ada:{PASSWORD}@example.org/repo.git")
        git(root, "update-ref", "refs/remotes/origin/main", "main~1")
        git(root, "update-ref", "refs/remotes/origin/other", "private")
        (root / ".git/hooks").mkdir(exist_ok=True)
        (root / ".git/hooks/pre-commit").write_text(f"# {SECRET}\n")
        self.plan("other", files=files(create=("src/new.txt",)))
        self.patch("other", NEW_FILE)

    def reached(self, *names: str) -> set[str]:
        """Return the objects that commits, trees and tag objects reach."""
        listed = git(self.root, "rev-list", "--objects", "main", "v1.0", *names)
        return {line.split(" ")[0] for line in listed.splitlines()}

    def seen(self, log: str) -> Any:
        """Return what the last step of a log found."""
        return msgspec.json.decode(log.rpartition("SEEN")[2])

    def step_log(self, answer: Any) -> str:
        path: str = answer["steps"][0]["log_path"]
        return (self.root / path).read_text()


GATES = """\
version: 1
profiles:
  default:
    modes:
      fast: [{name: look, cmd: [python3, look.py]}]
      full: [{name: look, cmd: [python3, look.py]}]
      merge: [{name: look, cmd: [python3, look.py]}]
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Planted]:
    own = {**FILES, "look.py": LOOK_AND_PRINT, "agentic/orchestrator/gates.yaml": GATES}
    planted = Planted(make_repository(tmp_path / "repo", own))
    planted.plant()
    planted.plan("one")
    planted.patch("one")
    yield planted
    planted.close()


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns


def hidden_parts(seen: Any) -> dict[str, str]:
    """Return what must be the same in every sandbox."""
    return {name: seen[name] for name in ("config", "reflog", "hooks", "record", "history", "fsck")}


NOTHING_ELSE = {
    "config": "core.repositoryformatversion=0\ncore.bare=false\n",
    "reflog": "",
    "hooks": "",
    "record": "False",
    "history": "False",
    "fsck": "",
}
BASE_REFS = ["refs/heads/main", "refs/remotes/origin/main", "refs/tags/light", "refs/tags/v1.0"]


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_a_gate_sees_the_objects_of_its_feature_and_the_base_alone(world: Planted, level: str) -> None:
    kernel = world.app.gateway.kernel
    processes = LocalProcesses(
        os.environ,
        kernel.redact,
        repository=hidden_repository(world.app.repository),
        private_root=world.root / ".aop" / "run",
        rungs=(level,),
    )
    if processes.sandbox_level("auto") != level:
        pytest.skip(f"{level} does not hold on this machine")
    gateway = Gateway(msgspec.structs.replace(kernel, processes=processes), CATALOGUE)
    tree = world.ok("repo.status", feature_id="one")["tree"]
    for mode in ("fast", "full"):
        answer = gateway.call(world.app.person, "gates.run", {"feature_id": "one", "mode": mode})
        assert answer.ok, answer.error
        seen = world.seen(world.step_log(answer.data))
        assert set(seen["objects"].split()) == world.reached("one", tree)
        assert hidden_parts(seen) == NOTHING_ELSE
        assert seen["refs"].split() == sorted([*BASE_REFS, "refs/heads/one"])
        assert seen["worktrees"] == "one"
        # And what an honest gate asks git works.
        assert seen["describe"] == "v1.0-1-g" + git(world.root, "rev-parse", "--short", "main").strip() + "-dirty\n"
        assert seen["log"] == "After the release\nBegin\n"
        assert [line.split(")", 1)[1] for line in seen["blame"].splitlines()] == [" one", " TWO", " three"]
        assert (seen["status"], seen["changed"]) == ("M  src/a.txt\n", "src/a.txt\n")
        assert "-two\n+TWO\n" in seen["staged"]


def test_the_gates_of_a_merge_see_the_merged_commit_and_the_base(world: Planted) -> None:
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    token = world.approval()
    merged = world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    seen = world.seen(max((world.root / "agentic/features/one/logs").rglob("*.log"), key=_time).read_text())
    assert set(seen["objects"].split()) == world.reached(merged["merge_commit"])
    assert hidden_parts(seen) == NOTHING_ELSE
    assert seen["refs"].split() == BASE_REFS
    assert (seen["branch"], seen["status"]) == ("src/a.txt\n", "")


def test_an_agent_sees_the_objects_of_its_feature_and_the_base_alone(world: Planted, tmp_path: Path) -> None:
    kernel = world.app.gateway.kernel
    script = tmp_path / "agent.py"
    script.write_text(LOOK + 'import json; print(json.dumps({"type": "NOTE", "note": json.dumps(facts)}))\n')
    context = command_context(kernel, world.root, os.environ, feature_scratch(kernel))
    given = WorkerInput(
        role=Role.BUILDER,
        feature_id=FeatureId("one"),
        context_bundle={},
        instructions="Look.",
        last_tool_results=(),
        provider="custom",
        model=None,
        provider_config_ref=None,
    )
    answer = CustomWorker((sys.executable, str(script)), context).turn(given)
    assert isinstance(answer, Note)
    seen = msgspec.json.decode(answer.note)
    tree = world.ok("repo.status", feature_id="one")["tree"]
    scratch = set(seen["objects"].split()) - world.reached(tree)
    assert [git(world.root, "log", "-1", "--format=%s %T", oid).strip() for oid in scratch] == [f"Scratch {tree}"]
    assert world.reached(tree) <= set(seen["objects"].split())
    assert hidden_parts(seen) == NOTHING_ELSE
    assert seen["refs"].split() == BASE_REFS
    assert (seen["branch"], seen["status"]) == ("src/a.txt\n", "")


def test_a_first_copy_of_a_long_history_is_reported_once(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    (world.root / "large.bin").write_bytes(os.urandom(11 << 20))
    git(world.root, "add", "large.bin")
    git(world.root, "commit", "-qm", "Large")
    world.plan()
    world.patch()
    if world.app.gateway.kernel.processes.sandbox_level("auto") == "none":
        pytest.skip("no sandbox holds on this machine, so nothing is copied")
    lines = [_reported(world, mode) for mode in ("fast", "fast")]
    world.close()
    copied = "one: copying the history of `main` for the sandbox, of 11 MB of objects; once"
    assert [copied in each for each in lines] == [True, False]


def _reported(world: World, mode: str) -> list[str]:
    lines: list[str] = []
    arguments: Json = {"feature_id": "one", "mode": mode, "force": True}
    assert world.app.gateway.call(world.app.person, "gates.run", arguments, report=lines.append).ok
    return lines

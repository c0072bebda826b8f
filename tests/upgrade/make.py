"""Makes an archive of unfinished work, which later versions of AOP have to finish: `COMMIT.tar.gz` beside this file.

`1fdd4568.tar.gz` was made by the code of that commit. It holds:

- `shop/`, a repository whose record is a file: features in every phase, two approvals, a run that was killed during a
  turn, a question, a build and a gated workflow in the middle, a ticket run that was killed between two steps;
- `local/`, the ticket systems of that run;
- `store/` and `store.sql`, a repository whose record is in PostgreSQL, with two features and an approval, and that
  database;
- `facts.json`, the tokens of the approvals, and the configuration that they hold for.

To add another version, in a checkout whose `src` is that of the commit (the name of the host gets into the record, so
give it a plain one first):

    unshare -u sh -c 'hostname workshop && .venv/bin/python -m tests.upgrade.make COMMIT'

It needs PostgreSQL, works in /tmp/aop-upgrade, and ends with an error if a path of this checkout or of a home got into
the archive. `test_upgrade.py` takes every archive that is here.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.adapters.storage.postgres_clusters import programs, running_cluster
from tests.brains.endpoints import Step, serving
from tests.cli.scripted_agents import agent_command
from tests.forge.builds.notes_app import NOTES
from tests.forge.builds.run.builders import HONEST, PROJECT
from tests.forge.generation.writers import env_for
from tests.forge.projects import stored
from tests.gated import scripted
from tests.gated.agents import PLAN, gated_repository
from tests.racing import until
from tests.tickets import killed_command
from tests.tickets.local_worlds import KEY, PAGE, local_world
from tests.tickets.recorded_plans import record_plan
from tests.world import World, files, make_repository, plan_for, run_aop

FOLDER = Path("/tmp/aop-upgrade")
ROOT = Path(__file__).parents[2]
SPECS = ("begin", "search", "labels", "asks_colour", "waits_for_stock")
APPROVED = ("search", "labels")
BY_HAND = "prices"
ONE_PULL_REQUEST = "# Plan\n\n## Phase 1\n\n### Pull Request #1: Say one\n"
GATED_TURNS = 3
REPLIES = 6
"""So many replies of the builder come before the build is killed."""
PATCH = "--- /dev/null\n+++ b/src/prices.txt\n@@ -0,0 +1 @@\n+All in cents.\n"


def main(commit: str) -> None:
    """Make everything, and pack it."""
    changed = subprocess.run(["git", "diff", "--quiet", commit, "--", "src"], cwd=ROOT, check=False).returncode
    assert not changed, f"`src` is not that of {commit}"
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    facts = {"commit": commit, "shop": make_shop(FOLDER), "store": make_store(FOLDER)}
    (FOLDER / "facts.json").write_text(json.dumps(facts, indent=2) + "\n")
    packed = pack(FOLDER, ("shop", "local", "store", "store.sql", "facts.json"))
    Path(__file__).with_name(f"{commit}.tar.gz").write_bytes(packed)
    shutil.rmtree(FOLDER)


# --- a record in a file --------------------------------------------------------------------------------


def make_shop(folder: Path) -> dict[str, Any]:
    """Make a repository with work of every kind that is not finished; return what is known of it."""
    specs = {f"specs/{name}.md": f"Write {name}.\n" for name in SPECS}
    root = gated_repository(folder / "shop", extra={**specs, PLAN: ONE_PULL_REQUEST})
    agent = agent_environment(folder / "agent")
    ok(root, "run", "--file", "specs/begin.md", "--wait", env=agent)
    ok(root, "merge", "begin", "--yes")
    begin_build(root)
    begin_gated(root)
    begin_ticket(root, folder)
    build_by_hand(root)
    kill_a_run(root, folder, agent)
    tokens = {name: ok(root, "approve", name, "--yes").strip() for name in APPROVED}
    return {"tokens": tokens, "config_hash": config_hash(root), "anchor": ok(root, "evidence", "verify")}


def agent_environment(folder: Path) -> dict[str, str]:
    """Return the environment of runs whose agent is a script."""
    return {"AOP_CUSTOM_AGENT": agent_command(folder), "AOP_AGENT_PROVIDER": "custom"}


def gated_environment() -> dict[str, str]:
    """Return the environment of a gated workflow whose agent is a script."""
    return {"AOP_CUSTOM_AGENT": f"{sys.executable} {scripted.__file__} works"}


def ticket_environment(folder: Path) -> dict[str, str]:
    """Return the environment of ticket runs on the systems in a folder, with a recorded model."""
    return {
        "VCS_PROVIDER": "LOCAL",
        "TRACKER_PROVIDER": "LOCAL",
        "KNOWLEDGE_PROVIDER": "LOCAL",
        "AOP_LOCAL_FOLDER": str(folder / "local"),
        "WORKFLOW_STATE_INITIAL": "To Do",
        "WORKFLOW_STATE_SUCCESS": "In Review",
        "ARCHITECTURE_DOC_PAGE_ID": PAGE,
        "AOP_MODEL_REPLAY": str(record_plan(folder / "replay.jsonl")),
    }


def begin_build(root: Path) -> None:
    """Begin a build, and kill it while it waits for a reply of its second phase."""
    world = World(root)
    world.ok("forge.project_new", name="Notes", mode="mini")
    stored(world, PROJECT, NOTES)
    world.close()
    replies = [Step(text=each.text, calls=each.calls) for each in HONEST[:REPLIES]]
    with (
        serving("openai", *replies, Step(hangs=True)) as server,
        started(root, "forge", "build", PROJECT, env=env_for("openai", server)) as child,
    ):
        until(lambda: len(server.heard) > REPLIES or child.poll() is not None, seconds=120)
        child.kill()
    assert child.returncode == -signal.SIGKILL


def begin_gated(root: Path) -> None:
    """Take an agent through the first steps of a plan."""
    words = ("gated", "run", "--agent-provider", "custom", "--max-turns", str(GATED_TURNS))
    ran = run_aop(root, *words, env=gated_environment())
    assert ran.code == 6, ran.out + ran.err


def begin_ticket(root: Path, folder: Path) -> None:
    """Begin the scaffold of a ticket, and kill it after a branch was made that it has not noted yet."""
    local_world(folder / "local")
    words = [sys.executable, killed_command.__file__, "create_branch", KEY]
    env = {**os.environ, **ticket_environment(folder)}
    killed = subprocess.run(words, cwd=root, env=env, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def build_by_hand(root: Path) -> None:
    """Bring a feature to `qa` by calls of tools."""
    plan = plan_for(BY_HAND, files=files(create=("src/prices.txt",)))
    for role, tool, arguments in (
        ("orchestrator", "feature.init", {}),
        ("planner", "plan.submit", {"plan_json": plan}),
        ("builder", "repo.apply_patch", {"unified_diff": PATCH}),
        ("orchestrator", "gates.run", {"mode": "fast"}),
    ):
        ok(root, "call", tool, json.dumps({"feature_id": BY_HAND, **arguments}), "--role", role)


def kill_a_run(root: Path, folder: Path, agent: Mapping[str, str]) -> None:
    """Kill a run when one feature waits for an answer, one is in a turn of its builder, and the others are ready."""
    wanted = {"search": "ready_to_merge", "labels": "ready_to_merge", "asks_colour": "planning"}

    def is_time() -> bool:
        found = statuses(root)
        is_asked = bool(json.loads(ok(root, "inbox", "--json"))["data"]["questions"])
        in_turn = found.get("waits_for_stock") == "building" and any((root / ".aop/tmp").glob("*/begun"))
        return is_asked and in_turn and wanted.items() <= found.items()

    with started(root, "run", "--folder", "specs", "--wait", env=agent) as child:
        until(lambda: child.poll() is not None or is_time(), seconds=120)
        child.kill()
    assert child.returncode == -signal.SIGKILL
    # The agent that waits for this file is still there.
    (folder / "agent" / "go").touch()


def statuses(root: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the status of each feature."""
    rows = json.loads(ok(root, "status", "--json", env=env))["data"]["features"]
    return {row["feature_id"]: row["status"] for row in rows}


def config_hash(root: Path, env: Mapping[str, str] | None = None) -> str:
    """Return the digest of the configuration in force, which approvals are bound to."""
    world = World(root, env)
    found = world.app.gateway.kernel.config().hash
    world.close()
    return found


def ok(root: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    """Run `aop`, which must succeed; return what it printed."""
    ran = run_aop(root, *words, env=env)
    assert ran.code == 0, (words, ran.out, ran.err)
    return ran.out


@contextmanager
def started(root: Path, *words: str, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start `aop` as a process that will be killed."""
    command = [sys.executable, "-m", "aop.cli.main", *words]
    with subprocess.Popen(command, cwd=root, env={**os.environ, "USER": "ada", **env}) as child:
        try:
            yield child
        finally:
            child.kill()


# --- a record in PostgreSQL ----------------------------------------------------------------------------


def make_store(folder: Path) -> dict[str, Any]:
    """Make a repository whose record is in PostgreSQL, dump it, and return what is known of it."""
    world = World(make_repository(folder / "store"))
    world.ready("one")
    world.plan("two", files=files(create=("src/two.txt",)))
    world.close()
    root = world.root
    with running_cluster() as url:
        ok(root, "record", "move", "--to", url)
        database = {"AOP_DATABASE": url}
        token = ok(root, "approve", "one", "--yes", env=database).strip()
        known = {"tokens": {"one": token}, "anchor": ok(root, "evidence", "verify", env=database)}
        (folder / "store.sql").write_text(dump(url))
    return {**known, "config_hash": config_hash(root)}


def dump(url: str) -> str:
    """Return a database as statements that any PostgreSQL and any client can carry out."""
    home = programs()
    assert home is not None
    words = [str(home / "pg_dump"), "--inserts", "--no-owner", "--no-privileges", url]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    # Newer ones begin with commands of psql, and with settings that older ones do not know.
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(("\\", "SET ", "--")))


# --- the archive ---------------------------------------------------------------------------------------


def pack(folder: Path, names: tuple[str, ...]) -> bytes:
    """Return a compressed archive of these, without owners. Fails if a path of this machine is in it."""
    told = io.BytesIO()
    with tarfile.open(fileobj=told, mode="w") as archive:
        for name in names:
            archive.add(folder / name, name, filter=_plain)
    content = told.getvalue()
    private = [text for text in (str(ROOT), str(Path.home())) if f"{text}/".encode() in content]
    assert private == [], private
    return gzip.compress(content, mtime=0)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out owners, sockets and sample hooks."""
    if not (member.isfile() or member.isdir() or member.issym()) or member.name.endswith(".sample"):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(sys.argv[1])

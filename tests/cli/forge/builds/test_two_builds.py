"""Two projects built at once by real processes: nothing crosses over, and an edited contract waits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from aop.core.roles import Role
from aop.forge.contracts.types import ContractType
from tests.forge.broker.shelves import Agent
from tests.forge.builds.notes_app import NOTES, PHASE_0, STACK, TEST_STORE
from tests.forge.builds.run.builders import (
    BUILDING_1,
    DONE_0,
    FETCH_0,
    PLAN_0,
    SIGNED_0,
    SIGNED_1,
    Calls,
    Said,
    notes_repository,
    writes,
)
from tests.forge.builds.run.endpoint import BuilderEndpoint, building
from tests.forge.generation.writers import env_for
from tests.forge.projects import stored
from tests.racing import until
from tests.world import World, git

PROJECTS = ("notes", "diary")
STACK_AGAIN = ("forge_get_contract", {"name": "stack"})
EDITED = "- Edited while a build ran: yes"


def marks(project: str) -> tuple[str, ...]:
    """Return texts that no other project may meet: its file, note, pad, answer and contract."""
    return tuple(f"{what} of {project} alone" for what in ("File", "Note", "Pad", "Answer", "Contract"))


def script(project: str) -> tuple[Said, ...]:
    file, _, pad, _, _ = marks(project)
    own = {**PHASE_0, "tests/test_store.py": f"# {file}\n{TEST_STORE}"}
    asks: Calls = (
        ("forge_scratchpad", {"operation": "write", "key": "mine", "value": pad}),
        ("forge_read_notepad", {}),
        ("forge_ask_clarification", {"question": "Which colour?"}),
    )
    looks = (("forge_scratchpad", {"operation": "list"}), ("forge_scratchpad", {"operation": "read", "key": "mine"}))
    again = Said(calls=(*BUILDING_1[0].calls, STACK_AGAIN, *looks))
    fetched, written = Said(calls=(*FETCH_0, *asks)), Said(PLAN_0, writes(own))
    return (fetched, written, DONE_0, SIGNED_0, again, *BUILDING_1[1:], SIGNED_1)


def two_projects(folder: Path) -> World:
    """Return a repository with both projects, each with its own contracts and note."""
    world = notes_repository(folder)
    world.ok("forge.project_new", name="Diary", mode="mini")
    for project in PROJECTS:
        _, note, _, _, contract = marks(project)
        stored(world, project, {**NOTES, ContractType.STACK: f"{STACK}- Mark: {contract}\n"})
        world.ok("forge.note_put", project_id=project, content=note)
    return world


def have_ended(world: World, children: Sequence[subprocess.Popen[bytes]]) -> bool:
    """Answer what is asked, each build with its own words; tell whether all have ended."""
    for question in world.ok("inbox.list")["questions"]:
        project = question["feature_id"].partition("-")[0]
        given = {"project_id": project, "question_id": question["question_id"], "answer": marks(project)[3]}
        world.call("forge.clarify", **given)
    return all(child.poll() is not None for child in children)


def started(root: Path, project: str, server: BuilderEndpoint) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "aop.cli.main", "forge", "build", project],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "USER": "ada", **env_for("openai", server)},
    )


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_two_projects_built_at_once_share_nothing_and_an_edited_contract_waits_for_the_next_build(
    tmp_path: Path,
) -> None:
    world = two_projects(tmp_path / "repo")
    main = git(world.root, "rev-parse", "main")
    with ExitStack() as stack:
        servers = [stack.enter_context(building(script(project))) for project in PROJECTS]
        children = [started(world.root, *each) for each in zip(PROJECTS, servers, strict=True)]
        until(lambda: bool(servers[0].asked))
        shown = world.ok("forge.contract_show", project_id="notes", contract_type="stack")
        given = {"content": f"{shown['content']}{EDITED}\n", "expected_version": shown["version"]}
        world.ok("forge.contract_edit", project_id="notes", contract_type="stack", **given)
        until(lambda: have_ended(world, children))
    assert [child.returncode for child in children] == [0, 0]
    for project, other, server in zip(PROJECTS, PROJECTS[::-1], servers, strict=True):
        told, branch = server.told(), f"forge/build-{project}-b1"
        files = git(world.root, "grep", "-h", "alone", branch)
        assert [mark for mark in marks(project) if mark not in told] == []
        assert [mark for mark in marks(other) if mark in told or mark in files] == []
        assert marks(project)[0] in files
        assert EDITED not in told
    assert git(world.root, "rev-parse", "main") == main
    following = world.ok("forge.build_begin", project_id="notes")["build_id"]
    agents = [Agent(world, Role.CODER, build=each) for each in ("notes-b1", following)]
    stacks = [agent.ok("forge_get_contract", name="stack")["content"] for agent in agents]
    assert [EDITED in text for text in stacks] == [False, True]
    world.close()

"""`aop forge build --crew team` as a real process, with a model for each role behind an endpoint."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.brains.endpoints import Step, serving
from tests.brains.subjects import MODELS
from tests.forge.builds.run.builders import BUILD, PROJECT, notes_repository
from tests.forge.builds.run.hosts import Host, build_notes
from tests.forge.builds.run.teams import AUDITED, HONEST_TEAM, SCOUTED
from tests.forge.generation.writers import env_for
from tests.mcpserver.clients import AOP, over_http
from tests.world import World, git, run_aop


@pytest.mark.slow
@pytest.mark.req("FORGE-099", "FORGE-109")
def test_a_team_builds_a_mini_project_with_a_model_for_each_role(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo")
    root = world.root
    world.close()
    replies = [Step(text=said.text, calls=said.calls) for _, turn in HONEST_TEAM for said in turn]
    with serving("openai", *replies) as server:
        env = env_for("openai", server)
        models = {f"FORGE_{role}_LLM_MODEL_PRIORITY": f"openai:{role.lower()}" for role in ("SCOUT", "CODER")}
        ran = run_aop(root, "forge", "build", PROJECT, "--crew", "team", "--json", env={**env, **models})
        asked = [each.body["model"] for each in server.heard]
    assert ran.code == 0, ran.err
    assert (ran.json["data"]["status"], ran.json["data"]["seal"]["verdict"]) == ("sealed", "CERTIFIED")
    fixed = MODELS["openai"].partition(":")[2]
    assert [asked[at] for at in (0, 2, 6, 8)] == ["scout", "coder", fixed, fixed]
    tokens = run_aop(root, "forge", "tokens", BUILD, "--json").json["data"]["roles"]
    assert {role: each["fetches"] for role, each in tokens.items()} == {
        "forge_builder": 0, "scout": 4, "coder": 4, "auditor": 3, "fixer": 1,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.req("FORGE-101")
def test_a_build_opens_a_door_for_the_host_that_is_its_coder(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo")
    root = world.root
    world.close()
    replies = [Step(text=said.text, calls=said.calls) for said in (*SCOUTED, *AUDITED, *SCOUTED, *AUDITED)]
    with serving("openai", *replies) as server:
        command = [*AOP, "forge", "build", PROJECT, "--coder", "host", "--json", "--repo", str(root)]
        env = {**os.environ, **env_for("openai", server)}
        with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=env) as building:
            assert building.stderr is not None
            announced = building.stderr.readline()
            url = announced.partition(" to ")[2].partition(",")[0]
            assert announced.endswith(f"aop token coder --build {BUILD}\n")
            token = run_aop(root, "token", "coder", "--build", BUILD).out.strip()
            with over_http(url, token) as client:
                ended = build_notes(Host(client))
            out, err = building.communicate(timeout=300)
    assert (ended["complete"], building.returncode) == (True, 0), err
    assert json.loads(out)["data"]["seal"]["verdict"] == "CERTIFIED"


def test_a_crew_without_a_coder_and_a_coder_without_a_model_are_refused_before_anything_begins(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo")
    root = world.root
    world.close()
    solo = run_aop(root, "forge", "build", PROJECT, "--crew", "solo", "--coder", "host", "--json")
    assert (solo.code, solo.json["error"]["code"]) == (2, "invalid_cli_args")
    bare = run_aop(
        root, "forge", "build", PROJECT, "--crew", "team", "--json", env={"FORGE_CODER_LLM_MODEL_PRIORITY": "vllm:x"}
    )
    assert bare.json["error"]["code"] == "model_not_configured"
    assert "`FORGE_SCOUT_LLM_MODEL_PRIORITY` or `FORGE_LLM_MODEL_PRIORITY`" in bare.out
    assert git(root, "branch", "--list", "forge/*") == ""
    again = World(root)
    again.ok("forge.build_begin", project_id=PROJECT)
    again.close()
    begun = run_aop(root, "forge", "build", PROJECT, "--coder", "host", "--json")
    assert (begun.code, begun.json["error"]["code"]) == (2, "invalid_cli_args")

"""`aop forge build` and `aop forge log` as real processes, with a model behind an endpoint."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.models.tokenizer import O200kTokenizer
from aop.forge.builds.context.compaction import HEADING
from aop.forge.measure.token_counts import FIXED_CONTEXT_LIMIT
from aop.kernel.record.documents.usage import FeatureUsage
from tests.brains.endpoints import Endpoint, Step, serving
from tests.brains.subjects import MODELS
from tests.forge.builds.cycles import cycle_of
from tests.forge.builds.run.builders import BUILD, FETCHED, HONEST, PROJECT, Said, notes_repository
from tests.forge.generation.writers import env_for
from tests.world import World, git, run_aop

OWN_WORDS = ("aop", "forge", "orchestrator")
FAMILIES = [pytest.param(family, marks=[] if family == "openai" else [pytest.mark.slow]) for family in MODELS]


def served(*replies: Said) -> list[Step]:
    return [Step(text=each.text, calls=each.calls) for each in replies]


def pause(root: Path) -> None:
    world = World(root)
    world.ok("forge.build_resume", build_id=BUILD)
    world.ok("forge.build_pause", build_id=BUILD)
    world.close()


@pytest.mark.req("FORGE-064", "FORGE-068", "FORGE-076", "FORGE-120")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_mini_project_is_built_by_any_family_and_its_log_tells_how(family: str, tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    compact_at_tokens: 1200\n")
    root, main = world.root, git(world.root, "rev-parse", "main")
    with serving(family, *served(*HONEST)) as server:
        ran = run_aop(root, "forge", "build", PROJECT, "--json", env=env_for(family, server))
    assert ran.code == 0, ran.err
    data = ran.json["data"]
    assert [(each["number"], each["name"], each["sign_off"]["tests"]) for each in data["phases"]] == [
        (0, "Genesis", 3), (1, "Release", 4),
    ]  # fmt: skip
    assert (data["build_id"], data["hold"], data["status"]) == (BUILD, "", "sealed")
    assert data["seal"]["verdict"] == "CERTIFIED"
    assert git(root, "rev-parse", "main") == main
    added = git(root, "diff", f"main..forge/build-{BUILD}").casefold()
    assert not [word for word in OWN_WORDS if word in added]
    log = run_aop(root, "forge", "log", BUILD, "--json")
    kinds = [json.loads(line)["data"]["event"]["kind"] for line in log.out.splitlines()]
    wanted = ("build_began", "plan_complete", "phase_complete")
    assert [kind for kind in kinds if kind in wanted] == [
        "build_began", "plan_complete", "phase_complete", "plan_complete", "phase_complete",
    ]  # fmt: skip
    check_requests(server, compactions=cycle_of(world, BUILD).compactions)
    assert spent(world) == (8, 8 * 100, 8 * 40, 8 * 20)
    world.close()


def check_requests(server: Endpoint, *, compactions: int) -> None:
    """Assert on every request as it arrived that instructions and tools are small, also after the compactions."""
    requests = [heard.body for heard in server.heard]
    assert len(requests) == len(HONEST)
    assert max(map(fixed_tokens, requests)) <= FIXED_CONTEXT_LIMIT
    shortened = [HEADING in json.dumps(body, ensure_ascii=False) for body in requests]
    assert (compactions > 0, shortened[0], shortened[-1]) == (True, False, True)


def fixed_tokens(body: Any) -> int:
    """Return the tokens of what a request says besides its conversation, in the protocol of any family."""
    rules = [turn for turn in body.get("messages", ()) if turn["role"] in ("system", "developer")]
    fixed = {name: value for name, value in body.items() if name not in ("messages", "contents", "input")}
    assert rules or {"instructions", "system", "systemInstruction"} & set(fixed), sorted(fixed)
    return O200kTokenizer().count(json.dumps([rules, fixed], ensure_ascii=False))


def spent(world: World) -> tuple[object, ...]:
    """Return the turns of the build and its tokens: read, read from a cache, written."""
    with world.app.record.read() as view:
        usage = view.get(FeatureUsage, BUILD)
    assert usage is not None
    of = usage.roles["forge_builder"]
    return of.turns, of.input_tokens.known, of.cached_input_tokens.known, of.output_tokens.known


def test_a_stop_ends_the_command_with_4_and_a_pause_with_5(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo")
    root = world.root
    world.close()
    stop = Said("=== STOP: AMBIGUOUS_INTENT ===\nWhose notes?")
    with serving("openai", *served(FETCHED, stop, FETCHED)) as server:
        env = env_for("openai", server)
        stopped = run_aop(root, "forge", "build", PROJECT, env=env)
        assert (stopped.code, "It stopped. AMBIGUOUS_INTENT: Whose notes?" in stopped.out) == (4, True), stopped.err
        assert run_aop(root, "answer", "q1", "Of one person.").code == 0
        pause(root)
        paused = run_aop(root, "forge", "build", PROJECT, "--json", env=env)
    assert (paused.code, paused.json["data"]["hold"]) == (5, "paused"), paused.err


def test_a_build_in_the_background_is_followed_to_its_end(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo")
    root = world.root
    world.close()
    with serving("openai", *served(*HONEST)) as server:
        started = run_aop(root, "forge", "build", PROJECT, "--detach", "--json", env=env_for("openai", server))
        assert (started.code, started.json["data"]["build_id"]) == (0, BUILD), started.err
        followed = run_aop(root, "forge", "log", BUILD, "--follow")
    assert (followed.code, followed.out.count("phase_complete")) == (0, 2)
    assert has_ended(started.json["data"]["pid"])


def has_ended(pid: int) -> bool:
    """Wait a minute at most for a process to end."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


def test_a_project_without_contracts_is_not_built(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo")
    world.ok("forge.project_new", name="Empty")
    root = world.root
    world.close()
    with serving("openai", *served(FETCHED)) as server:
        ran = run_aop(root, "forge", "build", "empty", "--json", env=env_for("openai", server))
    assert (ran.code, ran.json["error"]["code"]) == (3, "no_contracts")

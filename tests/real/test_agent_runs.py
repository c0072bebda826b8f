"""Real coding agents with a scripted model: from a spec to `ready_to_merge`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from aop.core.text.front_matter import split_front_matter
from tests.cli.shops import Shop
from tests.real.fake_vendors import Asked, Call, fake_vendors
from tests.real.scenes import (
    KEY,
    PATCH,
    VENDORS,
    agent_environments,
    called,
    environment,
    files_with,
    logs,
    needs,
    ran_with,
    requests_of,
    spent,
    works,
)
from tests.world import run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


class Watched:
    """A model that looks around whenever it is asked: then the agent is running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.agents = 0
        self.holders: set[str] = set()

    def says(self, asked: Asked) -> Call | str:
        for pid, environ in agent_environments(self._folder).items():
            self.agents += 1
            self.holders |= {f"environ of {pid}"} if KEY.encode() in environ else set()
            self.holders |= {str(path) for path in files_with(KEY, Path("/proc", str(pid), "root", "tmp"))}
        self.holders |= {str(path) for path in files_with(KEY, self._folder)}
        return works(asked)


@pytest.mark.req("AOP-229", "AOP-234", "AOP-315")
@pytest.mark.hostile("K09")
@pytest.mark.parametrize("vendor", VENDORS)
def test_a_coding_agent_brings_a_feature_to_ready_to_merge_and_never_sees_the_key(tmp_path: Path, vendor: str) -> None:
    needs(vendor)
    shop, watched = Shop(tmp_path), Watched(tmp_path)
    with fake_vendors(watched.says) as model:
        ran = ran_with(shop, vendor, model)
    assert ran.code == 0, (ran.out, ran.err, requests_of(model), logs(shop))
    assert shop.statuses() == {"good": "ready_to_merge"}
    assert (shop.root / ".worktrees/good/src/good.txt").read_text() == "Write good.\n"
    assert {asked.model for asked in model.asked} == {"a-model"}
    assert spent(shop)["turns"] == 2
    assert spent(shop)["input_tokens"] == {"known": 10 * len(model.asked), "unknown_turns": 0}
    assert model.keys == {KEY}
    assert watched.agents >= len(model.asked)
    assert watched.holders == set()
    assert files_with(KEY, tmp_path) == []


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_agent_is_tried_with_one_real_turn(tmp_path: Path, vendor: str) -> None:
    needs(vendor)
    with fake_vendors(notes) as model:
        env = environment(vendor, model)
        ran = run_aop(tmp_path, "agents", "test", vendor, "--agent-model", "a-model", "--json", env=env)
    assert ran.code == 0, (ran.out, ran.err, model.asked)
    assert json.loads(ran.out)["data"]["usage"]["input_tokens"] == 10 * len(model.asked)


def notes(asked: Asked) -> Call | str:
    wanted = re.search(r"with the note `([^`]+)`", asked.prompt)
    if asked.results or wanted is None:
        return "done"
    return called(asked, "submit_note", {"feature_id": "trial", "note": wanted[1]})


class Remembering:
    """A model whose builder first asks for more context, and then looks for its first turn in what it is sent."""

    def __init__(self) -> None:
        self.prompts: list[int] = []

    def says(self, asked: Asked) -> Call | str:
        begun = asked.prompt.count("You are the builder")
        if len(asked.results) >= max(1, begun):
            return "done"
        if not begun:
            return works(asked)
        self.prompts.append(begun)
        if len(self.prompts) == 1:
            return called(asked, "submit_request", {"feature_id": "good", "request": "context", "detail": {}})
        return called(asked, "submit_patch", {"feature_id": "good", "unified_diff": PATCH})


@pytest.mark.req("AOP-090", "AOP-231")
@pytest.mark.parametrize("vendor", ["claude", "codex"])
def test_the_next_turn_of_a_role_goes_on_with_its_session_where_the_policy_says_so(tmp_path: Path, vendor: str) -> None:
    needs(vendor)
    shop, builder = Shop(tmp_path, "version: 1\nsupervisor: {sessions: resume}\n"), Remembering()
    with fake_vendors(builder.says) as model:
        ran = ran_with(shop, vendor, model)
    assert ran.code == 0, (ran.out, ran.err, requests_of(model), logs(shop))
    assert builder.prompts == [1, 2]
    named = re.findall(r"builder: answers with \w+ in the session (\S+)", ran.err)
    front, _ = split_front_matter((shop.root / "agentic/features/good/state.md").read_bytes())
    assert named == [yaml.safe_load(front)["cluster"]["builder_session_id"]] * 2
    assert files_with(KEY, tmp_path) == []

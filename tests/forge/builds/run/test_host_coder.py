"""Host coder: an MCP client over HTTP is the coder of a team, at the door that its build opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from aop.mcpserver.in_background import served_in_background
from aop.wiring.build import make_ready_for_threads
from tests.forge.builds.notes_app import PHASE_0, PHASE_1
from tests.forge.builds.run.builders import BUILD, PROJECT, notes_repository
from tests.forge.builds.run.teams import AUDITED, AUDITOR, CODER, SCOUT, SCOUTED, Team
from tests.mcpserver.clients import Mcp, over_http, token_for
from tests.world import World, git

LONGEST_SECONDS = 300.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = notes_repository(tmp_path / "repo")
    yield made
    made.close()


class Host:
    """A program that builds Notes with the tools of a coder, and nothing else."""

    def __init__(self, client: Mcp) -> None:
        self._client = client

    def report(self, **event: Any) -> Any:
        return self._client.call("forge_report_progress", {"event": event} if event else {}).data

    def wait(self) -> Any:
        """Ask what comes next until it is the coder's turn, or the build is complete."""
        while (state := self.report())["at_work"] not in ("coder", "") or "being judged" in state["text"]:
            pass
        return state

    def write(self, files: Mapping[str, str]) -> None:
        for path, content in files.items():
            assert self._client.call("write_file", {"path": path, "content": content}).data["changed"]

    def phase(self, files: Mapping[str, str], tasks: list[str]) -> None:
        """Plan a phase, write it and say that its tasks are done."""
        plan = [{"number": number, "text": text} for number, text in enumerate(tasks, start=1)]
        self.report(type="plan", tasks=plan)
        self.write(files)
        for task in plan:
            self.report(type="task_done", number=task["number"])

    def sign_off(self, phase: int, evidence: list[dict[str, Any]]) -> Any:
        told = self.report(type="sign_off", phase=phase, tests="PASS", evidence=evidence)
        assert "being judged" in told["text"]
        return self.wait()


EVIDENCE_0 = [
    {"deliverable": 1, "paths": ["notes/store.py", "tests/test_store.py"]},
    {"deliverable": 2, "paths": ["notes/app.py", "tests/test_app.py"]},
]
EVIDENCE_1 = [
    {"deliverable": 1, "paths": ["notes/app.py", "tests/test_app.py"]},
    {"deliverable": 2, "paths": ["README.md"], "no_test_because": "it is prose"},
]


@pytest.mark.req("FORGE-101", "FORGE-106")
def test_any_mcp_host_is_the_coder_of_a_team_and_learns_what_is_missing(world: World) -> None:
    make_ready_for_threads()
    team, ready = Team([(SCOUT, SCOUTED), (AUDITOR, AUDITED), (SCOUT, SCOUTED), (AUDITOR, AUDITED)]), Event()
    with (
        ThreadPoolExecutor(1) as pool,
        served_in_background(world.app.gateway, world.app.tokens, lambda _line: None) as url,
    ):
        building = pool.submit(team.build, world, ready.set, by_host=True)
        assert ready.wait(LONGEST_SECONDS)
        with over_http(url, token_for(world, CODER, project=PROJECT, build=BUILD)) as client:
            host = Host(client)
            begun = host.wait()
            assert (begun["phase"], begun["phase_name"], begun["missing"]) == (0, "Genesis", "")
            assert "boundaries /layers/1: a store returns" in begun["scout_report"]
            host.phase(PHASE_0, ["Write the store and its tests", "Write the application and its test"])
            refused = host.sign_off(0, EVIDENCE_0[:1])
            assert refused["missing"].startswith("- Deliverable 2, ")
            assert host.sign_off(0, EVIDENCE_0)["phase"] == 1
            host.phase(PHASE_1, ["Answer for notes, and say how to run it"])
            ended = host.sign_off(1, EVIDENCE_1)
        cycle = building.result(LONGEST_SECONDS)
    assert (ended["complete"], ended["at_work"], ended["text"]) == (
        True, "", "Every phase is signed off. Your work is done.",
    )  # fmt: skip
    assert ([each.tests for each in cycle.sign_offs], len(cycle.refused), team.asked(CODER)) == ([3, 4], 1, 0)
    log = git(world.root, "log", "--format=%s", f"main..forge/build-{BUILD}").splitlines()
    assert log[0].startswith("[forge] sealed — verdict: C")

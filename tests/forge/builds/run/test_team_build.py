"""Team build: scout, coder, auditor and fixer build Notes, each with its own tools and its own model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.brains.conversation import Request
from aop.core.errors import BuildActive, BuildNotFinished, Fault
from aop.core.ids import FeatureId
from aop.forge.broker.role_briefs import role_brief
from aop.forge.builds.run.agent_tools import LEFT_OUT
from aop.forge.builds.run.build_parts import BuildHeld
from aop.forge.contracts.types import ContractType
from tests.forge.builds.cycles import cycle_of
from tests.forge.builds.notes_app import NOTES
from tests.forge.builds.run.builders import BUILD, PROJECT, Said, build_with, notes_repository, said_to, scripted
from tests.forge.builds.run.teams import (
    AUDITOR,
    CODED_0,
    CODER,
    FIXER,
    HONEST_TEAM,
    SCOUT,
    SCOUTED,
    Team,
    audit,
    finding,
)
from tests.forge.builds.test_role_tools import TOOLS
from tests.world import World, git

CONTRACT_LINES = {
    line
    for name, text in NOTES.items()
    for line in text.splitlines()
    if len(line) > 40 and name is not ContractType.BLUEPRINT
}
"""The lines of the contracts; the purpose of the project, one line of the blueprint, is told to every role."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = notes_repository(tmp_path / "repo")
    yield made
    made.close()


def events(world: World, kind: str) -> list[dict[str, Any]]:
    """Return the payloads of the events of a kind that the build left."""
    with world.app.record.read() as view:
        found = [entry.event for entry in view.journal(feature_id=FeatureId(BUILD), kinds=(kind,))]
    return [dict(event.payload) for event in found]


def offered(request: Request) -> set[str]:
    return {offer.name for offer in request.tools}


@pytest.mark.req("FORGE-099", "FORGE-102", "FORGE-103", "FORGE-106", "FORGE-107", "FORGE-109", "FORGE-113", "FORGE-230")
def test_a_team_builds_both_phases_and_what_its_auditor_finds_is_repaired(world: World) -> None:
    before = git(world.root, "rev-parse", "main").strip()
    team = Team(HONEST_TEAM)
    cycle = team.build(world)
    assert [(each.phase, each.name, each.tests) for each in cycle.sign_offs] == [(0, "Genesis", 3), (1, "Release", 4)]
    assert (cycle.status, cycle.refused, cycle.current.crew.fixes) == ("sealed", (), 0)
    assert git(world.root, "log", "--reverse", "--format=%s", f"main..forge/build-{BUILD}").splitlines() == [
        "[forge] Phase 0, task 1: Write the store and its tests",
        "[forge] Phase 0, fix 1",
        "[forge] Phase 1, task 1: Answer for notes, and say how to run it",
        "[forge] sealed — verdict: CERTIFIED",
    ]
    assert git(world.root, "rev-parse", "main").strip() == before
    check_isolation(team)
    check_audit(world, team)
    fetches = {role: each["fetches"] for role, each in world.ok("forge.tokens", target=BUILD)["roles"].items()}
    assert fetches == {"forge_builder": 0, "scout": 4, "coder": 4, "auditor": 3, "fixer": 1}


def check_isolation(team: Team) -> None:
    """Each role has its brief and its tools; no request holds a contract before the role fetched it."""
    for role, model in team.models.items():
        first = model.asked[0]
        assert offered(first) == TOOLS[role] - LEFT_OUT
        assert first.instructions.startswith(role_brief(role))
        assert [line for line in CONTRACT_LINES if line in said_to(first)] == []
    scout, coder, auditor, fixer = (team.models[role].asked for role in (SCOUT, CODER, AUDITOR, FIXER))
    assert "boundaries /layers/1: a store returns" in said_to(coder[0])
    assert "+class Store:" in said_to(auditor[0])
    assert [text in said_to(fixer[0]) for text in (BUILD, "The store prints.", "class Store:")] == [True, True, False]
    assert said_to(scout[3]).endswith("You must call forge_get_phase_window(1) before you report.")


def check_audit(world: World, team: Team) -> None:
    """Findings are held against the diff, and the fixer changes only the files that they cite."""
    files = [(each["path"], each["verdict"], len(each["findings"])) for each in events(world, "file_audited")]
    assert [each for each in files if each[1] == "fail"] == [("notes/store.py", "fail", 2)]
    assert [path for path, verdict, _ in files[6:12] if verdict == "pass"] == [
        "notes/__init__.py", "notes/app.py", "notes/store.py", "tests/__init__.py", "tests/test_app.py",
        "tests/test_store.py",
    ]  # fmt: skip
    told = [each["message"] for each in events(world, "build_log") if each["level"] == "warn"]
    assert told == [
        "A finding of the auditor is left out: the phase does not change `LICENSE`.",
        "A finding of the auditor is about `notes/store.py`: the diff does not show line 900.",
    ]
    assert "`edit_file` refuses (file_not_cited): No finding cites `notes/app.py`." in said_to(
        team.models[FIXER].asked[2]
    )
    assert events(world, "fix_attempt_result") == [
        {
            "build_id": BUILD,
            "project_id": PROJECT,
            "phase": 0,
            "attempt": 1,
            "passed": True,
            "paths": ["notes/store.py"],
            "fix_summary": "1: repaired.",
        }
    ]
    fixed = [each for each in world.ok("forge.errors_list", build_id=BUILD)["errors"] if each["source"] == "auditor"]
    assert [(each["resolution_method"], each["resolution_summary"]) for each in fixed] == [("auto-fix", "1: repaired.")]


@pytest.mark.slow
def test_a_team_that_is_interrupted_before_every_reply_asks_for_each_once(world: World) -> None:
    replies = [(role, (said,)) for role, turn in HONEST_TEAM for said in turn]
    for role, turn in replies[:-1]:
        again, team = World(world.root), Team([(role, turn)])
        with pytest.raises(Fault, match="script ends"):
            team.build(again)
        assert sum(team.asked(each) for each in (SCOUT, CODER, AUDITOR, FIXER)) == 2
        again.close()
    assert len(Team(replies[-1:]).build(world).sign_offs) == 2
    log = git(world.root, "log", "--format=%s", f"main..forge/build-{BUILD}").splitlines()
    assert len(log) == len(set(log)) == 4
    assert len(events(world, "fix_attempt_result")) == 1


@pytest.mark.req("FORGE-104", "FORGE-113")
def test_a_coder_that_changes_nothing_in_its_rounds_stops_the_build_and_a_person_lets_it_go_on(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    rounds: {coder: 2, scout: 1}\n")
    idle = (Said(calls=(("forge_set_session", {}), ("run_tests", {"command": "true"}))), Said("Soon."))
    team = Team([(SCOUT, [Said("I look around.")]), (CODER, idle)])
    with pytest.raises(BuildHeld) as held:
        team.build(world)
    assert held.value.cycle.hold_reason == "EVIDENCE_MISSING: The coder of phase 0 changed nothing in 2 rounds."
    told = said_to(team.models[CODER].asked[1])
    assert told.count("There is no tool") == 2
    assert told.endswith("You must call forge_get_phase_window(0) before coding.")
    question = world.ok("inbox.list")["questions"][0]["question_id"]
    world.ok("inbox.answer", feature_id=BUILD, question_id=question, answer="Begin with the store.")
    on = Team([(CODER, CODED_0[:1])])
    with pytest.raises(Fault, match="script ends"):
        on.build(world)
    assert "Begin with the store." in said_to(on.models[CODER].asked[0])
    assert cycle_of(world, BUILD).current.crew.scout_report == ""
    world.close()


def test_a_coder_that_stops_in_its_last_round_stops_the_build_once(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    rounds: {coder: 1, scout: 1}\n")
    stop = Said("=== STOP: CONTRACT_CONFLICT ===\nThe stack and the schema disagree.")
    with pytest.raises(BuildHeld) as held:
        Team([(SCOUT, [Said("I look around.")]), (CODER, [stop])]).build(world)
    assert held.value.cycle.hold_reason == "CONTRACT_CONFLICT: The stack and the schema disagree."
    assert len(world.ok("inbox.list")["questions"]) == 1
    world.close()


def test_a_team_that_used_up_its_turns_is_told_which_setting_allows_more(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    turns: 2\n")
    for scouted in (SCOUTED, ()):
        with pytest.raises(BuildNotFinished, match="reached its limit of iterations after 2 turns") as refused:
            Team([(SCOUT, scouted)]).build(world)
        assert refused.value.next_action.startswith("Raise `forge.build.turns` in the policy")
    world.close()


@pytest.mark.req("FORGE-230")
def test_findings_that_stay_stop_the_build(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    attempts: 1\n")
    useless = Said(calls=(("hand_in_result", {"fix_summary": "1: the finding is wrong."}),))
    found = audit(finding())
    team = Team([(SCOUT, SCOUTED), (CODER, CODED_0), (AUDITOR, (found, found)), (FIXER, (useless,))])
    with pytest.raises(BuildHeld) as held:
        team.build(world)
    assert held.value.cycle.hold_reason == (
        "EVIDENCE_MISSING: Phase 0 still violates `boundaries` (/layers/1) in `notes/store.py` after 1 repair:"
        " The store prints."
    )
    assert "1: the finding is wrong." in said_to(team.models[AUDITOR].asked[1])
    assert cycle_of(world, BUILD).sign_offs == ()
    world.close()


def test_a_build_goes_on_with_the_crew_that_began_it(world: World) -> None:
    with pytest.raises(Fault, match="script ends"):
        Team([]).build(world)
    with pytest.raises(BuildActive, match="was begun by the crew `team`"):
        build_with(world, scripted())

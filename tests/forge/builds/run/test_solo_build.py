"""Solo build: a scripted model builds Notes through the gateway, and AOP decides when a phase is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aop.adapters.models.tokenizer import O200kTokenizer
from aop.brains.conversation import Reply, Request
from aop.core.errors import BuildNotFinished, Fault, ModelUnavailable
from aop.core.ids import FeatureId
from aop.forge.builds.context.compaction import HEADING
from aop.forge.builds.documents import Stop
from aop.forge.builds.machine.markers import events_in
from aop.forge.builds.run.build_parts import BuildHeld
from aop.forge.builds.run.marked_course import MOST_TALK
from aop.forge.contracts.types import ContractType
from aop.forge.measure.token_counts import FIXED_CONTEXT_LIMIT
from tests.forge.builds.cycles import coder, cycle_of
from tests.forge.builds.notes_app import NOTES, PHASE_0, TEST_APP, TEST_APP_WITH_NOTES, TEST_STORE
from tests.forge.builds.run.builders import (
    BUILD,
    BUILDING_0,
    BUILDING_1,
    EVIDENCE_0,
    EVIDENCE_1,
    FETCHED,
    HONEST,
    PLAN_0,
    SIGNED_0,
    SIGNED_1,
    WRITTEN_0,
    Calls,
    Said,
    build_with,
    done,
    notes_repository,
    said_to,
    scripted,
    signing,
    writes,
)
from tests.world import World, git


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = notes_repository(tmp_path / "repo")
    yield made
    made.close()


def refusals(world: World) -> list[tuple[str, ...]]:
    return [each.reasons for each in cycle_of(world, BUILD).refused]


@pytest.mark.req(
    "FORGE-048",
    "FORGE-050",
    "FORGE-052",
    "FORGE-053",
    "FORGE-054",
    "FORGE-055",
    "FORGE-065",
    "FORGE-071",
    "FORGE-076",
    "FORGE-170",
)
def test_an_honest_model_builds_both_phases_and_each_is_proven(world: World) -> None:
    before = git(world.root, "rev-parse", "main").strip()
    model = scripted(*HONEST)
    cycle = build_with(world, model)
    assert [(each.phase, each.name, each.tests) for each in cycle.sign_offs] == [(0, "Genesis", 3), (1, "Release", 4)]
    assert cycle.refused == ()
    log = git(world.root, "log", "--reverse", "--format=%an|%s", f"main..forge/build-{BUILD}").splitlines()
    assert log == [
        "ForgeGuard Bot|[forge] Phase 0, task 1: Write the store and its tests",
        "ForgeGuard Bot|[forge] Phase 1, task 1: Answer for notes, and say how to run it",
        "ForgeGuard Bot|[forge] sealed — verdict: CERTIFIED",
    ]
    assert cycle.status == "sealed"
    assert git(world.root, "rev-parse", "main").strip() == before
    assert (len(model.asked), cycle.cost_usd) == (len(HONEST), 0.00112)
    opening, advanced = said_to(model.asked[0]), model.asked[4].turns[-1].text
    budget = "You may ask the user 10 more questions in this build."
    assert ("## Phase 1 — START" in advanced, budget in opening, budget in advanced) == (True, True, True)
    directive = "stop where two contracts disagree with each other"
    assert directive in NOTES[ContractType.BUILDER_DIRECTIVE]
    assert directive not in model.asked[0].instructions + said_to(model.asked[-1])
    assert not (world.root / ".aop/forge/runs" / f"{BUILD}.steps").exists()
    with world.app.record.read() as view:
        kinds = [entry.event.kind for entry in view.journal(feature_id=FeatureId(cycle.build_id))]
    assert [kind for kind in kinds if kind in ("plan_complete", "phase_complete")] == [
        "plan_complete", "phase_complete", "plan_complete", "phase_complete",
    ]  # fmt: skip


EMPTIED = TEST_STORE.replace('        self.assertEqual(Store(":memory:").all(), [])', "        pass")
SKIPPED = TEST_STORE.replace("    def test_an", '    @unittest.skip("later")\n    def test_an')
CHEATS: tuple[Calls, ...] = (
    writes({"tests/test_store.py": EMPTIED}),
    writes({"tests/test_store.py": SKIPPED}),
    writes({"tests/test_app.py": TEST_APP, "tests/test_store.py": TEST_STORE.partition("    def test_an")[0]}),
    (("run_command", {"command": "rm tests/test_store.py"}),),
)
"""Ways to have fewer tests: one is emptied, skipped, taken out, or deleted with its file; the first two have a new test
in its place."""


@pytest.mark.req("FORGE-055", "FORGE-183")
def test_every_sign_off_that_is_not_true_is_refused_for_its_reason(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    attempts: 10\n")
    red = {**PHASE_0, "tests/test_store.py": TEST_STORE.replace('["milk"])', '["bread"])')}
    model = scripted(
        FETCHED,
        SIGNED_0,
        Said("\n".join(f"> {line}" for line in SIGNED_0.text.splitlines())),
        Said(PLAN_0, writes(red)),
        Said(f"{done(1, 2)}\n{SIGNED_0.text}"),
        Said(signing(1, EVIDENCE_1), writes({"tests/test_store.py": TEST_STORE})),
        SIGNED_0,
        *BUILDING_1,
        *(reply for cheat in CHEATS for reply in (Said("Fewer.", cheat), SIGNED_1)),
        Said("Again.", writes({"tests/test_app.py": TEST_APP_WITH_NOTES, "tests/test_store.py": TEST_STORE})),
        SIGNED_1,
    )
    cycle = build_with(world, model)
    first, second, third, *fewer = refusals(world)
    assert first[0] == "Phase 0 has no plan."
    assert any("The verification did not pass" in reason for reason in first)
    assert [reason[:30] for reason in second] == ["The verification did not pass:"]
    assert third == ("The sign-off names phase 1, and phase 0 is being built.",)
    assert [any(reason.startswith("Audit A8: tests: ") for reason in reasons) for reasons in fewer] == [True] * 4
    assert "1 marker in your reply" not in said_to(model.asked[2])
    assert "2 markers in your reply were indented, quoted or in a code block" in said_to(model.asked[3])
    assert [each.phase for each in cycle.sign_offs] == [0, 1]
    errors = world.ok("forge.errors_list", build_id=BUILD)["errors"]
    assert {(each["source"], each["resolution_method"]) for each in errors} == {("sign_off", "phase-complete")}
    world.close()


@pytest.mark.req("FORGE-055")
def test_a_sign_off_counts_only_for_the_files_that_were_verified(world: World) -> None:
    with pytest.raises(Fault, match="script ends"):
        build_with(world, scripted(*BUILDING_0))
    said = msgspec.to_builtins(events_in(SIGNED_0.text)[0])
    unproven = ("The verification has not run on these files.",)
    assert world.ok("forge.build_event", build_id=BUILD, event=said)["missing"] == [*unproven]
    assert world.ok("forge.build_verify", build_id=BUILD)["passed"]
    changed = {"path": "notes/store.py", "content": f"{PHASE_0['notes/store.py']}\n"}
    assert world.app.gateway.call(coder(BUILD), "write_file", changed).ok
    assert world.ok("forge.build_event", build_id=BUILD, event=said)["missing"] == [*unproven]
    assert world.ok("forge.build_verify", build_id=BUILD)["passed"]
    assert world.ok("forge.build_event", build_id=BUILD, event=said)["signed_off"]


@pytest.mark.req("FORGE-052")
def test_a_sign_off_that_stays_false_stops_the_build_and_asks_a_person(world: World) -> None:
    with pytest.raises(BuildHeld) as held:
        build_with(world, scripted(FETCHED, SIGNED_0, SIGNED_0, SIGNED_0))
    cycle = held.value.cycle
    assert (cycle.hold, cycle.stop and cycle.stop.code, len(cycle.refused)) == ("stopped", "EVIDENCE_MISSING", 3)
    assert world.ok("inbox.list")["questions"][0]["question_id"] == (cycle.stop and cycle.stop.question_id)


def test_a_check_that_cannot_be_computed_keeps_a_phase_from_being_signed_off_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    world = notes_repository(tmp_path / "repo", base={"README.md": "# Old\n"})
    lost = git(world.root, "rev-parse", "main:README.md").strip()
    sign_off = signing(0, (f"{EVIDENCE_0[0]}, README.md", EVIDENCE_0[1]))
    with pytest.raises(Fault, match="script ends"):
        build_with(
            world, scripted(FETCHED, Said(PLAN_0, writes({**PHASE_0, "README.md": "# New\n"})), Said(done(1, 2)))
        )
    world.close()
    (world.root / ".git/objects" / lost[:2] / lost[2:]).unlink()
    again, model = World(world.root), scripted(*[Said(sign_off)] * 3)
    with pytest.raises(BuildHeld) as held:
        build_with(again, model)
    assert refusals(again)[0] == (
        f"Audit W1: secrets could not be computed: There is no blob `{lost}` in the repository. It is computed again at"
        " the next sign-off. If no file that you write can change this, write `=== STOP: ENVIRONMENT_LIMITATION ===`.",
    )
    assert (held.value.cycle.hold, len(held.value.cycle.refused)) == ("stopped", 3)
    again.close()


@pytest.mark.req("FORGE-060")
def test_a_stop_is_answered_by_a_person_and_the_model_goes_on_with_the_answer(world: World) -> None:
    stop = Said("=== STOP: CONTRACT_CONFLICT ===\nThe stack and the schema disagree.")
    with pytest.raises(BuildHeld) as held:
        build_with(world, scripted(FETCHED, stop))
    question = world.ok("inbox.list")["questions"][0]
    reason = "The stack and the schema disagree."
    assert held.value.cycle.stop == Stop(code="CONTRACT_CONFLICT", reason=reason, question_id=question["question_id"])
    with pytest.raises(BuildHeld):
        build_with(world, scripted())
    world.ok("inbox.answer", feature_id=BUILD, question_id=question["question_id"], answer="Follow the stack.")
    on = scripted(WRITTEN_0)
    with pytest.raises(Fault, match="script ends"):
        build_with(world, on)
    assert said_to(on.asked[0]).endswith(
        "A person answered your STOP (CONTRACT_CONFLICT): Follow the stack.\nGo on with this."
    )
    assert (cycle_of(world, BUILD).hold, cycle_of(world, BUILD).stop) == ("", None)


@pytest.mark.req("FORGE-231", "FORGE-239")
def test_what_people_do_meanwhile_reaches_the_next_reply_once(world: World) -> None:
    def interrupted(request: Request) -> Reply:
        world.ok("forge.build_interject", build_id=BUILD, text="Use short names.")
        world.ok("forge.note_put", project_id="notes", content="Blue, please.")
        return Reply(model="m", text="I think.")

    def paused(request: Request) -> Reply:
        world.ok("forge.build_pause", build_id=BUILD, reason="Lunch.")
        return Reply(model="m", text="I think again.")

    model = scripted(FETCHED, interrupted, paused)
    with pytest.raises(BuildHeld) as held:
        build_with(world, model)
    assert held.value.cycle.hold == "paused"
    told = said_to(model.asked[2])
    assert [told.count(text) for text in ("Use short names.", "`forge_read_notepad`")] == [1, 1]
    world.ok("forge.build_resume", build_id=BUILD)
    on = scripted(*HONEST[1:])
    assert len(build_with(world, on).sign_offs) == 2
    assert said_to(on.asked[-1]).count("Use short names.") == 1


def test_a_build_that_is_interrupted_before_every_reply_asks_for_each_once(world: World) -> None:
    for at, reply in enumerate(HONEST[:-1]):
        again = World(world.root)
        model = scripted(reply)
        with pytest.raises(Fault, match="script ends"):
            build_with(again, model)
        assert len(model.asked) == 2, at
        again.close()
    last = scripted(HONEST[-1])
    assert len(build_with(world, last).sign_offs) == 2
    assert len(last.asked) == 1
    log = git(world.root, "log", "--format=%s", f"main..forge/build-{BUILD}").splitlines()
    assert len(log) == len(set(log)) == 3


def test_a_model_that_fails_leaves_the_build_to_the_next_try(world: World) -> None:
    with pytest.raises(BuildNotFinished) as refused:
        build_with(world, scripted(FETCHED, ModelUnavailable("Away.")))
    assert refused.value.facts == {"build_id": BUILD, "cause": "model_unavailable"}
    on = scripted(*HONEST[1:])
    assert len(build_with(world, on).sign_offs) == 2


@pytest.mark.req("FORGE-070")
def test_a_model_that_reads_nothing_is_reminded_and_one_that_only_talks_is_stopped(world: World) -> None:
    model = scripted(*[Said("I will begin soon.")] * MOST_TALK)
    with pytest.raises(BuildHeld) as held:
        build_with(world, model)
    assert said_to(model.asked[1]).endswith("You must call forge_get_phase_window(0) before coding.")
    assert "Phase 0 has no plan yet." in said_to(model.asked[2])
    assert held.value.cycle.hold_reason == (
        f"EVIDENCE_MISSING: The model replied {MOST_TALK} times without a call or a marker."
    )


@pytest.mark.req("FORGE-046", "FORGE-064", "FORGE-067", "FORGE-068")
def test_a_long_build_is_compacted_and_its_fixed_context_stays_small(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    compact_at_tokens: 1200\n")
    model = scripted(*HONEST)
    cycle = build_with(world, model)
    assert (len(cycle.sign_offs), cycle.compactions > 0) == (2, True)
    tokens = O200kTokenizer().count
    for request in model.asked:
        fixed = [request.instructions, *(msgspec.json.encode(offer).decode() for offer in request.tools)]
        assert sum(map(tokens, fixed)) <= FIXED_CONTEXT_LIMIT
        assert len(request.tools) == 15
    last = said_to(model.asked[-1])
    assert (last.count(HEADING), model.asked[-1].turns[0]) == (1, model.asked[0].turns[0])
    assert "Contracts read: phases (Phase 0), blueprint, stack, phases (Phase 1)." in last
    world.close()

"""`aop forge generate` as a real process: both flows, every endpoint family, and what can go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aop.core.digests import sha256_hex
from aop.core.text.counts import count
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from tests.brains.endpoints import Step
from tests.brains.subjects import MODELS
from tests.forge.generation.writers import (
    ALL_TURNS,
    PROJECTS,
    SUBMIT,
    answered_project,
    contract_of,
    digests_in,
    env_for,
    new_project,
    steps_of,
    unready_project,
    writing,
    written,
)
from tests.world import Ran, World, git, make_repository, run_aop

OWN_WORDS = ("aop", "forge", "forgeguard", "orchestrator", "taskflow engine")
FLOWS = ("greenfield", "scout")
FACTS = {"greenfield": "seed", "scout": "parcel"}
QUICK = (("greenfield", "anthropic"), ("scout", "openai"))
PAIRS = [
    pytest.param(flow, family, marks=[] if (flow, family) in QUICK else [pytest.mark.slow])
    for flow in FLOWS
    for family in MODELS
]


def generated(root: Path, project: str, *words: str, env: dict[str, str]) -> Ran:
    return run_aop(root, "forge", "generate", project, *words, "--json", env=env)


def journal_of(root: Path, *kinds: str) -> list[dict[str, Any]]:
    world = World(root)
    try:
        with world.app.record.read() as view:
            return [dict(entry.event.payload) for entry in view.journal(kinds=kinds)]
    finally:
        world.close()


def show(root: Path, project: str) -> Any:
    return run_aop(root, "forge", "show", project, "--json").json["data"]


@pytest.mark.req(
    "FORGE-001", "FORGE-002", "FORGE-022", "FORGE-122", "FORGE-123", "FORGE-137", "FORGE-145", "FORGE-147", "FORGE-151"
)
@pytest.mark.parametrize(("flow", "family"), PAIRS)
def test_nine_contracts_are_written_in_their_order_by_any_family(flow: str, family: str, tmp_path: Path) -> None:
    project = new_project(flow, tmp_path / "repo")
    with writing(family, written(flow)) as server:
        ran = generated(tmp_path / "repo", project, env=env_for(family, server))
    assert ran.code == 0, ran.err
    data = ran.json["data"]
    assert server.asked == ALL_TURNS
    assert [each["contract_type"] for each in data["contracts"]] == [*CONTRACT_TYPES]
    assert {(used["turns"], used["input_tokens"], used["output_tokens"]) for used in data["usage"].values()} == {
        (2, 200, 40)
    }
    shown = show(tmp_path / "repo", project)
    assert (shown["status"], shown["batch"], shown["sha256"]) == ("contracts_generated", 1, data["sha256"])
    assert digests_in(shown) == digests_in(data)
    assert [
        (row["contract_type"], row["turn"], row["tokens"]) for row in journal_of(tmp_path / "repo", "contract_progress")
    ] == [(each, turn, 120 * turn) for each, turn in ALL_TURNS]
    assert not [word for word in OWN_WORDS for text in server.texts if word in text.casefold()]
    # A model is told of the project when it asks, and not before.
    told = [FACTS[flow] in text.casefold() for text in server.texts]
    assert (any(told[::2]), told[1]) == (False, True)
    assert not list((tmp_path / "repo/.aop/forge/runs").iterdir())


@pytest.mark.req("FORGE-144")
def test_what_is_generated_is_stored_copied_to_the_artifacts_and_can_be_pinned(tmp_path: Path) -> None:
    project, root = new_project("greenfield", tmp_path / "repo"), tmp_path / "repo"
    with writing("anthropic", written("greenfield")) as server:
        data = generated(root, project, env=env_for("anthropic", server)).json["data"]
    assert digests_in(show(root, project)) == digests_in(data)
    for each in data["contracts"]:
        asked = json.dumps({"project_id": project, "type": "contract", "key": each["contract_type"]})
        copy = run_aop(root, "call", "forge_get_artifact", asked).json["data"]["content"]
        assert sha256_hex(copy.encode()) == each["sha256"]
    assert len(journal_of(root, "contract_progress")) == len(ALL_TURNS)
    pinned = run_aop(root, "forge", "pin", project, "--json").json["data"]
    assert (pinned["batch"], pinned["sha256"]) == (data["batch"], data["sha256"])


@pytest.mark.parametrize("flow", FLOWS)
def test_a_recording_writes_the_same_contracts_without_a_model(flow: str, tmp_path: Path) -> None:
    recording, found = tmp_path / "exchanges.jsonl", []
    with writing("anthropic", written(flow)) as server:
        env = {**env_for("anthropic", server), "AOP_MODEL_RECORD": str(recording)}
        project = new_project(flow, tmp_path / "first")
        found.append(digests_in(generated(tmp_path / "first", project, env=env).json["data"]))
    project = new_project(flow, tmp_path / "second")
    ran = generated(tmp_path / "second", project, env={"AOP_MODEL_REPLAY": str(recording)})
    assert ran.code == 0, ran.err
    found.append(digests_in(ran.json["data"]))
    assert found[0] == found[1]


@pytest.mark.req("FORGE-003", "FORGE-004", "FORGE-005", "FORGE-134")
def test_every_contract_can_read_those_before_it_and_none_after(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")
    everything = tuple(("get_prior_contract", {"contract_type": each}) for each in CONTRACT_TYPES)

    def reply(each: ContractType, turn: int) -> Step:
        return Step(calls=everything) if turn == 1 else steps_of("greenfield", each)[1]

    with writing("anthropic", reply) as server:
        assert generated(tmp_path / "repo", project, env=env_for("anthropic", server)).code == 0
    for at, each in enumerate(CONTRACT_TYPES):
        text = server.texts[2 * at + 1]
        missing = [other for other in CONTRACT_TYPES if f"Contract '{other}' not yet generated." in text]
        assert missing == [*CONTRACT_TYPES[at:]], each


@pytest.mark.req("FORGE-135", "FORGE-138")
def test_a_refused_contract_is_told_why_and_fences_are_taken_off(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")

    def reply(each: ContractType, turn: int) -> Step:
        content = contract_of("greenfield", each)
        tries = ["I am sorry, I cannot do that.", "# Too short\n", f"```markdown\n{content}```"]
        return Step(calls=((SUBMIT, {"content": tries[turn - 1]}),))

    with writing("anthropic", reply) as server:
        ran = generated(tmp_path / "repo", project, env=env_for("anthropic", server))
    assert ran.code == 0, ran.err
    assert {used["turns"] for used in ran.json["data"]["usage"].values()} == {3}
    assert "It is an apology, not a manifesto contract" in server.texts[1]
    assert "The section `## Purpose` is missing." in server.texts[2]
    with writing("anthropic", written("greenfield")) as server:
        again = generated(tmp_path / "repo", project, env=env_for("anthropic", server))
    assert digests_in(again.json["data"]) == digests_in(ran.json["data"])


@pytest.mark.req("FORGE-139")
def test_a_contract_as_plain_text_counts_and_an_apology_does_not(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")

    def reply(each: ContractType, turn: int) -> Step:
        return Step(text="I am sorry." if turn == 1 else contract_of("greenfield", each))

    with writing("anthropic", reply) as server:
        ran = generated(tmp_path / "repo", project, env=env_for("anthropic", server))
    assert ran.code == 0, ran.err
    assert server.asked == ALL_TURNS


@pytest.mark.req("FORGE-139", "FORGE-140")
@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        (Step(text="I am sorry, I cannot."), "talked"),
        (Step(), "talked"),
        (Step(calls=(("get_project_intent", {}),)), "iterations"),
        (Step(calls=(("erase_everything", {}),)), "iterations"),
        (Step(calls=((SUBMIT, {"content": "x" * 200_000}),)), "iterations"),
        (Step(text="no", declined=True), "model_request_rejected"),
        (Step(status=503), "model_unavailable"),
        (Step(body="<html>"), "model_reply_unreadable"),
    ],
    ids=["apology", "nothing", "never submits", "unknown tool", "200 kB", "declines", "overloaded", "no reply"],
)
def test_a_model_that_writes_no_contract_leaves_nothing_and_the_finished_ones_are_not_asked_again(
    bad: Step, cause: str, tmp_path: Path
) -> None:
    project = new_project("greenfield", tmp_path / "repo")

    def reply(each: ContractType, turn: int) -> Step:
        return bad if each is ContractType.SCHEMA else steps_of("greenfield", each)[min(turn, 2) - 1]

    with writing("anthropic", reply) as server:
        ran = generated(tmp_path / "repo", project, env=env_for("anthropic", server))
    assert (ran.code, ran.json["error"]["code"], ran.json["error"]["details"]["cause"]) == (
        6,
        "contract_not_written",
        cause,
    )
    assert ran.json["error"]["message"].startswith("The schema contract was not written: the model ")
    assert len(server.asked) <= 6 + 12
    assert (show(tmp_path / "repo", project)["batch"], journal_of(tmp_path / "repo", "contracts_stored")) == (0, [])
    with writing("anthropic", written("greenfield")) as server:
        ran = generated(tmp_path / "repo", project, env=env_for("anthropic", server))
    assert (ran.code, server.asked) == (0, ALL_TURNS[6:])


@pytest.mark.req("FORGE-018", "FORGE-146")
def test_a_model_that_cannot_call_tools_gets_everything_in_its_prompt(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")
    refusal = json.dumps({"error": {"message": "qwen3 does not support tools", "type": "api_error", "code": None}})

    def reply(each: ContractType, turn: int) -> Step:
        has_tools = "get_prior_contract" in server.texts[-1]
        return Step(status=400, body=refusal) if has_tools else steps_of("greenfield", each)[1]

    with writing("ollama", reply) as server:
        ran = generated(tmp_path / "repo", project, env=env_for("ollama", server))
    assert ran.code == 0, ran.err
    assert {used["way"] for used in ran.json["data"]["usage"].values()} == {"snowball"}
    last = server.texts[-1]
    assert "the phases contract" in last
    assert "Seed Library lends vegetable seeds" in last


@pytest.mark.req("FORGE-148", "FORGE-234")
def test_the_policy_sets_turns_and_the_way_of_single_contracts(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    project = new_project("greenfield", root)
    rules = "version: 1\nforge: {max_turns: 3, turns: {schema: 1}, snowball: [manifesto]}\n"
    (root / "agentic/orchestrator/policy.yaml").write_text(rules)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Rules")

    def reply(each: ContractType, turn: int) -> Step:
        return steps_of("greenfield", each)[1 if each is ContractType.MANIFESTO else min(turn, 2) - 1]

    with writing("anthropic", reply) as server:
        ran = generated(root, project, env=env_for("anthropic", server))
    assert ran.json["error"]["details"]["contract_type"] == "schema"
    assert server.asked == [ALL_TURNS[0], *ALL_TURNS[2:7]]
    assert ("get_prior_contract" in server.texts[0], "get_prior_contract" in server.texts[1]) == (False, True)


def test_a_comparison_writes_both_ways_and_stores_nothing(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")

    def reply(each: ContractType, turn: int) -> Step:
        has_tools = "get_prior_contract" in server.texts[-1]
        return steps_of("greenfield", each)[min(turn, 2) - 1 if has_tools else 1]

    with writing("anthropic", reply) as server:
        ran = generated(tmp_path / "repo", project, "--compare", env=env_for("anthropic", server))
    assert ran.code == 0, ran.err
    rows = ran.json["data"]["contracts"]
    assert [(row["tools"]["requests"], row["snowball"]["requests"]) for row in rows] == [(2, 1)] * 9
    assert [line.rpartition(", ")[2] for line in ran.err.splitlines()[:5]] == [
        "manifesto by tools: asking the model",
        "120 tokens",
        "240 tokens",
        "manifesto by snowball: asking the model",
        "120 tokens",
    ]
    assert (show(tmp_path / "repo", project)["batch"], journal_of(tmp_path / "repo", "contract_progress")) == (0, [])


@pytest.mark.req("FORGE-233")
@pytest.mark.parametrize("flow", FLOWS)
def test_by_tools_less_is_sent_than_by_snowball_and_half_for_the_last_contract(flow: str, tmp_path: Path) -> None:
    project = new_project(flow, tmp_path / "repo")

    def reply(each: ContractType, turn: int) -> Step:
        has_tools = "get_prior_contract" in server.texts[-1]
        return steps_of(flow, each)[min(turn, 2) - 1 if has_tools else 1]

    with writing("anthropic", reply) as server:
        ran = generated(tmp_path / "repo", project, "--compare", env=env_for("anthropic", server))
    rows = ran.json["data"]["contracts"]
    assert rows[-1]["tools"]["sent"] <= rows[-1]["snowball"]["sent"] / 2
    assert sum(row["tools"]["sent"] for row in rows) < sum(row["snowball"]["sent"] for row in rows)


def test_one_contract_is_written_again_and_the_others_stay(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")
    changed = contract_of("greenfield", ContractType.STACK).replace("20 px body", "22 px body")

    def reply(each: ContractType, turn: int) -> Step:
        return Step(calls=((SUBMIT, {"content": changed}),))

    with writing("anthropic", written("greenfield")) as server:
        refused = generated(tmp_path / "repo", project, "--only", "stack", env=env_for("anthropic", server))
        first = generated(tmp_path / "repo", project, env=env_for("anthropic", server)).json["data"]
    assert refused.json["error"]["code"] == "no_contracts"
    with writing("anthropic", reply) as server:
        second = generated(tmp_path / "repo", project, "--only", "stack", env=env_for("anthropic", server)).json["data"]
    assert server.asked == [(ContractType.STACK, 1)]
    versions = {each["contract_type"]: each["version"] for each in second["contracts"]}
    assert (second["batch"], versions) == (2, {**dict.fromkeys(map(str, CONTRACT_TYPES), 1), "stack": 2})
    assert digests_in(first)["manifesto"] == digests_in(second)["manifesto"]


@pytest.mark.req("FORGE-124", "FORGE-126")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"plan": None}, "renovation_plan_missing"),
        ({"scan_type": "quick"}, "scan_not_deep"),
        ({"status": "running"}, "scan_not_completed"),
        ({"status": "failed"}, "scan_not_completed"),
    ],
)
def test_a_scan_that_is_not_ready_is_named_before_a_model_is_asked(
    changes: dict[str, Any], code: str, tmp_path: Path
) -> None:
    root = make_repository(tmp_path / "repo")
    project = unready_project(root, **changes)
    ran = generated(root, project, env={})
    assert (ran.code, ran.json["error"]["code"]) == (3, code)
    if code == "renovation_plan_missing":
        assert run_aop(root, "forge", "generate", project).err == (
            "aop: The scan `scan-1` has no renovation plan. [renovation_plan_missing]\n"
            "  Make it with `aop forge plan parcel-desk`, then generate again.\n"
        )


def test_without_a_model_the_option_and_both_variables_are_named(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")
    assert run_aop(tmp_path / "repo", "forge", "generate", project).err == (
        "aop: No model is chosen. [model_not_configured]\n"
        "  Name one with `--model PROVIDER:MODEL`, or set `FORGE_LLM_MODEL_PRIORITY` or `AOP_MODELS` to one or more"
        " names such as `anthropic:MODEL`; `aop brain test` asks it a question.\n"
    )


def test_a_person_sees_each_contract_begin_and_the_contradictions_at_the_end(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")
    with writing("anthropic", written("greenfield")) as server:
        ran = run_aop(tmp_path / "repo", "forge", "generate", project, env=env_for("anthropic", server))
    assert ran.code == 0, ran.err
    assert ran.err.splitlines()[:4] == [
        "contract 1 of 9, manifesto: asking the model",
        "contract 1 of 9, manifesto: turn 1, 120 tokens",
        "contract 1 of 9, manifesto: turn 2, 240 tokens",
        "contract 2 of 9, blueprint: asking the model",
    ]
    found = len(show(tmp_path / "repo", project)["contradictions"])
    said = f"{count(found, 'contradiction')}. Read with: aop forge show {project}" if found else "Contradictions: none"
    assert ran.out.splitlines()[-2:] == [said, f"Pin them for a build with: aop forge pin {project}"]


def test_answers_that_are_missing_are_named_before_a_model_is_asked(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    assert run_aop(root, "forge", "new", "Seed Library").code == 0
    ran = generated(root, PROJECTS["greenfield"], env={})
    assert (ran.code, ran.json["error"]["code"]) == (3, "answers_incomplete")
    assert ran.json["error"]["details"]["sections"][:2] == ["product_intent", "tech_stack"]


def test_answers_that_change_while_contracts_are_written_are_found_and_nothing_is_stored(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    project = answered_project(root)

    def reply(each: ContractType, turn: int) -> Step:
        if (each, turn) == ALL_TURNS[-1]:
            changed = tmp_path / "changed.yaml"
            changed.write_text("product_intent: {success: Two minutes.}\n")
            assert run_aop(root, "forge", "ask", project, "--from", str(changed)).code == 0
        return steps_of("greenfield", each)[min(turn, 2) - 1]

    with writing("anthropic", reply) as server:
        ran = generated(root, project, env=env_for("anthropic", server))
    assert (ran.code, ran.json["error"]["code"]) == (6, "generation_outdated")
    assert show(root, project)["batch"] == 0
    with writing("anthropic", written("greenfield")) as server:
        ran = generated(root, project, env=env_for("anthropic", server))
    assert (ran.code, server.asked) == (0, ALL_TURNS)


def test_a_second_generation_of_a_project_is_refused_by_name(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    project, second = answered_project(root), list[Ran]()

    def reply(each: ContractType, turn: int) -> Step:
        if (each, turn) == ALL_TURNS[3]:
            second.append(generated(root, project, env=env_for("anthropic", server)))
        return steps_of("greenfield", each)[min(turn, 2) - 1]

    with writing("anthropic", reply) as server:
        first = generated(root, project, env=env_for("anthropic", server))
    assert (first.code, [each.json["error"]["code"] for each in second]) == (0, ["generation_busy"])
    assert server.asked == ALL_TURNS


def test_progress_names_the_contract_the_turn_and_the_tokens(tmp_path: Path) -> None:
    project = new_project("greenfield", tmp_path / "repo")
    with writing("anthropic", written("greenfield")) as server:
        ran = run_aop(tmp_path / "repo", "forge", "generate", project, env=env_for("anthropic", server))
    assert ran.code == 0, ran.err
    assert "contract 4 of 9, schema: turn 2, 240 tokens" in ran.err
    assert ran.out.splitlines()[0].startswith("seed-library: wrote 9 contracts; batch 1, ")


def test_what_the_model_hands_in_is_what_is_stored_but_for_the_settings(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    project = new_project("greenfield", root)
    with writing("anthropic", written("greenfield")) as server:
        run_aop(root, "forge", "generate", project, env=env_for("anthropic", server))
    exported = run_aop(root, "forge", "export", project, str(tmp_path / "out"))
    assert exported.code == 0, exported.err
    texts = {path.stem: path.read_text() for path in (tmp_path / "out").iterdir()}
    for each in CONTRACT_TYPES[:-1]:
        assert texts[each] == contract_of("greenfield", each)
    assert texts["builder_directive"] == (
        contract_of("greenfield", ContractType.BUILDER_DIRECTIVE)
        + "\n## Settings\n```yaml\nmode: full\nphase_order: [0, 1, 2, 3, 4, 5]\nverify:\n"
        + '  - ["python", "-m", "ruff", "check", "."]\n  - ["python", "-m", "pytest", "-q"]\n```\n'
    )

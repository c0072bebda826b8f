"""Models that lie, flood, loop and leak: `aop forge generate` ends by name, keeps no secret and stores no half."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.forge.contracts.types import ContractType
from tests.brains.endpoints import Step
from tests.cli.forge.test_generate import generated, journal_of, show
from tests.forge.generation.writers import SECRET, SUBMIT, env_for, new_project, steps_of, writing
from tests.world import run_aop

ESCAPES = "\x1b]0;title\x07\x1b[2J"


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"content": "x"}
    for _ in range(depth):
        value = {"content": value}
    return value


def everything_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_model_that_talks_of_secrets_and_steers_the_terminal_is_quoted_without_both(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    project = new_project("greenfield", root)
    with writing("anthropic", lambda _each, _turn: Step(text=f"{ESCAPES}The key is {SECRET}")) as server:
        env = env_for("anthropic", server)
        ran, plain = generated(root, project, env=env), run_aop(root, "forge", "generate", project, env=env)
    for each in (ran, plain):
        assert each.code == 6
        assert SECRET not in each.out + each.err
        assert "\x1b" not in each.out + each.err
    assert "\\u001b" not in ran.out
    assert ran.json["error"]["details"]["cause"] == "talked"
    assert SECRET.encode() not in everything_below(root)


FLOODS = {
    "results": tuple((SUBMIT, {"content": "# Manifesto\n\nLater."}) for _ in range(200)),
    "readings": tuple(("get_project_intent", {}) for _ in range(200)),
    "unknown tools": tuple((f"{ESCAPES}{number}" * 20, {}) for number in range(50)),
    "nested": tuple((SUBMIT, nested(400)) for _ in range(5)),
    "other types": ((SUBMIT, {"content": 7}), (SUBMIT, {"content": ["a"]}), (SUBMIT, {}), (SUBMIT, {"x": "y"})),
    "large": ((SUBMIT, {"content": "# Manifesto\n\n" + "- a\n" * 500_000}),),
}


def test_a_model_that_floods_the_loop_is_cut_short_and_told_why(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    project = new_project("greenfield", root)
    floods = list(FLOODS.values())

    def reply(each: ContractType, turn: int) -> Step:
        if each is ContractType.MANIFESTO and turn <= len(floods):
            return Step(calls=floods[turn - 1])
        return steps_of("greenfield", each)[1]

    with writing("openai", reply) as server:
        ran = generated(root, project, env=env_for("openai", server))
    assert ran.code == 0, ran.err
    told = server.texts[len(floods)]
    assert told.count("Only 16 calls of one reply are executed.") == 200 - 16 + 200 - 16 + 50 - 16
    assert "\x1b" not in ran.out + ran.err
    assert show(root, project)["batch"] == 1


@pytest.mark.parametrize("text", ["PLAIN", "FENCED"])
def test_a_secret_in_a_contract_reaches_neither_record_nor_log_nor_output(text: str, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    project = new_project("greenfield", root)

    def reply(each: ContractType, turn: int) -> Step:
        step = steps_of("greenfield", each)[min(turn, 2) - 1]
        if each is not ContractType.MANIFESTO or turn < 2:
            return step
        content = str(step.calls[0][1]["content"]) + f"\nThe key of the club is {SECRET}.\n"
        return Step(calls=((SUBMIT, {"content": f"```markdown\n{content}\n```" if text == "FENCED" else content}),))

    with writing("anthropic", reply) as server:
        ran = generated(root, project, env=env_for("anthropic", server))
    assert ran.code == 0, ran.err
    shown = run_aop(root, "forge", "show", project, "manifesto")
    assert "The key of the club is [redacted:" in shown.out
    assert SECRET not in ran.out + ran.err + shown.out
    assert SECRET.encode() not in everything_below(root)
    assert SECRET not in str(journal_of(root, "contract_progress", "contracts_stored", "contracts_generated"))

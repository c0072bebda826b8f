"""`aop brain test`: the report, and which variable to set when no model can be asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aop.brains.model_brain import ANSWER
from tests.brains.endpoints import Step, serving
from tests.world import run_aop

ANSWERED = Step(calls=((ANSWER, {"total": 42}),))
UNSET = dict.fromkeys(("AOP_MODELS", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"), "")
KEY = "key-of-the-test-7f3a9c"


def test_one_round_trip_says_who_answered_and_what_it_took(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"vllm:local": {"input": 1.0, "output": 2.0, "cache_read": 0.1}}')
    with serving("vllm", ANSWERED) as server:
        env = {**UNSET, "AOP_MODELS": "vllm:local", "VLLM_BASE_URL": server.url, "AOP_MODEL_PRICES": "prices.json"}
        ran = run_aop(tmp_path, "brain", "test", env=env)
    lines = ran.out.splitlines()
    assert (ran.code, ran.err, lines[1:]) == (
        0, "", ["  tokens: 100 in (40 cached), 20 out", "  cost: 0.000104 USD"],
    )  # fmt: skip
    assert lines[0].startswith("vllm:local answered correctly, in ")


def test_json_has_the_whole_answer_and_an_unknown_price_is_no_price(tmp_path: Path) -> None:
    with serving("vllm", ANSWERED) as server:
        env = {**UNSET, "VLLM_BASE_URL": server.url}
        ran = run_aop(tmp_path, "brain", "test", "--model", "vllm:local", "--json", env=env)
    assert {**ran.json["data"], "seconds": 0} == {
        "value": {"total": 42},
        "model": "vllm:local",
        "usage": {"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 40, "cache_write_tokens": 0},
        "cost_usd": None,
        "seconds": 0,
        "calls": 1,
        "passed_over": [],
    }


@pytest.mark.parametrize(
    ("product", "variable"),
    [
        pytest.param("scaffolding", "SCAFFOLDING_LLM_MODEL_PRIORITY", marks=pytest.mark.req("SCAF-31")),
        pytest.param("code-review", "CODE_REVIEW_LLM_MODEL_PRIORITY", marks=pytest.mark.req("REV-18")),
    ],
)
def test_a_product_asks_its_own_models_in_their_order(product: str, variable: str, tmp_path: Path) -> None:
    with serving("vllm", Step(status=429)) as first, serving("ollama", ANSWERED) as second:
        env = {**UNSET, "AOP_MODELS": "compatible:never", "VLLM_BASE_URL": first.url, "OLLAMA_BASE_URL": second.url}
        ran = run_aop(
            tmp_path, "brain", "test", "--for", product, "--json", env={**env, variable: '["vllm:one", "ollama:two"]'}
        )
        assert (len(first.heard), len(second.heard)) == (1, 1)
    data = ran.json["data"]
    assert (data["model"], data["passed_over"]) == ("ollama:two", [{"model": "vllm:one", "code": "model_rate_limited"}])


@pytest.mark.parametrize(
    ("models", "code", "exit_code", "hint"),
    [
        ("", "model_not_configured", 2, "Set `AOP_MODELS` to one or more names"),
        ("claude", "model_not_configured", 2, "Write `provider:model`; the provider is one of: anthropic, "),
        ("anthropic:claude-sonnet-5", "model_key_missing", 2, "Set `ANTHROPIC_API_KEY` to your key"),
        ("google:gemini-3.8-flash", "model_key_missing", 2, "Set `GOOGLE_API_KEY` to your key"),
        ("compatible:any", "model_not_configured", 2, "Set `AOP_COMPATIBLE_BASE_URL` to the base URL"),
    ],
)
def test_what_is_missing_is_named(models: str, code: str, exit_code: int, hint: str, tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "brain", "test", "--json", env={**UNSET, "AOP_MODELS": models})
    error = ran.json["error"]
    assert (ran.code, error["code"]) == (exit_code, code)
    assert error["details"]["suggested_next_actions"][0].startswith(hint)


def test_a_key_is_printed_nowhere(tmp_path: Path) -> None:
    said = json.dumps({"error": {"message": f"The key {KEY} is unknown.", "type": "x", "code": None}})
    with serving("compatible", Step(status=400, body=said)) as server:
        env = {**UNSET, "AOP_COMPATIBLE_BASE_URL": server.url, "AOP_COMPATIBLE_API_KEY": KEY}
        ran = run_aop(tmp_path, "brain", "test", "--model", "compatible:any", env=env)
    assert (ran.code, KEY in ran.out + ran.err, server.heard[0].headers["authorization"]) == (1, False, f"Bearer {KEY}")


def test_a_wrong_answer_in_the_right_shape_is_no_success(tmp_path: Path) -> None:
    with serving("vllm", Step(calls=((ANSWER, {"total": 41}),))) as server:
        ran = run_aop(tmp_path, "brain", "test", "--model", "vllm:local", env={**UNSET, "VLLM_BASE_URL": server.url})
    assert (ran.code, ran.err.splitlines()[0]) == (
        1, "aop: `vllm:local` followed the schema, but added 17 and 25 to 41. [model_answer_invalid]",
    )  # fmt: skip


def test_what_was_recorded_is_played_back_without_an_endpoint_and_without_a_key(tmp_path: Path) -> None:
    with serving("anthropic", ANSWERED) as server:
        env = {**UNSET, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "AOP_MODEL_RECORD": "kept.jsonl"}
        run_aop(tmp_path, "brain", "test", "--model", "anthropic:claude-sonnet-5", env=env)
    replayed = run_aop(tmp_path, "brain", "test", "--json", env={**UNSET, "AOP_MODEL_REPLAY": "kept.jsonl"})
    assert (replayed.code, replayed.json["data"]["value"]) == (0, {"total": 42})
    assert KEY not in (tmp_path / "kept.jsonl").read_text()


def test_an_installation_without_the_extra_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['pydantic_ai'] = None; sys.modules['pydantic_ai.direct'] = None\n"
        "from aop.cli.main import main; sys.exit(main(['brain', 'test', '--model', 'ollama:qwen3']))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stderr.splitlines()) == (
        2,
        [
            "aop: This installation of AOP has no model support. [model_support_missing]",
            "  Install AOP with its extra `models`: `pip install 'aop[models]'`.",
        ],
    )

"""`aop models prices`: the table with its date, and a file of one's own over it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.world import run_aop

UNSET = {"AOP_MODEL_PRICES": ""}


def test_the_prices_have_a_date_and_those_of_a_file_come_first(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"anthropic:claude-sonnet-5": {"input": 0, "output": 0}}')
    ran = run_aop(tmp_path, "models", "prices", "--file", "own.json", "--json", env=UNSET)
    told = json.loads(ran.out)["data"]
    prices = {row["model"]: row for row in told["prices"]}
    assert (told["date"], told["file"]) == ("2026-11-17", "own.json")
    assert (prices["anthropic:claude-sonnet-5"]["input"], prices["anthropic:claude-sonnet-5"]["own"]) == (0, True)
    assert prices["openai:gpt-6.1-sol"]["own"] is False


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        pytest.param(None, (2, "input_path_not_found"), id="no such file"),
        pytest.param('{"a:b": {"input": "much"}}', (4, "invalid_configuration"), id="no prices"),
    ],
)
def test_a_file_without_prices_is_refused(tmp_path: Path, text: str | None, refused: tuple[int, str]) -> None:
    if text is not None:
        (tmp_path / "own.json").write_text(text)
    ran = run_aop(tmp_path, "models", "prices", "--file", "own.json", "--json", env=UNSET)
    assert (ran.code, json.loads(ran.out)["error"]["code"]) == refused

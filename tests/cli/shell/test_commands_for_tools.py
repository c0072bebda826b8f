"""A refusal at a terminal names commands; through MCP the same refusal names tools."""

from __future__ import annotations

import re

import pytest

from aop.cli.main import VERBS
from aop.cli.shell.commands import COMMANDS, with_commands
from aop.core.errors import Refusal, all_refusals
from aop.wiring.catalogue import CATALOGUE


@pytest.mark.parametrize("refusal", list(all_refusals()), ids=lambda refusal: refusal.code)
def test_no_hint_leaves_a_tool_for_a_person_to_type(refusal: type[Refusal]) -> None:
    quoted = re.findall("`([^`]+)`", with_commands(refusal.hint, {"feature_id": "one"}))
    assert [name for name in quoted if name in CATALOGUE] == []
    verbs = {words.split()[1] for words in quoted if words.startswith("aop ")}
    assert verbs - VERBS.keys() - {"COMMAND", "--help"} == set()


@pytest.mark.parametrize("tool", sorted(COMMANDS))
def test_a_tool_with_a_command_exists_and_so_does_the_command(tool: str) -> None:
    assert tool in CATALOGUE
    assert COMMANDS[tool].split()[1] in VERBS


def test_a_tool_without_a_command_is_reached_with_call() -> None:
    assert with_commands("Try `plan.submit`, `get_task` or `feature.undo`.", {"feature_id": "one"}) == (
        "Try `aop call plan.submit`, `aop call get_task` or `aop undo one`."
    )

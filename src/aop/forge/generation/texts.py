"""Texts of a generation: prompts, fences around a contract, values as YAML."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from aop.core.errors import Json
from aop.core.text.yaml import dump_yaml
from aop.forge.contracts.shapes.markdown import sections_of
from aop.forge.contracts.types import CONTRACT_TYPES, FORMATS, ContractType

_FENCED = re.compile(r"\A(?P<mark>`{3,}|~{3,})[\w+-]*[ \t]*\n(?P<body>.*)\n(?P=mark)[ \t]*\Z", re.DOTALL)
_FORMATS = {"markdown": "Markdown", "yaml": "YAML", "json": "JSON"}


def strip_code_fences(text: str) -> str:
    """Return a text without the one fence that is around all of it, and with one line end at its end."""
    bare = text.replace("\r\n", "\n").strip()
    fenced = _FENCED.match(bare)
    body = fenced["body"] if fenced and f"\n{fenced['mark']}\n" not in fenced["body"] else bare
    return body.strip("\n") + "\n" if body.strip() else ""


def instructions(*, tools: bool) -> str:
    """Return the instructions of a mission, with tools or without."""
    return (
        f"{prompt_text('contract_writer.md')}\n{prompt_text('with_tools.md' if tools else 'without_tools.md')}".strip()
    )


def task_of(contract_type: ContractType) -> str:
    """Return the task of a mission: the contract to write, and what it must hold."""
    place = CONTRACT_TYPES.index(contract_type) + 1
    form = _FORMATS[FORMATS[contract_type]]
    return f"Write contract {place} of {len(CONTRACT_TYPES)}: `{contract_type}`, as {form}.\n{_tasks()[contract_type]}"


def shown_value(value: Json) -> str:
    """Return a value as the model is shown it."""
    return dump_yaml(value) if value else "nothing is known\n"


@cache
def _tasks() -> dict[str, str]:
    found = sections_of(prompt_text("contract_tasks.md"))
    return {each.title: "\n".join(each.own).strip() for each in found if each.level == 2}


def prompt_text(name: str) -> str:
    """Return a prompt that comes with the program."""
    return (files("aop.forge") / "prompts" / name).read_text("utf-8")

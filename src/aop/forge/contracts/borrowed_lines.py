"""Borrowed lines: text of an example, or of AOP's own prompts, in a contract."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from aop.forge.contracts.examples import PROJECT_NAME, all_examples
from aop.forge.contracts.readers import refusal
from aop.forge.contracts.shapes.problems import Problems, quoted
from aop.forge.contracts.types import ContractType

SHORTEST_LINE = 30
FEWEST_WORDS = 5

_PROMPTS = ("forge/prompts", "forge/prompts/roles", "gated/prompts", "supervisor/prompts")
_OWN_NAMES = re.compile(r"\bagentic/orchestrator\b|\.aop/|\baop (?:forge|init|merge|run|serve|status)\b")
_EXAMPLE_NAME = re.compile(r"task[\s_-]?flow", re.IGNORECASE)
_MARKS = re.compile(r"[\s`*_#>|\"'-]+")
_WORD = re.compile(r"[A-Za-z]{2,}")


def refuse_borrowed_lines(contract_type: ContractType, text: str, own_words: str) -> None:
    """Refuse what was copied from an example or from AOP, unless the project's own words hold it.

    Raises: ContractRefused.
    """
    problems = Problems()
    answers = _plain(own_words)
    if _EXAMPLE_NAME.search(text) and not _EXAMPLE_NAME.search(own_words):
        problems.add(f"It names {PROJECT_NAME}, the project of the examples.")
    for number, line in enumerate(text.split("\n"), start=1):
        plain = _plain(line)
        if plain in _known_lines() and plain not in answers:
            problems.add(f"Line {number} is copied from an example or from a prompt: {quoted(line.strip())}")
        elif (own := _OWN_NAMES.search(line)) and own.group() not in own_words:
            problems.add(
                f"Line {number} names {quoted(own.group())}, which belongs to the tool that writes this contract."
            )
    if found := problems.listed():
        raise refusal(contract_type, found)


@cache
def _known_lines() -> frozenset[str]:
    texts = (*all_examples(), *_prompts())
    lines = (line for text in texts for line in text.split("\n") if not line.lstrip().startswith("|"))
    return frozenset(plain for line in lines if _is_sentence(plain := _plain(line)))


def _prompts() -> Iterator[str]:
    for folder in _PROMPTS:
        for each in (files("aop") / folder).iterdir():
            if each.name.endswith(".md"):
                yield each.read_text(encoding="utf-8")


def _is_sentence(plain: str) -> bool:
    """Tell whether a line is long enough to have an author: `id: uuid` is not."""
    return len(plain) >= SHORTEST_LINE and len(_WORD.findall(plain)) >= FEWEST_WORDS


def _plain(text: str) -> str:
    return _MARKS.sub(" ", text).strip().casefold()

"""Rubric: how good a contract is, on five scales from 0 to 100, all computed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from aop.core.errors import ContractRefused
from aop.forge.contracts.consistency import Contradiction
from aop.forge.contracts.examples import example_of
from aop.forge.contracts.readers import read_contract
from aop.forge.contracts.shapes.problems import Problems, find_placeholders
from aop.forge.contracts.types import FORMATS, BuildMode, ContractType

PER_PROBLEM = 20
PER_ERROR = 25
PER_WARNING = 10

_WORD = re.compile(r"[^\W\d_]{4,}")


class Quality(Struct, frozen=True, kw_only=True):
    """The scores of one contract (FORGE-149)."""

    completeness: int
    """What its reader demands: 20 less for each problem."""
    accuracy: int
    """Agreement with the anchor and the other contracts: 25 less for an error, 10 less for a warning."""
    depth: int
    """Its length against that of the example of its type, which is short."""
    no_placeholders: int
    """100, or 0 if something was left to be filled in."""
    plan_alignment: int
    """The share of what the answers or the plan ask of it, and it takes up."""


def quality_of(
    contract_type: ContractType,
    text: str,
    mode: BuildMode,
    contradictions: Sequence[Contradiction],
    aims: Sequence[str] = (),
) -> Quality:
    """Return the scores of a contract; `aims` are the answers, or the tasks of a plan, that it should take up."""
    try:
        read_contract(contract_type, text, mode)
        problems = 0
    except ContractRefused as refused:
        listed = refused.facts["problems"]
        problems = len(listed) if isinstance(listed, list) else 1
    placeholders = Problems()
    find_placeholders(text, placeholders, skip_code=FORMATS[contract_type] == "markdown")
    own = [each.severity for each in contradictions if contract_type in each.contracts]
    return Quality(
        completeness=max(0, 100 - PER_PROBLEM * problems),
        accuracy=max(0, 100 - PER_ERROR * own.count("error") - PER_WARNING * own.count("warning")),
        depth=min(100, 100 * len(text) // len(example_of(contract_type, mode))),
        no_placeholders=0 if placeholders.listed() else 100,
        plan_alignment=_alignment(text, aims),
    )


def qualities_of(
    contracts: Mapping[ContractType, str],
    mode: BuildMode,
    contradictions: Sequence[Contradiction],
    aims: Mapping[ContractType, Sequence[str]],
) -> Mapping[ContractType, Quality]:
    """Return the scores of each contract of a batch."""
    return {each: quality_of(each, text, mode, contradictions, aims.get(each, ())) for each, text in contracts.items()}


def _alignment(text: str, aims: Sequence[str]) -> int:
    words = {_stem(word) for word in _WORD.findall(text.casefold())}
    wanted = [{_stem(word) for word in _WORD.findall(aim.casefold())} for aim in aims]
    told = [aim for aim in wanted if aim]
    if not told:
        return 100
    return 100 * sum(2 * len(aim & words) >= len(aim) for aim in told) // len(told)


def _stem(word: str) -> str:
    """Return a word without the endings that a sentence adds to it."""
    return re.sub(r"(?:ings?|ed|ies|es|s|y)$", "", word)

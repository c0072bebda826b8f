"""Snowball: all earlier contracts in one prompt, for a model without tools."""

from __future__ import annotations

from collections.abc import Mapping

from aop.brains.prompts import Data
from aop.forge.contracts.types import CONTRACT_TYPES, BuildMode, ContractType

CONTRACT_CHARS = 12_000
TOTAL_CHARS: Mapping[BuildMode, int] = {"full": 24_000, "mini": 12_000}
CUT = "\n[cut]\n"


def prior_context(prior: Mapping[ContractType, str], mode: BuildMode) -> tuple[Data, ...]:
    """Return the earlier contracts as data: each cut to its share, and the oldest cut first (FORGE-018, 019)."""
    left, newest_first = TOTAL_CHARS[mode], []
    for each in reversed([each for each in CONTRACT_TYPES if each in prior]):
        text = _cut(prior[each], min(CONTRACT_CHARS, left))
        left -= len(text)
        if text:
            newest_first.append(Data(source=f"the {each} contract", text=text))
    return tuple(reversed(newest_first))


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: most - len(CUT)] + CUT if most > len(CUT) else ""

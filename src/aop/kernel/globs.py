"""The pattern language of areas and plans: what a pattern matches, and whether two patterns can match one path.

`*` is any run of characters inside a component, `?` is one character, and a component `**` is any number of components
(also none). Everything else stands for itself, and a leading dot is nothing special. Well-formed patterns only: see `flaw_in`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby

GAP = "**"
MAX_LENGTH = 512
MAX_WILDCARDS = 16

_CHARACTER = "[^/]"
_COMPONENT = "(?:[^/]+/)"


def is_glob(text: str) -> bool:
    """Tell whether the text has a character that does not stand for itself."""
    return "*" in text or "?" in text


def collapsed(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the components with each run of `**` made one."""
    return tuple(part for gap, run in groupby(parts, GAP.__eq__) for part in ([GAP] if gap else run))


def flaw_in(parts: Sequence[str]) -> str | None:
    """Return why these components are no pattern, or None."""
    text = "/".join(parts)
    if len(text) > MAX_LENGTH:
        return f"it is longer than {MAX_LENGTH} characters"
    if any(GAP in part and part != GAP for part in parts):
        return "`**` must be a whole component, as in `src/**/x`"
    if text.count("?") + text.count("*") - parts.count(GAP) > MAX_WILDCARDS:
        return f"it has more than {MAX_WILDCARDS} wildcards"
    return None


def matches(pattern: str, path: str) -> bool:
    """Tell whether the pattern matches the whole path, in time proportional to the product of their lengths at worst."""
    return _expression(pattern).fullmatch(path + "/") is not None


def meet(a: str, b: str) -> bool:
    """Tell whether there is a path that both patterns match."""
    return _meet(a.split("/"), b.split("/"), GAP, _names_meet)


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> re.Pattern[str]:
    """Compile a pattern to an expression over a path in which every component ends with `/`."""
    segments = (pattern + "/").split(GAP + "/")
    return re.compile(
        _gapped(["".join(_name_expression(name) + "/" for name in each.split("/")[:-1]) for each in segments], _COMPONENT)
    )


def _name_expression(name: str) -> str:
    chunks = name.split("*")
    return _gapped(["".join(_CHARACTER if c == "?" else re.escape(c) for c in chunk) for chunk in chunks], _CHARACTER)


def _gapped(chunks: Sequence[str], filler: str) -> str:
    """Join expressions by gaps of any number of `filler`.

    The leftmost place of a middle chunk is always good enough, so its group is atomic: no gap but the last one is ever
    tried again, and nothing grows exponentially.
    """
    first, *rest = chunks
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>{filler}*?{chunk})" for chunk in middle) + f"{filler}*{last}"


def _names_meet(a: str, b: str) -> bool:
    if not is_glob(a) and not is_glob(b):
        return a == b
    return _meet(a, b, "*", lambda c, d: c == d or "?" in (c, d))


def _meet(a: Sequence[str], b: Sequence[str], gap: str, alike: Callable[[str, str], bool]) -> bool:
    """Walk both patterns at once; every pair of positions is visited at most once."""
    seen, waiting = {(0, 0)}, [(0, 0)]
    while waiting:
        i, j = waiting.pop()
        if (i, j) == (len(a), len(b)):
            return True
        steps = [step for step in _steps(a[i : i + 1], b[j : j + 1], gap, alike) if (i + step[0], j + step[1]) not in seen]
        for di, dj in steps:
            seen.add((i + di, j + dj))
            waiting.append((i + di, j + dj))
    return False


def _steps(
    left: Sequence[str], right: Sequence[str], gap: str, alike: Callable[[str, str], bool]
) -> Sequence[tuple[int, int]]:
    """Return how far both patterns can move past what stands next in them; empty means that one has ended."""
    c, d = "".join(left), "".join(right)
    if gap in (c, d):
        return [step for step, ahead in (((1, 0), c), ((0, 1), d)) if ahead]
    return [(1, 1)] if c and d and alike(c, d) else []

"""Globs: the pattern language of areas and plans.

`*` is any run of characters inside a component, `?` is one character, and a component `**` is any number of components.
Everything else stands for itself, also a leading dot. The functions take patterns in which `flaw_in` found nothing.
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
_END = ""


def is_glob(text: str) -> bool:
    """Tell whether the text has a character that does not stand for itself."""
    return "*" in text or "?" in text


def collapse_gaps(parts: Sequence[str]) -> tuple[str, ...]:
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
    """Tell whether the pattern matches the whole path; at worst, the time is the product of their lengths."""
    return _expression(pattern).fullmatch(path + "/") is not None


def meet(a: str, b: str) -> bool:
    """Tell whether there is a path that both patterns match."""
    if not is_glob(a) and not is_glob(b):
        return a == b
    return _meet(a.split("/"), b.split("/"), GAP, _names_meet)


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> re.Pattern[str]:
    """Compile a pattern to an expression over a path in which every component ends with `/`."""
    segments = f"{pattern}/".split(f"{GAP}/")
    chunks = ["".join(f"{_name_expression(name)}/" for name in segment.split("/")[:-1]) for segment in segments]
    return re.compile(_gapped(chunks, _COMPONENT))


def _name_expression(name: str) -> str:
    chunks = ["".join(_CHARACTER if c == "?" else re.escape(c) for c in chunk) for chunk in name.split("*")]
    return _gapped(chunks, _CHARACTER)


def _gapped(chunks: Sequence[str], filler: str) -> str:
    """Join expressions by gaps of any number of `filler`."""
    # The leftmost place of a middle chunk is always good enough: its group is atomic, so nothing grows exponentially.
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
    """Walk both patterns at once, from start to end; every pair of positions is visited at most once."""
    left, right = [*a, _END], [*b, _END]
    seen: set[tuple[int, int]] = set()
    waiting = [(0, 0)]
    while waiting:
        i, j = at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        c, d = left[i], right[j]
        if gap in (c, d):
            waiting += [(i + 1, j)] * (c != _END) + [(i, j + 1)] * (d != _END)
        elif _END not in (c, d):
            waiting += [(i + 1, j + 1)] * alike(c, d)
        elif c == d:
            return True
    return False

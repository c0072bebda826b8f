"""Versions: whether one satisfies a constraint, by the rules of its ecosystem."""

from __future__ import annotations

import re
from typing import TypeAlias

from aop.forge.scan.file_facts import Ecosystem

Release: TypeAlias = tuple[int, ...]

_RELEASE = re.compile(r"^[v=\s]*(\d+(?:\.\d+){0,5})")
_CLAUSE = re.compile(r"(\^|~=|~>|~|===|==|!=|>=|<=|>|<|=)?\s*(v?[\d*xX][\w.*+-]*)")
_HYPHEN = re.compile(r"^\s*(v?\d[\w.+-]*)\s+-\s+(v?\d[\w.+-]*)\s*$")


def release_of(version: str) -> Release | None:
    """Return the numbers of a version; None if it does not begin with one."""
    match = _RELEASE.match(version)
    return tuple(int(part[:9]) for part in match.group(1).split(".")) if match else None


def lowest_of(constraint: str) -> str:
    """Return the first version that a constraint names; empty if it names none."""
    match = re.search(r"\d+(?:\.\d+)*", constraint)
    return match.group() if match else ""


def compare(a: Release, b: Release) -> int:
    """Return less than 0, 0 or more than 0 as a is older than, the same as or newer than b."""
    length = max(len(a), len(b))
    left, right = (each + (0,) * (length - len(each)) for each in (a, b))
    return (left > right) - (left < right)


def satisfies(ecosystem: Ecosystem, constraint: str, version: str) -> bool | None:
    """Tell whether a version satisfies a constraint; None where that is not known."""
    release = release_of(version)
    wanted = constraint.strip()
    if release is None:
        return None
    if wanted in ("", "*", "latest", "x"):
        return True
    if ecosystem == "go":
        return None if release_of(wanted) is None else compare(release, release_of(wanted) or ()) >= 0
    if ecosystem == "maven" or (ecosystem == "python" and "||" in wanted):
        return None
    verdicts = [_all_hold(ecosystem, each, release) for each in wanted.split("||")]
    return True if True in verdicts else None if None in verdicts else False


def _all_hold(ecosystem: Ecosystem, text: str, release: Release) -> bool | None:
    hyphen = _HYPHEN.match(text)
    if hyphen and ecosystem == "node":
        text = f">={hyphen.group(1)} <={hyphen.group(2)}"
    clauses = _CLAUSE.findall(text)
    # Something that is not a clause, such as a tag or an address, leaves the whole unknown.
    if not clauses or re.sub(r"[\s,]", "", _CLAUSE.sub("", text)):
        return None
    return all(_holds(ecosystem, sign, version, release) for sign, version in clauses)


def _holds(ecosystem: Ecosystem, sign: str, version: str, release: Release) -> bool:
    given = release_of(version) or ()
    is_open = len(given) < 3 and (not version or version[-1] in "*xX" or (ecosystem == "node" and sign in ("", "=")))
    order = compare(release, given)
    if sign in ("^", "~", "~=", "~>") or (not sign and ecosystem == "rust"):
        return order >= 0 and compare(release, _upper(ecosystem, sign or "^", given)) < 0
    if sign in ("", "=", "==", "==="):
        return release[: len(given)] == given if is_open else order == 0
    if sign == "!=":
        return release[: len(given)] != given if is_open else order != 0
    return {">=": order >= 0, "<=": order <= 0, ">": order > 0, "<": order < 0}[sign]


def _upper(ecosystem: Ecosystem, sign: str, given: Release) -> Release:
    """Return the first version that a caret or a tilde does not take."""
    if not given:
        return (10**9,)
    if sign == "^":
        place = next((n for n, part in enumerate(given) if part), len(given) - 1)
    elif sign == "~=" and ecosystem == "python":
        place = max(0, len(given) - 2)
    else:
        place = min(1, len(given) - 1)
    return (*given[:place], given[place] + 1)

"""Redaction stream: masks secrets in text that arrives in pieces, by a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from aop.core.redaction.redactor import SecretFinding

WINDOW = 1024 * 1024
MARGIN = 64 * 1024
"""How much of what follows is looked at before a line is let go: more than any secret has, but for absurd ones."""
MOST_HELD = 8

Find = Callable[[str], Sequence[SecretFinding]]


class SecretPlace(Struct, frozen=True, kw_only=True):
    """Where a secret begins, counted from 1, and which rule says so; never the secret itself."""

    rule: str
    line: int
    column: int


class MaskedPart(Struct, frozen=True, kw_only=True):
    """The next part of the text without its secrets, and where these were."""

    text: str
    places: tuple[SecretPlace, ...]


def mask_parts(
    pieces: Iterable[str], find: Find, *, window: int = WINDOW, margin: int = MARGIN
) -> Iterator[MaskedPart]:
    """Return the text in parts that end, where lines are not longer than the window, with a line."""
    held, line, column = "", 1, 1
    for piece in pieces:
        held += piece
        if len(held) < window:
            continue
        findings = find(held)
        cut = _cut(held, findings, margin) if len(held) < MOST_HELD * window else len(held)
        if cut:
            yield _masked(held[:cut], findings, line, column)
            line, column = _after(held[:cut], line, column)
            held = held[cut:]
    if held:
        yield _masked(held, find(held), line, column)


def _cut(text: str, findings: Sequence[SecretFinding], margin: int) -> int:
    """Return up to where the text can be let go: nothing that follows can change what is found there."""
    limit = max(0, len(text) - margin)
    cut = text.rfind("\n", 0, limit) + 1
    for finding in reversed(findings):
        if finding.start < cut < finding.end:
            # The rules look at what stands before a secret, so its whole first line is kept.
            cut = text.rfind("\n", 0, finding.start) + 1
    if cut or not findings:
        return cut or limit
    last = findings[-1].end
    return 0 if last == len(text) else max(limit, last)


def _masked(text: str, findings: Sequence[SecretFinding], line: int, column: int) -> MaskedPart:
    pieces: list[str] = []
    places: list[SecretPlace] = []
    shown = 0
    for finding in findings:
        if finding.start >= len(text):
            break
        before = text[shown : finding.start]
        line, column = _after(before, line, column)
        places.append(SecretPlace(rule=finding.rule, line=line, column=column))
        line, column = _after(text[finding.start : finding.end], line, column)
        pieces += (before, f"[redacted:{finding.rule}]")
        shown = finding.end
    return MaskedPart(text="".join((*pieces, text[shown:])), places=tuple(places))


def _after(text: str, line: int, column: int) -> tuple[int, int]:
    """Return where a text ends that begins at a line and a column."""
    breaks = text.count("\n")
    return (line + breaks, len(text) - text.rfind("\n")) if breaks else (line, column + len(text))

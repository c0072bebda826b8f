"""Visible text: characters that hide, steer or imitate are shown as escapes.

An escape reads `\\u{202e}`. It stands for characters without a glyph (bidirectional controls, zero-width
ones, terminal sequences, odd spaces), and for letters that imitate Latin ones beside real Latin ones.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from msgspec import Struct

_WITHOUT_GLYPH = frozenset(["Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"])
# Letters, marks and symbols that draw nothing all the same: joiners, fillers, variation selectors, the empty braille.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0))
)
_PLAIN = frozenset(" \t")

# Letters that most fonts draw like a Latin one: Cyrillic, Greek, Armenian, Cherokee, phonetic; then whole blocks of
# Latin letters in another dress: Roman numerals, full width, mathematical.
_LOOKALIKE = frozenset(
    chr(int(code, 16))
    for code in """
    0405 0406 0408 0410 0412 0415 041a 041c 041d 041e 0420 0421 0422 0423 0425 0430 0435 043e 0440 0441 0443 0445 0455
    0456 0458 0474 0475 04ae 04af 04ba 04bb 04c0 04cf 0501 050c 050d 051a 051b 051c 051d
    037f 0391 0392 0395 0396 0397 0399 039a 039c 039d 039f 03a1 03a4 03a5 03a7 03bd 03bf 03f2 03f3 03f9
    054d 054f 0555 0570 0578 057d 0581 0585 0566
    13a0 13a1 13a2 13a5 13a9 13aa 13ab 13b3 13b7 13bb 13c0 13c2 13c3 13cf 13d9 13da 13de 13df 13e2 13e6 13f4
    0251 0261 0269
    """.split()
).union(map(chr, (*range(0x2160, 0x2180), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B), *range(0x1D400, 0x1D6A4))))

_WORD = re.compile(r"\w+")
_LATIN = re.compile("[A-Za-z]")
_PLAIN_NAME = re.compile(r"[\w./+@=~^%-]+", re.ASCII)


class Piece(Struct, frozen=True):
    """A part of a text: as it is, or an escape."""

    text: str
    escaped: bool


def pieces(line: str) -> Iterator[Piece]:
    """Cut one line into what can be shown as it is and what cannot."""
    if line.isascii() and line.replace("\t", " ").isprintable():
        yield Piece(line, escaped=False)
        return
    imitating = {match.start() + at for match in _WORD.finditer(line) for at in _imitators(match.group())}
    start = 0
    for at, character in enumerate(line):
        if at in imitating or _is_unseen(character):
            if start < at:
                yield Piece(line[start:at], escaped=False)
            yield Piece(escape(character), escaped=True)
            start = at + 1
    if start < len(line):
        yield Piece(line[start:], escaped=False)


def visible(line: str) -> str:
    """Return one line with escapes in place of what cannot be seen for what it is."""
    return "".join(piece.text for piece in pieces(line))


def visible_lines(text: str) -> str:
    """Return a text of several lines with such escapes."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    """Return JSON that means the same, with JSON's own escapes in place of characters that cannot be seen."""
    if text.isascii():
        return text
    return "".join(_json_escape(each) if each != "\n" and _is_unseen(each) else each for each in text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def visible_name(path: str) -> str:
    """Return a path that cannot be mistaken for another one or for a sentence: in quotes unless it is plain."""
    if _PLAIN_NAME.fullmatch(path):
        return path
    shown = "".join(
        escape(character) if character in _LOOKALIKE or _is_unseen(character) else character
        for character in path.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{shown}"'


def escapes_in(line: str) -> tuple[str, ...]:
    """Return the escapes that a line is shown with."""
    return tuple(piece.text for piece in pieces(line) if piece.escaped)


def deception_in(lines: Iterable[tuple[int | None, str]]) -> str:
    """Return how many such characters numbered lines have, where, and how they are shown; empty if there are none."""
    # A carriage return at the end of a line is shown, and is not deceptive.
    found = [(number, escapes) for number, line in lines if (escapes := escapes_in(line.rstrip("\r")))]
    if not found:
        return ""
    times = sum(len(escapes) for _, escapes in found)
    kinds = ", ".join(sorted({escape for _, escapes in found for escape in escapes})[:5])
    first = found[0][0]
    where = f" (the first in line {first})" if first else ""
    return f"characters that are invisible or imitate others: {times}{where}, shown as {kinds}"


def is_deceptive(path: str) -> bool:
    """Tell whether a path holds what cannot be seen for what it is."""
    return any(character in _LOOKALIKE or _is_unseen(character) for character in path)


def _imitators(word: str) -> list[int]:
    if word.isascii() or not _LATIN.search(word):
        return []
    return [at for at, character in enumerate(word) if character in _LOOKALIKE]


def _is_unseen(character: str) -> bool:
    if character in _PLAIN:
        return False
    return unicodedata.category(character) in _WITHOUT_GLYPH or character in _BLANK


def escape(character: str) -> str:
    """Return the escape of one character."""
    return f"\\u{{{ord(character):x}}}"

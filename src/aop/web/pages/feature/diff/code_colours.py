"""Code colours: comments, strings, numbers and keywords in lines of source code.

They are a help for the eye and no more: a hunk is read without the file around it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import TypeAlias

from msgspec import Struct

LONGEST_LINE = 2000
"""A longer line has no colours."""

Span: TypeAlias = tuple[int, int, str]
"""Begin, end and colour of a part of a line: `c` comment, `s` string, `d` number, `k` keyword."""

_QUOTED = r'"(?:[^"\\\n]|\\.)*"?|\'(?:[^\'\\\n]|\\.)*\'?'
_TRIPLE = r'"""(?:.*?)(?:"""|\Z)|\'\'\'(?:.*?)(?:\'\'\'|\Z)'
_BLOCK = r"/\*.*?(?:\*/|\Z)"


class _Language(Struct, frozen=True, kw_only=True):
    comments: str
    keywords: frozenset[str]
    strings: str = _QUOTED
    docstrings: bool = False
    any_case: bool = False
    """Whether its keywords are written in capitals as well."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C_WORDS = """
abstract as async await bool boolean break case catch char class const continue debugger default defer delete do double
else enum explicit export extends extern false final finally float fn for foreach from func function go goto if impl
implements import in instanceof int interface internal is let long loop match mod module mut namespace new nil none
null nullptr operator out override package private protected pub public readonly ref return select self sealed short
signed sizeof static string struct super switch template this throw throws trait true try type typedef typeof undefined
union unsafe unsigned use using val var virtual void volatile where while with yield
"""
_PYTHON = _Language(
    comments="#[^\n]*",
    strings=f"{_TRIPLE}|{_QUOTED}",
    docstrings=True,
    keywords=_words(
        "False None True and as assert async await break case class continue def del elif else except finally for from"
        " global if import in is lambda match nonlocal not or pass raise return self try while with yield"
    ),
)
_C = _Language(comments=f"//[^\n]*|{_BLOCK}", strings=f"{_QUOTED}|`[^`]*`?", keywords=_words(_C_WORDS))
_HASH = _Language(
    comments=r"(?<!\S)#[^\n]*",
    keywords=_words(
        "begin case def do done elif else end ensure esac export false fi for function if in local module no nil null"
        " require rescue return self set then true unless until when while yes"
    ),
)
_STYLE = _Language(comments=_BLOCK, keywords=_words("@import @media @supports !important"))
_DASH = _Language(
    comments=f"--[^\n]*|{_BLOCK}",
    any_case=True,
    keywords=_words(
        "add all alter and as begin by case check column commit constraint create default delete desc distinct do drop"
        " else elseif end exists false for foreign from function group having if in index inner insert into is join key"
        " left like limit local nil not null on or order outer primary references repeat return rollback select set"
        " table then transaction true union unique until update values view when where while with"
    ),
)
_MARKUP = _Language(comments=r"<!--.*?(?:-->|\Z)", keywords=frozenset())

_BY_SUFFIX: Mapping[str, _Language] = {
    **dict.fromkeys(("py", "pyi"), _PYTHON),
    **dict.fromkeys(
        "c cc cpp cs cxx dart go gradle groovy h hpp java js json jsonc jsx kt kts m mjs cjs mm php proto rs scala scss"
        " swift ts tsx zig".split(),
        _C,
    ),
    **dict.fromkeys("bash cfg conf ex exs ini mk pl r rb sh tf toml yaml yml zsh".split(), _HASH),
    **dict.fromkeys(("css",), _STYLE),
    **dict.fromkeys(("elm", "hs", "lua", "sql"), _DASH),
    **dict.fromkeys(("htm", "html", "svelte", "svg", "vue", "xml"), _MARKUP),
}
_BY_NAME: Mapping[str, _Language] = {"Makefile": _HASH, "Dockerfile": _HASH, "Containerfile": _HASH, "Gemfile": _HASH}


def line_colours(path: str, lines: Sequence[str]) -> list[tuple[Span, ...]]:
    """Return the coloured parts of each line of one side of a hunk."""
    found: list[list[Span]] = [[] for _ in lines]
    language = _language(path)
    if language is not None:
        text = "\n".join(line if len(line) <= LONGEST_LINE else "" for line in lines)
        starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        for begin, end, colour in _spans(language, text):
            for number in range(bisect_right(starts, begin) - 1, bisect_right(starts, max(begin, end - 1))):
                first = starts[number]
                part = (max(begin - first, 0), min(end - first, starts[number + 1] - first - 1), colour)
                if part[0] < part[1]:
                    found[number].append(part)
    return [tuple(spans) for spans in found]


def _language(path: str) -> _Language | None:
    name = path.rpartition("/")[2]
    return _BY_NAME.get(name) or _BY_SUFFIX.get(name.rpartition(".")[2].lower() if "." in name else "")


def _spans(language: _Language, text: str) -> Iterator[Span]:
    begin = _end_of_docstring(text) if language.docstrings else 0
    if begin:
        yield 0, begin, "s"
    for match in _pattern(language).finditer(text, begin):
        colour = match.lastgroup or ""
        if colour != "w":
            yield match.start(), match.end(), colour
        elif (match.group().lower() if language.any_case else match.group()) in language.keywords:
            yield match.start(), match.end(), "k"


def _end_of_docstring(text: str) -> int:
    """Return the end of the docstring within which a hunk seems to begin; 0 if it begins in code."""
    end = text.find('"""')
    if end < 0 or text.count('"""') % 2 == 0:
        return 0
    line = text[text.rfind("\n", 0, end) + 1 : end].strip()
    is_closed_here = text[end + 3 :].partition("\n")[0].strip() == ""
    return end + 3 if is_closed_here and not line.endswith(("=", "(", ",", "[", ":")) else 0


@cache
def _pattern(language: _Language) -> re.Pattern[str]:
    parts = {"c": language.comments, "s": language.strings, "d": r"\b\d[\w.]*", "w": r"[@!]?[A-Za-z_]\w*"}
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in parts.items()), re.DOTALL)

"""Redactor: takes secrets out of text before it is stored, shown or sent.

A secret that is cut in two by a line break, or by a `+` between literals, is not found; a whole private key is, and
so is a secret with invisible characters in it.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import log2
from typing import Protocol

from msgspec import Struct

from aop.core.errors import Json
from aop.core.redaction.rules import MASKING_RULES, PUBLISHED_EXAMPLES, RULES, Rule

KNOWN_VALUE = "known-value"
SHORTEST_KNOWN_VALUE = 6

# Soft hyphen, joiners, directions, zero-width spaces, variation selectors, tags: they can stand inside a secret unseen.
_ZERO_WIDTH = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef]"
)
_RULES = (*RULES, *MASKING_RULES)
_NAMES = (KNOWN_VALUE, *(rule.name for rule in _RULES))
_MARKERS = frozenset(f"[redacted:{name}]" for name in _NAMES)


class SecretFinding(Struct, frozen=True, kw_only=True):
    """Where a secret stands, and which rule says so; never the secret itself."""

    rule: str
    start: int
    end: int


class Redactor:
    """Masks the secrets in text: known values, and text that looks like a secret."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._values = frozenset(known)
        self._known = _KnownValues(self._values)

    def learn(self, values: Iterable[str]) -> None:
        """Mask these values too, from now on."""
        values = self._values.union(values)
        if values != self._values:
            self._values, self._known = values, _KnownValues(values)

    def __call__(self, text: str) -> str:
        """Return the text with a marker in place of each secret."""
        return _mask(text, self._hits(text))

    def find(self, text: str) -> tuple[SecretFinding, ...]:
        """Return all that would be masked, in order, without overlaps."""
        return tuple(hit.finding for hit in self._hits(text))

    def secrets_in(self, text: str) -> tuple[SecretFinding, ...]:
        """Return what is a secret beyond reasonable doubt: enough to refuse a patch or a comment that has it."""
        return tuple(hit.finding for hit in self._hits(text, last_rank=len(RULES)))

    def mask_secrets(self, text: str) -> str:
        """Return the text without what is a secret beyond reasonable doubt: source code stays readable as code."""
        return _mask(text, self._hits(text, last_rank=len(RULES)))

    def _hits(self, text: str, *, last_rank: int = len(_NAMES)) -> Sequence[_Hit]:
        hits = [*self._known.hits(text), *_rule_hits(text, last_rank=last_rank)]
        if not text.isascii() and _ZERO_WIDTH.search(text):
            hits += self._hits_in_seen_text(text, last_rank)
        return _merge(hits)

    def _hits_in_seen_text(self, text: str, last_rank: int) -> Iterator[_Hit]:
        """Yield what is found when the characters that nobody sees are left out, at its place in the whole text."""
        places = [at for at, character in enumerate(text) if not _ZERO_WIDTH.match(character)]
        seen = "".join(map(text.__getitem__, places))
        for hit in (*self._known.hits(seen), *_rule_hits(seen, last_rank=last_rank)):
            yield _Hit(places[hit.start], places[hit.end - 1] + 1, hit.rank)


def mask_json(value: Json, redact: Callable[[str], str]) -> Json:
    """Return a value with every text and every name in it redacted."""
    match value:
        case str():
            return redact(value)
        case int() | float() | None:
            return value
        case Mapping():
            return {redact(name): mask_json(part, redact) for name, part in value.items()}
        case list() | tuple():
            return [mask_json(part, redact) for part in value]
        case _:
            return value


class _Hit(Struct, frozen=True):
    """A finding, with what is needed to weigh it against others."""

    start: int
    end: int
    rank: int
    """Position of its rule in `_NAMES`; where hits overlap, the lower one names them."""

    @property
    def finding(self) -> SecretFinding:
        return SecretFinding(rule=_NAMES[self.rank], start=self.start, end=self.end)


def _mask(text: str, hits: Sequence[_Hit]) -> str:
    if not hits:
        return text
    pieces: list[str] = []
    shown = 0
    for hit in hits:
        pieces += (text[shown : hit.start], f"[redacted:{_NAMES[hit.rank]}]")
        shown = hit.end
    return "".join((*pieces, text[shown:]))


def _merge(hits: list[_Hit]) -> Sequence[_Hit]:
    merged: list[_Hit] = []
    for hit in sorted(hits, key=lambda hit: hit.start):
        if merged and hit.start < merged[-1].end:
            last = merged.pop()
            merged.append(_Hit(last.start, max(last.end, hit.end), min(last.rank, hit.rank)))
        else:
            merged.append(hit)
    return merged


class _KnownValues:
    """Finds given values as they are, and as URLs, JSON, hex and base64 spell them."""

    _GATE_LENGTH = 24

    def __init__(self, values: Iterable[str]) -> None:
        secrets = {part for value in values for part in _parts(value) if len(part) >= SHORTEST_KNOWN_VALUE}
        self._spellings = tuple(sorted({spelling for secret in secrets for spelling in _spellings(secret)}))
        self._gate: _LiteralSet | None = None

    def hits(self, text: str) -> Iterator[_Hit]:
        if not self._spellings:
            return
        if self._gate is None:
            # The beginning of a spelling is enough to rule nearly every line out, and keeps the automaton small.
            self._gate = _literal_set([s[: self._GATE_LENGTH] for s in self._spellings], case_sensitive=True)
        for index in self._gate.Match(_as_ascii(text)) or ():
            spelling = self._spellings[index]
            start = text.find(spelling)
            while start != -1:
                yield _Hit(start, start + len(spelling), 0)
                start = text.find(spelling, start + 1)


def _parts(value: str) -> Iterator[str]:
    """Yield a value without the space around it and, as logs show them one by one, its longer lines."""
    yield value.strip()
    lines = value.strip().splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= 16 and not line.startswith("-----"))


def _spellings(value: str) -> Iterator[str]:
    # Costs 2 ms at import, and is needed only where a value is known.
    import json

    raw = value.encode("utf-8", "surrogatepass")
    yield value
    yield repr(value)[1:-1]
    yield from (raw.hex(), raw.hex().upper())
    for escaped in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield from (escaped, escaped.replace("/", "\\/"))
    for safe in (b"", b"/", b"!*'()"):
        for digits in ("%{:02X}", "%{:02x}"):
            quoted = "".join(chr(byte) if byte in _UNRESERVED + safe else digits.format(byte) for byte in raw)
            yield from (quoted, quoted.replace("%20", "+"))
    for shift in range(3):
        yield from _base64_inside(raw, shift)


_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"


def _base64_inside(raw: bytes, shift: int) -> tuple[str, str]:
    """Spell a value that begins `shift` bytes into a group of three, without the characters that it shares."""
    encoded = b2a_base64(bytes(shift) + raw, newline=False).decode()
    whole = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
    return whole, whole.replace("+", "-").replace("/", "_")


class _Match(Protocol):
    def span(self, group: int) -> tuple[int, int]: ...


class _Pattern(Protocol):
    def finditer(self, text: bytes) -> Iterator[_Match]: ...


class _LiteralSet(Protocol):
    def Match(self, text: bytes) -> list[int] | None: ...  # noqa: N802 - the name that google-re2 gives it


# Loading RE2 costs 10 ms: only a process that redacts pays for it, and only for the rules whose keywords it meets.


@cache
def _keywords() -> tuple[_LiteralSet, tuple[int, ...]]:
    """Return the keywords of all rules, and for each of them the rank of its rule."""
    ranked = [(keyword, rank) for rank, rule in enumerate(_RULES, start=1) for keyword in rule.keywords]
    return _literal_set([keyword for keyword, _ in ranked], case_sensitive=False), tuple(rank for _, rank in ranked)


@cache
def _pattern(rule: Rule) -> _Pattern:
    """Return a rule's pattern, with the secret as its one group."""
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False  # where it runs short of memory it says so on stderr, and goes on more slowly
    compiled = re2.compile(rule.pattern, options)
    found: _Pattern = compiled if compiled.groups else re2.compile(f"{_WORD_BEGINS}({rule.pattern})", options)
    return found


_WORD_BEGINS = r"(?:\b|\\[nrtbf]|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]*m)"
"""Also after an escaped line break, in a URL, and in the colours of a terminal."""


def _literal_set(words: Sequence[str], *, case_sensitive: bool) -> _LiteralSet:
    import re2

    options = re2.Options()
    options.case_sensitive = case_sensitive
    words_set = re2.Set.SearchSet(options)
    for word in words:
        words_set.Add(re2.escape(_as_ascii(word)))
    words_set.Compile()
    found: _LiteralSet = words_set
    return found


def _as_ascii(text: str) -> bytes:
    # One byte for each character, so that positions agree; the rules speak of ASCII only.
    return text.encode("ascii", "replace")


def _rule_hits(text: str, *, last_rank: int) -> Iterator[_Hit]:
    keywords, rank_of = _keywords()
    ascii_text = _as_ascii(text)
    for rank in sorted({rank_of[index] for index in keywords.Match(ascii_text) or ()}):
        if rank > last_rank:
            return
        rule = _RULES[rank - 1]
        for match in _pattern(rule).finditer(ascii_text):
            start, end = match.span(1)
            value = text[start:end]
            if _is_placeholder(value) if rank <= len(RULES) else _is_harmless(value, rule):
                continue
            yield _Hit(start, end, rank)


def _is_placeholder(value: str) -> bool:
    """Tell whether a value only has the shape of a secret: a row of `x`, or what its maker prints as an example."""
    return len(set(value)) < 10 or value in PUBLISHED_EXAMPLES


def _is_harmless(value: str, rule: Rule) -> bool:
    """Tell whether a value says where the secret comes from, or is one of our own markers, or just a word."""
    if value in _MARKERS or value.startswith(("${", "$(", "{{", "%(", "***")):
        return True
    if value[0] + value[-1] in ("{}", "<>") or (value[0] == "$" and value[1:].isidentifier()):
        return True
    return rule.unquoted and (value.translate(_NO_PUNCTUATION).isalpha() or _entropy(value) < 2.5)


_NO_PUNCTUATION = str.maketrans("", "", "._:")


def _entropy(value: str) -> float:
    """Return the bits a character of a text."""
    return -sum(n / len(value) * log2(n / len(value)) for n in Counter(value).values())

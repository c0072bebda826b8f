"""Fingerprints of errors: a line number does not make another error (FORGE-175)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aop.core.digests import sha256_hex
from aop.core.errors import Refusal
from aop.core.paths.names import canonical_path

LENGTH = 16
SHORTEST_LINE = 12
"""A shorter line, such as `FAILED`, does not tell one error from another."""

_SAME = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    (re.compile(r"\b0x[0-9a-f]+", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(lines?|columns?|col)\s?\d+\b", re.IGNORECASE), r"\1 <line>"),
    (re.compile(r":\d+(?::\d+)?\b"), ":<line>"),
    (re.compile(r"\(\d+(?:,\s?\d+)?\)"), "(<line>)"),
)
"""The parts of a message that differ from one time to the next, and the word that stands for each."""

# The lengths are bounded, so that a long text is read once.
_FILES = re.compile(
    r"File \"([^\"\n]{1,400})\"|(?<![\w./-])((?:[\w.-]{1,80}/){0,12}[\w-]{1,80}\.[A-Za-z]{1,6})(?![\w/])"
)
_TELLING = re.compile(r"error|exception|fail|refused|cannot|undefined", re.IGNORECASE)


def normalised(message: str) -> str:
    """Return a message without line numbers, addresses and ids, with single spaces."""
    for part, word in _SAME:
        message = part.sub(word, message)
    return " ".join(message.split())


def fingerprint_of(source: str, severity: str, message: str) -> str:
    """Return the name that all occurrences of an error share."""
    return sha256_hex(f"{source}:{severity}:{normalised(message)}".encode())[:LENGTH]


def file_in(message: str) -> str:
    """Return the first file of the project that a message names; empty if it names none (FORGE-178)."""
    for quoted, plain in _FILES.findall(message):
        try:
            return str(canonical_path(quoted or plain))
        except Refusal:
            # A file of the system, or no path at all.
            continue
    return ""


def signs_of(message: str) -> frozenset[str]:
    """Return the normalised lines by which an error is known again in a log: those that tell of a failure, or all."""
    lines = frozenset(line for line in map(normalised, message.splitlines()) if len(line) >= SHORTEST_LINE)
    return frozenset(filter(_TELLING.search, lines)) or lines or frozenset({normalised(message)})


def lines_of(log: str) -> Iterator[str]:
    """Return the lines of a log as `signs_of` writes them."""
    return map(normalised, log.splitlines())

"""Path names: which are allowed, which area covers them, and which overlap."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import NewType

from msgspec import Struct

from aop.core.errors import PathOutOfBounds
from aop.core.paths import globs

RepoPath = NewType("RepoPath", str)
"""A path from the root of the repository, with `/` between plain names."""

MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255
MAX_DEPTH = 64

# Controls, formats (bidi, zero width), halves of pairs, private use (shown as `:` or `.` by some systems), line ends.
_UNSAFE_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])
# What Unicode has beyond those categories to draw nothing at all: joiners, fillers, variation selectors.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0))
)
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{device}{number}" for device in ("com", "lpt") for number in range(10)]
)
# NTFS answers to `git~1` for `.git`, and to `secret~1.yam` for `secrets.yaml`.
_SHORT_NAME = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(\.[^.]{0,3})?")
_NOT_IN_GLOBS = frozenset("[]{}!")
_ONE_CHARACTER = re.compile(r"[*?]*\?[*?]*")


class Matching(StrEnum):
    """How areas are written (`path_rules.matching`)."""

    REPO_PREFIX = "repo_prefix"
    GLOB = "glob"


class BadPattern(ValueError):
    """A text that is not a valid area or entry of a plan."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"`{printable_text(text)}` is not a usable pattern: {reason}.")
        self.reason = reason


class Area(Struct, frozen=True):
    """A part of the repository; a text without wildcards means what has this name and all that lies below it."""

    text: str

    def covers(self, path: str, *, fold: bool = False) -> bool:
        """Tell whether the path lies in the area; `fold` takes names that differ only in case for one."""
        return _covers(self.text, path, fold)

    @property
    def pattern(self) -> str:
        """Return the glob of every path in the area."""
        return self.text if globs.is_glob(self.text) else f"{self.text}/{globs.GAP}"


class PlannedPath(Struct, frozen=True):
    """An entry of a plan's `files`: a file, a directory (with a `/` at its end), or a glob."""

    text: str

    def covers(self, path: str) -> bool:
        """Tell whether the entry names this very file."""
        if self.is_glob:
            return globs.matches(self.text, path)
        return path.startswith(self.text) if self.text.endswith("/") else path == self.text

    @property
    def is_glob(self) -> bool:
        """Tell whether the entry has wildcards."""
        return globs.is_glob(self.text)

    @property
    def is_pattern(self) -> bool:
        """Tell whether the entry can mean more than one file."""
        return self.is_glob or self.text.endswith("/")

    @property
    def stem(self) -> str:
        """Return the plain path that all files of the entry are at or below; empty is the root."""
        return "/".join(takewhile(lambda part: part and not globs.is_glob(part), self.text.split("/")))

    @property
    def fold(self) -> str:
        """Return the key under which two spellings of the entry are one."""
        return fold_path(self.text)

    @property
    def pattern(self) -> str:
        """Return the glob of every path of the entry, and of the directory itself."""
        return self.text + globs.GAP if self.text.endswith("/") else self.text


def canonical_path(text: str) -> RepoPath:
    """Return the plain form of a path: without `.`, doubled `/`, or a `/` at the end. Raises: PathOutOfBounds."""
    parts = _parts(text)
    flaw = _text_flaw(text) or _path_flaw(parts)
    if flaw:
        raise _out_of_bounds(text, flaw)
    return RepoPath("/".join(parts))


def exact_path(text: str) -> RepoPath:
    """Return a path that is already in its plain form and not a glob. Raises: PathOutOfBounds."""
    path = canonical_path(text)
    if path != text:
        raise _out_of_bounds(text, f"its plain form is `{path}`")
    if globs.is_glob(text):
        raise _out_of_bounds(text, "`*` and `?` are for patterns, not for the name of a file")
    return path


def fold_path(path: str) -> str:
    """Return the key under which names that one file system may take for the same are equal."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


@lru_cache(maxsize=1024)
def parse_area(text: str, matching: Matching) -> Area:
    """Return the area that a policy or a plan writes down. Raises: BadPattern."""
    parts = _prefix(globs.collapse_gaps(_parts(text)))
    flaw = _text_flaw(text) or _area_flaw(text, parts) or _matching_flaw("/".join(parts), matching)
    if flaw:
        raise BadPattern(text, flaw)
    return Area("/".join(parts))


def parse_planned(text: str) -> PlannedPath:
    """Return an entry of a plan's `files`. Raises: PathOutOfBounds, or BadPattern for a malformed glob."""
    path = canonical_path(text)
    if "{" in path or "}" in path:
        raise BadPattern(text, "braces are not expanded; list the paths one by one (`?` stands for a brace in a name)")
    if not globs.is_glob(path):
        return PlannedPath(f"{path}/" if text.endswith("/") else path)
    parts = globs.collapse_gaps([*path.split("/"), *([globs.GAP] if text.endswith("/") else [])])
    flaw = globs.flaw_in(parts)
    if flaw:
        raise BadPattern(text, flaw)
    return PlannedPath("/".join(parts))


def overlap(a: Area | PlannedPath, b: PlannedPath) -> bool:
    """Tell whether both can mean one file, or one of them a file where the other needs a directory."""
    x, y = _fold_pair(a.pattern, b.pattern)
    return globs.meet(x, y) or _stands_in_the_way(x, y) or _stands_in_the_way(y, x)


@lru_cache(maxsize=4096)
def _covers(area: str, path: str, fold: bool) -> bool:  # noqa: FBT001 - a keyword makes the cache slower than the work
    if fold:
        area, path = _fold_pair(area, path)
    return globs.matches(area, path) if globs.is_glob(area) else f"{path}/".startswith(f"{area}/")


def _stands_in_the_way(name: str, pattern: str) -> bool:
    """Tell whether a plain name is a directory to everything that the pattern matches."""
    return pattern.startswith(f"{name}/") and not globs.is_glob(name)


@lru_cache(maxsize=4096)
def _fold_pair(a: str, b: str) -> tuple[str, str]:
    """Fold two patterns; `?` grows to `*` where folding makes one character several, as in `ß`."""
    x, y = fold_path(a), fold_path(b)
    if len(x) == len(a) and len(y) == len(b):
        return x, y
    return _ONE_CHARACTER.sub("*", x), _ONE_CHARACTER.sub("*", y)


def _parts(text: str) -> list[str]:
    return [part for part in text.split("/") if part not in ("", ".")]


def _text_flaw(text: str) -> str | None:
    """Return what is wrong with the text of a path or an area."""
    if not text:
        return "it is empty"
    if len(text) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_PATH_BYTES} bytes"
    if text.startswith("/"):
        return "it is absolute"
    if "\\" in text:
        return "it has a backslash; `/` separates names"
    return None if text.isascii() and text.isprintable() else _code_point_flaw(text)


def _code_point_flaw(text: str) -> str | None:
    for character in text:
        if unicodedata.category(character) in _UNSAFE_CATEGORIES or character in _INVISIBLE:
            return f"the code point U+{ord(character):04X} in it is not visible text"
    if not unicodedata.is_normalized("NFC", text):
        return "it is not in Unicode's normal form C"
    return f"it is longer than {MAX_PATH_BYTES} bytes" if len(text.encode()) > MAX_PATH_BYTES else None


def _path_flaw(parts: Sequence[str]) -> str | None:
    if not parts:
        return "it names the root, not a file"
    if len(parts) > MAX_DEPTH:
        return f"it is more than {MAX_DEPTH} names deep"
    return next(filter(None, (_meaning_flaw(part) or _spelling_flaw(part) for part in parts)), None)


def _prefix(parts: Sequence[str]) -> Sequence[str]:
    """Drop the `**` at the end where the plain prefix means the same; no parts at all mean everything."""
    if len(parts) > 1 and parts[-1] == globs.GAP and not globs.is_glob("".join(parts[:-1])):
        return parts[:-1]
    return parts or (globs.GAP,)


def _area_flaw(text: str, parts: Sequence[str]) -> str | None:
    if text != text.strip():
        return "it begins or ends with a space"
    return globs.flaw_in(parts) or next(filter(None, map(_spelling_flaw, parts)), None)


def _matching_flaw(area: str, matching: Matching) -> str | None:
    if matching is Matching.REPO_PREFIX and globs.is_glob(area) and area != globs.GAP:
        return "`*` and `?` need `path_rules.matching: glob`; here an area is a plain prefix"
    if matching is Matching.GLOB and not _NOT_IN_GLOBS.isdisjoint(area):
        return "`[`, `]`, `{`, `}` and `!` mean nothing in these globs; `?` stands for any one character"
    return None


def _spelling_flaw(name: str) -> str | None:
    """Return why no file can have this name."""
    if name == "..":
        return "`..` leads out of a directory"
    if ":" in name:
        return "`:` in a name means a drive or a stream to Windows"
    if name.endswith((".", " ")):
        return "Windows drops a dot or a space at the end of a name"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"a name in it is longer than {MAX_NAME_BYTES} bytes"
    return None


def _meaning_flaw(name: str) -> str | None:
    """Return why a file must not have this name."""
    plain = name.lower() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()
    if plain.partition(":")[0].rstrip(". ") == ".git":
        return "`.git` belongs to git"
    if plain.partition(".")[0].rstrip(" ") in _DEVICES:
        return "Windows gives this name to a device"
    if _SHORT_NAME.fullmatch(plain):
        return "Windows takes such a name for the short form of another one"
    return "a name in it begins with `-`, like an option" if name.startswith("-") else None


def _out_of_bounds(text: str, reason: str) -> PathOutOfBounds:
    shown = printable_text(text)
    return PathOutOfBounds(f"`{shown}` is not a path of this repository: {reason}.", path=shown, reason=reason)


def printable_text(text: str) -> str:
    """Return the start of a text so that it can neither break JSON nor steer a terminal."""
    start = text[:200]
    return start if start.isprintable() else ascii(start)[1:-1]

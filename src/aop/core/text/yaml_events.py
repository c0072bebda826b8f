"""YAML events: builds a value from them, and refuses everything that is not data."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from aop.core.errors import Json
from aop.core.text.json import MalformedText, finite_number, utf8_bytes, whole_number
from aop.core.text.key_paths import MAX_YAML_DEPTH, KeyPath

try:
    from yaml import CSafeLoader as _Loader
except ImportError:
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]  # PyYAML built without libyaml

_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][+-]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_document(text: str) -> tuple[Json, dict[KeyPath, int]]:
    """Return the value of the one document of a text, and the line of each of its parts. Raises: MalformedText."""
    reader = _Reader(yaml.parse(text, Loader=_Loader))
    try:
        return reader.document(), reader.lines
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        raise MalformedText(f"it is not YAML: {problem.problem}", line=line) from problem
    except yaml.YAMLError as problem:
        raise MalformedText(f"it is not YAML: {problem}") from problem


class _Reader:
    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self.lines: dict[KeyPath, int] = {(): 1}

    def document(self) -> Json:
        self._next()
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        value = self._node(self._next(), ())
        self._next()
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            raise MalformedText("it holds several documents", line=_line(after))
        return value

    def _next(self) -> yaml.Event:
        return next(self._events)

    def _node(self, event: yaml.Event, path: KeyPath) -> Json:
        self.lines.setdefault(path, _line(event))
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise MalformedText("it uses an anchor or an alias", line=_line(event))
        if getattr(event, "tag", None) is not None:
            raise MalformedText("it uses a tag", line=_line(event))
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if len(path) >= MAX_YAML_DEPTH:
            raise MalformedText(f"it is nested more than {MAX_YAML_DEPTH} levels deep", line=_line(event))
        return self._mapping(path) if isinstance(event, yaml.MappingStartEvent) else self._sequence(path)

    def _mapping(self, path: KeyPath) -> dict[str, Json]:
        members: dict[str, Json] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise MalformedText("it has a key that is not a word", line=_line(event))
            self._node(event, (*path, event.value))
            if event.value in members:
                raise MalformedText(f"it has the key {event.value[:80]!a} twice", line=_line(event))
            if event.value in ("", "<<"):
                raise MalformedText(f"it has the key {event.value!a}", line=_line(event))
            members[event.value] = self._node(self._next(), (*path, event.value))
        return members

    def _sequence(self, path: KeyPath) -> list[Json]:
        items: list[Json] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return items


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _scalar(event: yaml.ScalarEvent) -> Json:
    try:
        utf8_bytes(event.value)
        return _plain_value(event.value) if event.implicit[0] else event.value
    except MalformedText as problem:
        raise MalformedText(problem.reason, line=_line(event)) from problem


def _plain_value(text: str) -> Json:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return whole_number(text)
    return finite_number(text) if _FLOAT.fullmatch(text) else text

"""Boundaries: layers, the files of each, and what is forbidden in them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from aop.core.errors import InvalidArguments, Json
from aop.core.paths.globs import flaw_in
from aop.core.text.json import MalformedText, parse_json
from aop.core.text.search import first_match
from aop.forge.contracts.shapes.problems import Problems, quoted

LONGEST_PATTERN = 500
MOST_LAYERS = 50
MOST_PATTERNS = 50


class Forbidden(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pattern that no line of a layer may match."""

    pattern: str
    reason: str


class Layer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A layer: the files that a glob matches, where `*` does not cross `/`."""

    name: str
    glob: str
    forbidden: tuple[Forbidden, ...] = ()
    may_import: tuple[str, ...] | None = None
    """The other layers that this one may import; absent: any."""
    description: str = ""


class KnownViolation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A violation that the contract itself accepts: in one file, of one layer and pattern or of all."""

    file: str
    reason: str
    layer: str = ""
    pattern: str = ""


class Boundaries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The layers of a project."""

    description: str
    layers: tuple[Layer, ...]
    known_violations: tuple[KnownViolation, ...] = ()


def read_boundaries(text: str, problems: Problems) -> Boundaries:
    """Read the layers; globs and patterns are checked here, so that their users need not."""
    nothing = Boundaries(description="", layers=())
    value = _json(text, problems)
    if value is None:
        return nothing
    try:
        read = msgspec.convert(value, Boundaries)
    except msgspec.ValidationError as problem:
        problems.add(f"Its shape is wrong: {problem}.")
        return nothing
    if not read.description.strip():
        problems.add("`description` is empty.")
    _check_layers(read.layers, problems)
    return read


def _json(text: str, problems: Problems) -> Json:
    try:
        value = parse_json(text)
    except MalformedText as problem:
        where = "" if problem.line is None else f" (line {problem.line})"
        problems.add(f"It cannot be read as JSON{where}: {problem.reason}.")
        return None
    if not isinstance(value, dict):
        problems.add("It is JSON, but not an object with `description` and `layers`.")
        return None
    return value


def _check_layers(layers: Sequence[Layer], problems: Problems) -> None:
    names = [layer.name for layer in layers]
    if not layers:
        problems.add("`layers` is empty.")
    if len(layers) > MOST_LAYERS:
        problems.add(f"It has {len(layers)} layers; at most {MOST_LAYERS} are read.")
        return
    for name in sorted({each for each in names if names.count(each) > 1}):
        problems.add(f"The layer {quoted(name)} is there {names.count(name)} times.")
    for layer in layers:
        _check_layer(layer, names, problems)
    if layers and not any(layer.forbidden or layer.may_import is not None for layer in layers):
        problems.add("No layer forbids anything: give at least one `forbidden` pattern or `may_import`.")


def _check_layer(layer: Layer, names: Sequence[str], problems: Problems) -> None:
    if not layer.name.strip() or not layer.name.isprintable():
        problems.add("A layer has no name.")
    if flaw := _flaw_in_glob(layer.glob):
        problems.add(f"The glob {quoted(layer.glob)} of the layer {quoted(layer.name)} is not one: {flaw}.")
    for other in layer.may_import or ():
        if other not in names:
            problems.add(f"The layer {quoted(layer.name)} may import {quoted(other)}, which is not a layer.")
    if len(layer.forbidden) > MOST_PATTERNS:
        problems.add(f"The layer {quoted(layer.name)} has more than {MOST_PATTERNS} patterns.")
    else:
        _check_patterns(layer, problems)


def _check_patterns(layer: Layer, problems: Problems) -> None:
    for each in layer.forbidden:
        if flaw := flaw_in_pattern(each.pattern):
            problems.add(f"The pattern {quoted(each.pattern)} of the layer {quoted(layer.name)} is refused: {flaw}.")
        if not each.reason.strip():
            problems.add(f"The pattern {quoted(each.pattern)} of the layer {quoted(layer.name)} has no reason.")


def _flaw_in_glob(glob: str) -> str | None:
    if not glob.strip():
        return "it is empty"
    if any(mark in glob for mark in "{}[]\\,") or not glob.isprintable():
        return "only `*`, `**` and `?` stand for other characters; write a layer for each alternative"
    parts = glob.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "it is a path from the root of the repository, without `./`, `..` or an empty part"
    return flaw_in(parts)


def flaw_in_pattern(pattern: str) -> str | None:
    """Return why a pattern cannot be looked for, or None."""
    if not pattern:
        return "it is empty"
    if len(pattern) > LONGEST_PATTERN:
        return f"it is longer than {LONGEST_PATTERN} characters"
    try:
        first = first_match(pattern, regex=True, ignore_case=False)
    except InvalidArguments as refusal:
        return refusal.message.rstrip(".")
    return "it matches an empty line, so it would forbid every line" if first("") is not None else None

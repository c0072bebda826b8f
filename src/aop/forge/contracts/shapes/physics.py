"""Physics: the contract of the HTTP API, its paths and the shapes they carry."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.core.errors import Json
from aop.core.text.json import MalformedText, utf8_bytes
from aop.core.text.yaml import YamlText, parse_yaml
from aop.forge.contracts.shapes.problems import Problems, quoted

METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
REQUIRED = ("summary", "auth", "response")
OPTIONAL = ("query_params", "request_body", "description", "errors")
NO_API = "none"
"""`info.api: none` says that the project has no HTTP interface; only then may `paths` be empty."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    path: str
    method: str
    """In small letters."""
    summary: str
    auth: str
    """`none`, or how the caller proves who it is."""
    shapes: tuple[str, ...]
    """The names in `request_body` and `response` that begin with a capital letter."""
    line: int


class Physics(Struct, frozen=True, kw_only=True):
    """The HTTP API of a project."""

    title: str
    endpoints: tuple[Endpoint, ...]
    schemas: tuple[str, ...]


def read_physics(text: str, limit: int, problems: Problems) -> Physics:
    """Read the API; the text is YAML without anchors, aliases or tags."""
    nothing = Physics(title="", endpoints=(), schemas=())
    try:
        parsed = parse_yaml(utf8_bytes(text), limit=limit)
    except MalformedText as problem:
        where = "" if problem.line is None else f" (line {problem.line})"
        problems.add(f"It cannot be read as YAML{where}: {problem.reason}.")
        return nothing
    if not isinstance(parsed.value, dict):
        problems.add("It is not a mapping with `info`, `paths` and `schemas`.")
        return nothing
    parts = {name: _mapping(parsed.value.get(name), name, problems) for name in ("info", "paths", "schemas")}
    for unknown in sorted(parsed.value.keys() - parts.keys()):
        problems.add(f"{quoted(unknown)} is not a part of this contract; it has `info`, `paths` and `schemas`.")
    title = parts["info"].get("title")
    if not isinstance(title, str) or not title.strip():
        problems.add("`info.title` is missing.")
    if not parts["paths"] and parts["info"].get("api") != NO_API:
        problems.add("`paths` is empty; a project without an HTTP interface says `api: none` in `info`.")
    endpoints = [
        each for path, methods in parts["paths"].items() for each in _endpoints(path, methods, parsed, problems)
    ]
    return Physics(title=str(title or ""), endpoints=tuple(endpoints), schemas=tuple(parts["schemas"]))


def _mapping(value: Json, name: str, problems: Problems) -> Mapping[str, Json]:
    if isinstance(value, Mapping):
        return value
    problems.add(f"`{name}` is missing." if value is None else f"`{name}` is not a mapping.")
    return {}


def _endpoints(path: str, methods: Json, parsed: YamlText, problems: Problems) -> list[Endpoint]:
    if not path.startswith("/") or any(character.isspace() for character in path) or not path.isprintable():
        problems.add(f"The path {quoted(path)} does not begin with `/`, or holds a space.")
    if not isinstance(methods, Mapping) or not methods:
        problems.add(f"The path {quoted(path)} has no method.")
        return []
    found = []
    for method, body in methods.items():
        if method not in METHODS:
            problems.add(
                f"{quoted(method)} of {quoted(path)} is not a method; write {', '.join(METHODS[:5])} in small letters."
            )
        elif not isinstance(body, Mapping):
            problems.add(f"{method} {quoted(path)} says nothing.")
        else:
            line = parsed.line_of(("paths", path, method))
            found.append(_endpoint(path, method, body, line, problems))
    return found


def _endpoint(path: str, method: str, body: Mapping[str, Json], line: int, problems: Problems) -> Endpoint:
    for name in REQUIRED:
        if name not in body or body[name] in ("", None):
            problems.add(f"{method} {quoted(path)} has no `{name}`.")
    for unknown in sorted(body.keys() - {*REQUIRED, *OPTIONAL}):
        problems.add(
            f"{method} {quoted(path)} has {quoted(unknown)}, which is none of {', '.join((*REQUIRED, *OPTIONAL))}."
        )
    auth = body.get("auth")
    return Endpoint(
        path=path,
        method=method,
        summary=str(body.get("summary") or ""),
        auth="none" if auth in (False, None, "") else "required" if auth is True else str(auth),
        shapes=tuple(dict.fromkeys(_shapes(body.get("request_body")) + _shapes(body.get("response")))),
        line=line,
    )


def _shapes(value: Json) -> list[str]:
    """Return the names of shapes that a body refers to: one word that begins with a capital, alone or in a list."""
    if isinstance(value, str):
        bare = value.removeprefix("list of ").removesuffix("[]").strip()
        return [bare] if bare[:1].isupper() and bare.isidentifier() else []
    if isinstance(value, Mapping):
        return [name for each in value.values() for name in _shapes(each)]
    if isinstance(value, list):
        return [name for each in value for name in _shapes(each)]
    return []

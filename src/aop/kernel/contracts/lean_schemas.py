"""Lean schemas: of a tool's schemas only what a caller has to know to call it.

An agent pays for every word of every tool in each request. So these leave out what the tool's row says already, what
may be left out of a call and changes nothing (C-51), and all words of the answer, which the published schemas have.
"""

from __future__ import annotations

from aop.kernel.contracts.schemas import Schema

_SAID_BY_THE_ROW = ("$schema", "title", "description")
_OWN_NAME = ("actor_type", "actor_id")
_NULL = {"type": "null"}


def lean_input(schema: Schema) -> Schema:
    """Return the schema of a tool's arguments without what is optional to know."""
    properties = {name: _given(each) for name, each in schema["properties"].items() if name not in _OWN_NAME}
    return {**_without_row(schema), "properties": properties}


def lean_output(schema: Schema) -> Schema:
    """Return the schema of a tool's answer without words."""
    data = _without_words(schema["properties"]["data"])
    properties = {"ok": {"const": True}, "data": data, "evidence": {"type": "object"}}
    return {**_without_row(schema), "properties": properties}


def _without_row(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name not in _SAID_BY_THE_ROW}


def _given(node: Schema) -> Schema:
    """Return the schema of an argument as it is where it is given: nobody has to send a null."""
    choices = [each for each in node.get("anyOf", ()) if each != _NULL]
    said = {name: value for name, value in node.items() if name not in ("anyOf", "default")}
    return {**choices[0], **said} if len(choices) == 1 else node


def _without_words(node: Schema) -> Schema:
    lean = {name: value for name, value in node.items() if name not in ("description", "default")}
    if "properties" in lean:
        lean["properties"] = {name: _without_words(each) for name, each in lean["properties"].items()}
    if isinstance(lean.get("items"), dict):
        lean["items"] = _without_words(lean["items"])
    choices = lean.pop("anyOf", None)
    if choices is None:
        return lean
    if len(choices) == 2 and choices[1] == _NULL and set(choices[0]) == {"type"}:
        return {**lean, "type": [choices[0]["type"], "null"]}
    return {**lean, "anyOf": [_without_words(each) for each in choices]}

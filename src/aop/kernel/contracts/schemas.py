"""JSON Schemas of tools, documents and files, from the models. None has references."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Struct

from aop.core.errors import Fault, all_refusals
from aop.core.ids import OPERATION_ID_PATTERN
from aop.core.version import OUTPUT_SCHEMA
from aop.kernel.contracts.property_words import EVIDENCE_WORDS, WORDS
from aop.kernel.gateway.calls import Tool

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema: TypeAlias = dict[str, Any]

_OPERATION_ID: Schema = {
    "type": "string",
    "pattern": OPERATION_ID_PATTERN,
    "description": (
        "Your own name for this call. Sent again with the same name and arguments, it does nothing twice: it answers"
        " what it answered before, or waits for what is still running."
    ),
}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_DETAILS: Mapping[str, tuple[Schema, str]] = {
    "retryable": ({"type": "boolean"}, "Whether the same call may pass later."),
    "requires_human": ({"type": "boolean"}, "Whether only a person can go on."),
    "suggested_next_actions": ({**_TEXTS, "minItems": 1}, "What the caller can do next."),
    "conflicting_feature_ids": (_TEXTS, "The other features that stand in the way, where some do."),
}

_TYPE_NAMES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer"}
# Docstrings name the requirement that they meet; a reader of the schema does not have that list.
_REQUIREMENT_IDS = re.compile(r" \((?:AOP|C|FORGE)-\d[^)]*\)")


@cache
def tool_schemas(tool: Tool) -> tuple[Schema, Schema]:
    """Return the schemas of a tool's input and of the envelope of its answer, which callers share: change neither."""
    taken = model_schema(tool.arguments, place=f"{tool.name}:")
    if tool.mutates:
        taken["properties"]["operation_id"] = _OPERATION_ID
    data = model_schema(tool.output, place=f"{tool.name}=")
    answer = {
        "type": "object",
        "properties": {
            "ok": {"type": "boolean", "const": True, "description": "True: the call was not refused."},
            "data": data | {"description": f"What `{tool.name}` answers."},
            "evidence": _evidence(),
        },
        "required": ["ok", "data"],
        "additionalProperties": False,
    }
    return document(tool.name, tool.summary, taken), document(tool.name, tool.summary, answer)


def error_schema() -> Schema:
    """Return the schema of the envelope that answers a refused call, for every tool."""
    refused = {
        "type": "object",
        "properties": {
            "ok": {"type": "boolean", "const": False, "description": "False: the call was refused."},
            "error": _error(),
            "evidence": _evidence(),
        },
        "required": ["ok", "error"],
        "additionalProperties": False,
    }
    return document("errors", "How every tool says no.", refused)


def output_schema() -> Schema:
    """Return the schema of the JSON that every command prints."""
    printed = {
        "type": "object",
        "properties": {
            "schema": {"type": "string", "const": OUTPUT_SCHEMA, "description": "The version of this shape."},
            "ok": {"type": "boolean", "description": "Whether the exit code is 0; on a line of a stream, true."},
            "data": {
                "type": ["object", "array"],
                "not": {"required": ["ok", "data"]},
                "description": "The result of the command, also of one that ends with another exit code.",
            },
            "error": _error(),
            "evidence": {**_evidence(), "description": "Pointers to the proof; empty where there are none."},
        },
        "required": ["schema", "ok", "evidence"],
        "oneOf": [{"required": ["data"]}, {"required": ["error"], "properties": {"ok": {"const": False}}}],
        "additionalProperties": False,
    }
    return document("output", "What every command prints with `--json`: one object, or one on each line.", printed)


def _error() -> Schema:
    return {
        "type": "object",
        "description": "What was refused, why, and what to do next.",
        "properties": {
            "code": {
                "type": "string",
                "enum": sorted(refusal.code for refusal in all_refusals()),
                "description": "Stable: programs act on it.",
            },
            "message": {"type": "string", "description": "What was refused, and why, as a sentence."},
            "details": {
                "type": "object",
                "description": "What to do next; further facts depend on the code.",
                "properties": {name: {**shape, "description": words} for name, (shape, words) in _DETAILS.items()},
                "required": ["retryable", "requires_human", "suggested_next_actions"],
            },
        },
        "required": ["code", "message", "details"],
        "additionalProperties": False,
    }


def _evidence() -> Schema:
    return {
        "type": "object",
        "description": "Pointers to the proof; absent where there are none.",
        "properties": {name: {"description": words} for name, words in EVIDENCE_WORDS.items()},
    }


def document(title: str, description: str, schema: Schema) -> Schema:
    """Return a schema as a separate document."""
    return {"$schema": DIALECT, "title": title, **schema, "description": description}


def model_schema(
    model: type[Struct], *, words: Mapping[str, str] = WORDS, place: str = "", whole: bool = False
) -> Schema:
    """Return the schema of a model, each property described; `whole` demands also what has a default."""
    models = {each.__name__: each for each in _models(model)}
    (root,), parts = msgspec.json.schema_components((model,), ref_template="{name}")
    if models.keys() - parts.keys():
        raise Fault(f"`{model.__name__}` holds two models of one name; a schema cannot tell them apart.")
    return _Writer(models, parts, words, whole=whole).written(root, place)


class _Writer:
    """Puts every part where it is used."""

    def __init__(
        self, models: Mapping[str, type[Struct]], parts: Schema, words: Mapping[str, str], *, whole: bool
    ) -> None:
        self._models, self._parts, self._words, self._whole = models, parts, words, whole

    def written(self, node: Schema, place: str) -> Schema:
        """Return a part of a schema, with all that it holds."""
        if "$ref" in node:
            return {**self.written(self._parts[node["$ref"]], place), **_without(node, "$ref")}
        # A discriminator would refer to parts by name; the property itself says which one it is.
        made = _without(_without(node, "title"), "discriminator")
        if "description" in made:
            made["description"] = _REQUIREMENT_IDS.sub("", " ".join(made["description"].split()))
        if "enum" in made:
            made = {**_type_of(made["enum"]), **made}
        for key, step in (("items", "[]"), ("additionalProperties", ".<name>"), ("propertyNames", "")):
            if isinstance(made.get(key), dict):
                made[key] = self.written(made[key], place + step)
        if "anyOf" in made:
            made["anyOf"] = [self.written(each, place) for each in made["anyOf"]]
        if "properties" in made:
            made |= self._object(node, place)
        return made

    def _object(self, node: Schema, place: str) -> Schema:
        model = self._models[node["title"]]
        properties = {name: self._property(model, place, name, each) for name, each in node["properties"].items()}
        always = self._whole and not model.__struct_config__.omit_defaults
        return {"properties": properties, "required": list(properties) if always else node["required"]}

    def _property(self, model: type[Struct], above: str, name: str, node: Schema) -> Schema:
        place = above + name if not above or above[-1] in ":=" else f"{above}.{name}"
        said = (
            node.get("description")
            or self._words.get(place)
            or _field_docstrings(model).get(name)
            or self._words.get(f"{model.__name__}.{name}")
            or self._words.get(name)
        )
        return self.written(node, place) | ({"description": said} if said else {})


def _without(node: Schema, key: str) -> Schema:
    return {name: value for name, value in node.items() if name != key}


def _type_of(values: list[Any]) -> Schema:
    types = {_TYPE_NAMES.get(type(value), "") for value in values}
    return {"type": types.pop()} if len(types) == 1 else {}


def _models(hint: Any) -> set[type[Struct]]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return {hint}.union(*map(_models, _hints(hint)))
    return set().union(*map(_models, get_args(hint)))


@cache
def _hints(model: type[Struct]) -> tuple[Any, ...]:
    return tuple(get_type_hints(model).values())


@cache
def _field_docstrings(model: type[Struct]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        found |= _docstrings_of_module(each.__module__).get(each.__name__, {})
    return found


@cache
def _docstrings_of_module(name: str) -> dict[str, dict[str, str]]:
    """Return, for each class of a module, the strings that stand below its fields: Python itself drops them."""
    try:
        source = inspect.getsource(sys.modules[name])
    except (OSError, TypeError):
        # Installed without its source, or no module of Python: the schemas say less, and are right.
        return {}
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {each.name: _docstrings_below(each) for each in classes}


def _docstrings_below(model: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, below in pairwise(model.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = _REQUIREMENT_IDS.sub("", " ".join(text.split()))
    return found

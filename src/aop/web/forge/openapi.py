"""OpenAPI document of the forge routes, made from the structs that they send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.version import VERSION
from aop.forge.contracts.types import CONTRACT_TYPES
from aop.forge.projects.documents import PROJECT_ID_PATTERN
from aop.forge.projects.http_bodies import HttpRefusal
from aop.web.forge.events import SSE_PATH, ForgeEvent

OPENAPI_PATH = "/api/openapi.json"

PATH_VALUES: Mapping[str, Mapping[str, Any]] = {
    "project_id": {"type": "string", "pattern": PROJECT_ID_PATTERN},
    "contract_type": {"type": "string", "enum": list(CONTRACT_TYPES)},
    "batch": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
    "prefix": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^/]+$"},
    "run_id": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^/]+$"},
    "error_id": {"type": "string", "minLength": 1, "maxLength": 80, "pattern": "^[^/]+$"},
    "build_id": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^/]+$"},
}

REFUSALS: Mapping[int, str] = {
    400: "The request is not valid, or something has to be done first.",
    401: "No key, or one that is unknown or revoked.",
    403: "The key has not the scope, or a person does this at the terminal.",
    404: "Unknown, or not yours.",
    415: "The body is not sent as JSON.",
    429: "Too many requests; `Retry-After` says when to come again.",
}
ALWAYS = (401, 403, 404, 429)


class Operation(Struct, frozen=True, kw_only=True):
    """One route, as the document describes it."""

    method: str
    path: str
    summary: str
    answer: type[Struct]
    scope: str
    status: int = 200
    body: type[Struct] | None = None
    refusals: tuple[int, ...] = ALWAYS
    is_tagged: bool = True
    """Answers with an `ETag`, and 304 where it is known."""


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the document."""
    shapes = [each.answer for each in operations] + [each.body for each in operations if each.body is not None]
    _, components = msgspec.json.schema_components(
        dict.fromkeys([*shapes, HttpRefusal, ForgeEvent]), ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method] = _described(each)
    paths[SSE_PATH] = {"get": _events()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "AOP forge", "version": VERSION, "description": "Contracts, contexts and events."},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _described(operation: Operation) -> dict[str, Any]:
    tag = {"ETag": {"schema": {"type": "string"}}} if operation.is_tagged else {}
    responses: dict[str, Any] = {
        str(operation.status): {"description": "The answer.", "headers": tag, "content": _json_of(operation.answer)}
    }
    if operation.is_tagged:
        responses["304"] = {"description": "The answer with the tag in `If-None-Match` is still right."}
    described: dict[str, Any] = {
        "summary": operation.summary,
        "description": f"Needs a key with the scope `{operation.scope}`.",
        "security": [{"key": []}],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": dict(schema)}
            for name, schema in PATH_VALUES.items()
            if f"{{{name}}}" in operation.path
        ],
        "responses": responses | _refusals(operation.refusals),
    }
    if operation.body is not None:
        described["requestBody"] = {"required": False, "content": _json_of(operation.body)}
    return described


def _events() -> dict[str, Any]:
    """Describe the stream; `/ws` sends the same as one `ForgeEvent` a message, and has no place in OpenAPI."""
    return {
        "summary": "The events of your projects as they happen; `id` is the number in the journal.",
        "description": "Each `data` is that of a `ForgeEvent`. `/ws` sends the same events, one object a message.",
        "security": [{"key": []}],
        "parameters": [
            {"name": "project", "in": "query", "schema": dict(PATH_VALUES["project_id"])},
            {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer", "minimum": 0}},
        ],
        "responses": {
            "200": {"description": "A stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            **_refusals((400, *ALWAYS)),
        },
    }


def _json_of(shape: type[Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape.__name__}"}}}


def _refusals(statuses: Sequence[int]) -> dict[str, Any]:
    return {str(each): {"description": REFUSALS[each], "content": _json_of(HttpRefusal)} for each in statuses}

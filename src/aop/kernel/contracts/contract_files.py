"""Contract files: schemas and references for other programs, made from the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from aop.core.errors import Json, all_refusals
from aop.core.text.json import pretty_json
from aop.kernel.config.agents import Agents
from aop.kernel.config.gates import Gates, Mode
from aop.kernel.config.policy import Policy
from aop.kernel.contracts.config_words import KEY_WORDS, SECTION_WORDS
from aop.kernel.contracts.reference_pages import tools_text
from aop.kernel.contracts.schemas import (
    DIALECT,
    Schema,
    document,
    error_schema,
    model_schema,
    output_schema,
    tool_schemas,
)
from aop.kernel.gateway.calls import Tool
from aop.kernel.record.documents.features import FeatureState, Index
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.documents.plans import Plan
from aop.kernel.record.documents.qa import QaIndex

PROTOCOL: Mapping[str, Json] = {
    "version": 1,
    "protocol": "mcp",
    "protocol_version": "2026-07-28",
    "supported_protocol_versions": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"],
    "sdk": {"package": "mcp", "version": "2.3.0"},
    "transports": ["streamable-http", "stdio"],
    "schema_dialect": DIALECT,
}
"""Protocol revisions that AOP speaks with agents (AOP-061); a test compares them with the locked SDK."""

WRITTEN: Mapping[str, tuple[type[Struct], str, frozenset[str]]] = {
    "evidence": (GateRun, "One gate run, as `evidence/<run>.json` holds it.", frozenset({"worker"})),
    "index": (Index, "The list of all features: `agentic/features/index.json`.", frozenset({"updated_at"})),
    "qa_test_index": (QaIndex, "What QA must look at: `qa_test_index.json`.", frozenset()),
    "state": (
        FeatureState,
        "One feature: the front matter of `state.md`.",
        frozenset({"evidence", "set_aside", "status_reason", "test_changes", "title", "waits_for"}),
    ),
}
"""The files that AOP writes, each with its model, and with the keys that a file may lack."""


def contract_files(tools: Mapping[str, Tool]) -> dict[str, bytes]:
    """Return every file by its path below `agentic/orchestrator`."""
    schemas: dict[str, Schema] = {
        **{f"schemas/{name}.schema.json": schema for name, schema in document_schemas().items()},
        "schemas/output.schema.json": output_schema(),
        "tools/errors.schema.json": error_schema(),
    }
    for name in sorted(tools):
        taken, answered = tool_schemas(tools[name])
        schemas[f"tools/{_schema_path('input', name)}"] = taken
        schemas[f"tools/{_schema_path('output', name)}"] = answered
    return {
        "tools.md": tools_text(tools).encode(),
        "tools/catalog.json": pretty_json(catalog(tools)),
        "tools/protocol.json": pretty_json(PROTOCOL),
        **{path: pretty_json(schema) for path, schema in schemas.items()},
    }


def catalog(tools: Mapping[str, Tool]) -> dict[str, Json]:
    """Return what is known of every tool, without its schemas (AOP-060)."""
    return {"version": 1, "tools": [catalog_row(tools[name]) for name in sorted(tools)]}


def catalog_row(tool: Tool) -> dict[str, Json]:
    """Return what is known of one tool, and where its schemas are."""
    return {
        "name": tool.name,
        "summary": tool.summary,
        "roles": sorted(tool.roles),
        "mutates": tool.mutates,
        "person_only": tool.person_only,
        "input_schema": _schema_path("input", tool.name),
        "output_schema": _schema_path("output", tool.name),
    }


def undescribed(tools: Mapping[str, Tool]) -> list[str]:
    """Return every property and every refusal that no words are known for; there should be none."""
    schemas = [(name, schema) for name in sorted(tools) for schema in tool_schemas(tools[name])]
    schemas += document_schemas().items()
    properties = [f"{name}: {property_}" for name, schema in schemas for property_ in _undescribed(schema)]
    return [*properties, *(f"refusal: {refusal.code}" for refusal in all_refusals() if not refusal.__doc__)]


def document_schemas() -> dict[str, Schema]:
    """Return the schemas of the files that AOP reads and writes, by name (AOP-034)."""
    made = {
        "agents": document("agents", "Who does the work: `agents.yaml`.", _lean(_configuration(Agents))),
        "gates": document("gates", "The commands that prove a feature: `gates.yaml`.", _configuration(Gates)),
        "plan": document("plan", "What a planner submits, and `plan.json` holds.", model_schema(Plan)),
        "policy": document("policy", "What is allowed: `policy.yaml`.", _lean(_configuration(Policy))),
    }
    for name, (model, description, optional) in WRITTEN.items():
        schema = model_schema(model, whole=True)
        schema["required"] = [key for key in schema["required"] if key not in optional]
        made[name] = document(name, description, schema)
    return dict(sorted(made.items()))


def _schema_path(side: str, tool: str) -> str:
    return f"schemas/{side}/{tool}.schema.json"


def _configuration(model: type[Struct]) -> Schema:
    words = {key.replace("<mode>", mode): text for key, text in KEY_WORDS.items() for mode in Mode}
    return model_schema(model, words={**words, **SECTION_WORDS})


def _lean(schema: Schema) -> Schema:
    """Return the schema of a file that is laid over defaults which name every key: it needs nothing but `version`."""
    return {**_demanding_nothing(schema), "required": ["version"]}


def _demanding_nothing(schema: Schema) -> Schema:
    return {
        name: _demanding_nothing(value) if isinstance(value, dict) else value
        for name, value in schema.items()
        if not (name == "required" and isinstance(value, list))
    }


def _undescribed(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        properties: dict[str, Schema] = node["properties"] if isinstance(node.get("properties"), dict) else {}
        yield from (name for name, each in properties.items() if "description" not in each)
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _undescribed(below)

"""Schemas of tools and documents: complete, described, and true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import jsonschema
import pytest
from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments
from aop.kernel.contracts.schemas import Schema, error_schema, model_schema, tool_schemas
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.gateway import parse_arguments
from aop.kernel.gateway.role_sets import READERS
from aop.wiring.catalogue import CATALOGUE
from tests.world import plan_for

TOOLS = sorted(CATALOGUE)


def parts(node: Any) -> Iterator[Schema]:
    """Return every object below a node of a JSON document, and the node."""
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from parts(below)


def undescribed(schema: Schema) -> set[str]:
    return {
        name
        for part in parts(schema)
        for name, each in part.get("properties", {}).items()
        if not str(each.get("description", "")).endswith(".")
    }


@pytest.mark.req("AOP-063")
@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_has_an_input_and_an_output_schema_that_stand_by_themselves(name: str) -> None:
    for schema in tool_schemas(CATALOGUE[name]):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert (schema["title"], schema["type"]) == (name, "object")
        assert [part for part in parts(schema) if {"$ref", "$defs", "$id"} & part.keys()] == []


@pytest.mark.parametrize("name", TOOLS)
def test_every_property_of_a_tool_is_described(name: str) -> None:
    """Put a docstring below the field, or its name into `schema_words`."""
    assert [undescribed(schema) for schema in tool_schemas(CATALOGUE[name])] == [set(), set()]


@pytest.mark.parametrize("name", TOOLS)
def test_what_a_tool_takes_is_closed_at_every_level(name: str) -> None:
    taken, _answered = tool_schemas(CATALOGUE[name])
    assert [part["properties"].keys() for part in parts(taken) if "properties" in part and not closed(part)] == []


def closed(part: Schema) -> bool:
    return part.get("additionalProperties") is False


@pytest.mark.req("AOP-066", "AOP-067", "AOP-068", "AOP-069", "AOP-072", "AOP-074", "AOP-080")
@pytest.mark.parametrize(
    "wrong",
    [
        {"feature_id": "One"},
        {"plan_version": 0},
        {"summary": "tiny"},
        {"allowed_areas": []},
        {"files": {"create": [], "modify": [], "delete": [], "move": []}},
        {"acceptance_criteria": []},
        {"verification_overrides": {"modes": {"merge": {"steps": []}}}},
        {"more": 1},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_the_schema_of_a_plan_refuses_what_the_gateway_refuses(wrong: dict[str, Any]) -> None:
    tool = CATALOGUE["plan.submit"]
    right: dict[str, Any] = {"feature_id": "one", "plan_json": plan_for("one")}
    jsonschema.Draft202012Validator(tool_schemas(tool)[0]).validate(right)
    parse_arguments(tool, right)
    broken: dict[str, Any] = {"feature_id": "one", "plan_json": {**plan_for("one"), **wrong}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(tool_schemas(tool)[0]).validate(broken)
    with pytest.raises(InvalidArguments):
        parse_arguments(tool, broken)


@pytest.mark.req("AOP-062", "AOP-318", "AOP-322")
def test_the_schema_of_refusals_names_every_code() -> None:
    schema = error_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    codes = schema["properties"]["error"]["properties"]["code"]["enum"]
    assert codes == sorted(set(codes))
    assert {"gate_failed", "internal_error", "lock_conflict", "unknown_tool"} <= set(codes)
    assert undescribed(schema) == set()


class Inner(Struct, frozen=True, kw_only=True):
    """What is inside (AOP-001, AOP-002)."""

    version: int
    """Not what
    it is elsewhere (C-51)."""
    tree: str
    nothing_known: str


class Taken(Arguments, frozen=True, kw_only=True):
    inner: Inner
    said: Annotated[str, Meta(description="Said beside the type.")]
    """Said below the field."""


class Answer(Struct, frozen=True, kw_only=True):
    inners: tuple[Inner, ...]
    by_name: dict[str, Inner] | None = None


def run(_call: Call, _arguments: Taken) -> Outcome:
    return Answer(inners=())


SEEDED = Tool(name="a.b", summary="Do it.", arguments=Taken, output=Answer, roles=READERS, run=run)


def test_a_property_is_described_by_whatever_is_nearest_to_it() -> None:
    taken, answered = tool_schemas(SEEDED)
    assert taken["properties"]["said"]["description"] == "Said beside the type."
    assert taken["properties"]["inner"] == {
        "type": "object",
        "description": "What is inside.",
        "properties": {
            "version": {"type": "integer", "description": "Not what it is elsewhere."},
            "tree": {"type": "string", "description": "The feature's tree: every byte of it, as one id."},
            "nothing_known": {"type": "string"},
        },
        "required": ["version", "tree", "nothing_known"],
    }
    data = answered["properties"]["data"]["properties"]
    assert data["inners"]["items"] == taken["properties"]["inner"]
    assert data["by_name"]["anyOf"][0]["additionalProperties"] == taken["properties"]["inner"]
    assert undescribed(answered) == {"nothing_known", "inners", "by_name"}


def test_words_for_a_place_win_over_words_for_a_name() -> None:
    words = {"inners[].tree": "The tree there.", "tree": "A tree."}
    assert [
        model_schema(Answer, words=words)["properties"]["inners"]["items"]["properties"]["tree"]["description"],
        model_schema(Inner, words=words)["properties"]["tree"]["description"],
    ] == ["The tree there.", "A tree."]

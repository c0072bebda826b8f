"""Settings: model names, lists, addresses and answer shapes."""

from __future__ import annotations

from collections.abc import Mapping

import jsonschema
import msgspec
import pytest
from msgspec import Struct

from aop.adapters.models.endpoints import endpoint_of
from aop.adapters.models.settings import BrainSettings
from aop.brains.names import ModelName, model_name, model_priority
from aop.brains.shapes import read_as, schema_of
from aop.core.errors import ModelAnswerInvalid, ModelNotConfigured, Refusal


class Finding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that was found."""

    line: int
    inside: tuple[Finding, ...] = ()


class Report(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was found."""

    findings: tuple[Finding, ...]


@pytest.mark.parametrize(
    "text",
    [
        "anthropic:one, ollama:two:7b",
        '["anthropic:one", "ollama:two:7b"]',
        "anthropic:one,ollama:two:7b,anthropic:one,",
    ],
)
def test_a_list_is_read_in_its_order_without_doubles(text: str) -> None:
    assert model_priority(text) == (ModelName("anthropic", "one"), ModelName("ollama", "two:7b"))


@pytest.mark.parametrize(
    "text", ["", "claude", "acme:one", "anthropic:", "anthropic:a b", "[1]", "[", '{"a": 1}', ",", "openai:../x\n"]
)
def test_what_names_no_model_is_refused(text: str) -> None:
    with pytest.raises(ModelNotConfigured):
        model_priority(text)


@pytest.mark.parametrize(
    "url", ["ftp://host/v1", "host", "https://user:pw@host/v1", "https://host/v1?key=1", "http://[/", "https:///v1"]
)
def test_a_base_url_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ModelNotConfigured) as refused:
        endpoint_of(model_name("compatible:any"), {"AOP_COMPATIBLE_BASE_URL": url})
    assert url not in str(refused.value.as_error())


@pytest.mark.parametrize(
    "environ",
    [
        {"AOP_MODEL_TIMEOUT_SECONDS": "0"},
        {"AOP_MODEL_TIMEOUT_SECONDS": "ten"},
        {"AOP_MODEL_MAX_OUTPUT_TOKENS": "-1"},
        {"AOP_MODEL_RETRIES": "1.5"},
        {"AOP_MODEL_RETRIES": "9" * 50},
        {"AOP_MODEL_THINKING": "much"},
        {"AOP_MODEL_PRICES": "nowhere.json"},
    ],
    ids=lambda environ: " ".join(environ) if isinstance(environ, dict) else None,
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(environ: Mapping[str, str]) -> None:
    with pytest.raises(Refusal) as refused:
        BrainSettings.from_env({"AOP_MODELS": "ollama:one", **environ}, chosen=None, product=None)
    assert refused.value.message.startswith(f"`{next(iter(environ))}` ")


def test_a_shape_becomes_a_schema_of_an_object_that_refers_to_its_parts_only() -> None:
    schema = schema_of(Report)
    assert (schema["type"], list(schema["$defs"]), schema["additionalProperties"]) == ("object", ["Finding"], False)
    given = {"findings": [{"line": 1, "inside": [{"line": 2}]}]}
    jsonschema.validate(given, schema)
    assert read_as(Report, msgspec.json.encode(given).decode()) == Report(
        findings=(Finding(line=1, inside=(Finding(line=2),)),)
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "five", '{"findings": null}', '{"findings": [], "more": 1}', '{"findings": [{"line": "1"}]}',
        '{"findings": [], "findings": []}', '{"findings": [{"line": 1.5}]}', '```json\n{"findings": []}\n```',
    ],
)  # fmt: skip
def test_what_is_not_of_the_shape_to_the_last_field_is_refused(text: str) -> None:
    with pytest.raises(ModelAnswerInvalid):
        read_as(Report, text)


@pytest.mark.parametrize(
    ("environ", "models"),
    [
        ({"AOP_MODELS": "ollama:any"}, "any any"),
        ({"AOP_MODELS": "ollama:any", "FORGE_LLM_MODEL_PRIORITY": "ollama:forge"}, "forge forge"),
        ({"FORGE_LLM_MODEL_PRIORITY": "ollama:forge", "FORGE_CODER_LLM_MODEL_PRIORITY": "ollama:coder"}, "forge coder"),
    ],
)
def test_a_role_has_the_models_of_its_own_variable_else_those_of_its_product(
    environ: Mapping[str, str], models: str
) -> None:
    products = ("forge-auditor", "forge-coder")
    chosen = [BrainSettings.from_env(environ, chosen=None, product=product).models for product in products]
    assert " ".join(each.model for names in chosen for each in names) == models

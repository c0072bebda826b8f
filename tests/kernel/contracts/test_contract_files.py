"""Contract files: the schemas fit AOP's files, and the pins fit the lock."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp_types.version import LATEST_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS

from aop.adapters.config.reader import bundled_texts
from aop.cli.shell.exits import EXIT_OF_MOVE
from aop.core.errors import Refusal, all_refusals
from aop.core.text.front_matter import split_front_matter
from aop.core.text.yaml import parse_yaml
from aop.kernel.contracts.config_words import KEY_WORDS
from aop.kernel.contracts.contract_files import PROTOCOL, document_schemas, undescribed
from aop.kernel.contracts.reference_pages import refusals_text
from aop.kernel.contracts.schemas import DIALECT
from aop.wiring.catalogue import CATALOGUE
from tests.world import World

ROOT = Path(__file__).parents[3]
SCHEMAS = document_schemas()


def misfits(name: str, value: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    return [error.message for error in validator.iter_errors(value)]


def test_every_property_of_every_document_is_described() -> None:
    assert undescribed(CATALOGUE) == []


@pytest.mark.req("AOP-034", "AOP-080")
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_of_a_document_stands_by_itself(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    assert '"$ref"' not in json.dumps(SCHEMAS[name])


@pytest.mark.req("AOP-034", "AOP-037")
def test_the_files_of_a_feature_fit_their_schemas_all_through_its_life(world: World) -> None:
    folder = world.root / "agentic/features"
    world.init("one")
    assert misfits("state", front_matter(folder)) == []
    world.ready("one")
    token = world.approval("one")
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    assert misfits("state", front_matter(folder)) == []
    assert misfits("index", json.loads((folder / "index.json").read_bytes())) == []
    assert misfits("plan", json.loads((folder / "one/plan.json").read_bytes())) == []
    assert misfits("qa_test_index", json.loads((folder / "one/qa_test_index.json").read_bytes())) == []
    runs = [json.loads(path.read_bytes()) for path in (folder / "one/evidence").iterdir()]
    assert [misfits("evidence", run) for run in runs] == [[], [], []]


def front_matter(folder: Path) -> Any:
    return parse_yaml(split_front_matter((folder / "one/state.md").read_bytes())[0]).value


@pytest.mark.req("AOP-092")
@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("2026-01-02T03:04:05.678Z", True),
        ("", False),
        ("yesterday", False),
        ("2026-13-02T03:04:05.678Z", False),
        ("2026-01-32T03:04:05.678Z", False),
        ("2026-01-02T24:04:05.678Z", False),
        ("2026-01-02 03:04:05", False),
        ("2026-01-02T03:04:05.678+02:00", False),
    ],
)
def test_a_moment_in_a_state_is_a_date_and_a_time_in_utc(text: str, *, fits: bool) -> None:
    moment = SCHEMAS["state"]["properties"]["last_updated"]
    assert moment["format"] == "date-time"
    assert (list(jsonschema.Draft202012Validator(moment).iter_errors(text)) == []) is fits


@pytest.mark.req("AOP-085", "AOP-088", "AOP-089", "AOP-090", "AOP-091", "AOP-092")
def test_a_state_that_lacks_what_is_required_does_not_fit() -> None:
    required = "feature_id version branch worktree_path status gate_profile gates locks collisions cluster role_status"
    assert {*required.split(), "last_updated"} <= set(SCHEMAS["state"]["required"])
    assert {"evidence", "status_reason"}.isdisjoint(SCHEMAS["state"]["required"])
    assert "held" in SCHEMAS["state"]["properties"]["locks"]["required"]
    assert SCHEMAS["state"].get("additionalProperties") is None


@pytest.mark.req("AOP-099")
def test_the_configuration_files_fit_as_a_whole_and_lean_and_a_wrong_key_does_not() -> None:
    bundled = bundled_texts()
    for name, text in (("policy", bundled.policy), ("gates", bundled.gates), ("agents", bundled.agents)):
        assert text is not None
        assert misfits(name, parse_yaml(text.content).value) == []
        assert misfits(name, {"version": 1, "profiles": {}} if name == "gates" else {"version": 1}) == []
        assert misfits(name, {"version": 1, "profiles": {}, "profile": {}} if name == "gates" else {}) != []
    assert misfits("policy", {"version": 1, "worktree": {"base": "main"}}) != []


def test_the_words_for_a_key_are_those_of_the_documentation() -> None:
    """A key is described in `kernel/config_words.py`, for its schema, and in the table, with the same words."""
    text = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `([^`]+)` \| .*? \| (.*) \|$", text, re.MULTILINE))
    assert {key: documented.get(key, "").removesuffix(" See [sandbox](sandbox.md).") for key in KEY_WORDS} == KEY_WORDS


@pytest.mark.req("AOP-061", "AOP-064")
def test_the_protocol_file_pins_what_is_locked_and_what_the_sdk_speaks() -> None:
    lock = (ROOT / "requirements/dev.lock").read_text(encoding="utf-8")
    (locked,) = re.findall(r"^mcp==(\S+)", lock, re.MULTILINE)
    assert {
        "version": 1,
        "protocol": "mcp",
        "protocol_version": LATEST_PROTOCOL_VERSION,
        "supported_protocol_versions": list(SUPPORTED_PROTOCOL_VERSIONS),
        "sdk": {"package": "mcp", "version": locked},
        "transports": ["streamable-http", "stdio"],
        "schema_dialect": DIALECT,
    } == PROTOCOL


def test_every_refusal_has_a_meaning_and_a_row() -> None:
    text = refusals_text(EXIT_OF_MOVE)
    for refusal in all_refusals():
        if refusal is not Refusal and refusal.__module__ == Refusal.__module__:
            assert f"| `{refusal.code}` | {refusal.__doc__} | {refusal.hint} |" in text
            assert str(refusal.__doc__).endswith(".")

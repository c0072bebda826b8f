"""Hostile YAML, JSON, front matter and patterns: what a stranger's text must not do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from aop.adapters.config.reader import bundled_texts
from aop.core.errors import InvalidConfiguration
from aop.core.paths.names import Matching, parse_area
from aop.core.text.front_matter import join_front_matter, split_front_matter
from aop.core.text.json import MalformedText, canonical_json, parse_json, pretty_json
from aop.core.text.yaml import dump_yaml, parse_yaml
from aop.kernel.config.in_force import Config
from aop.kernel.config.loader import ConfigText, ConfigTexts, load_config
from tests.kernel.tools.worlds import configured, gates_of

LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
MERGES = "a: &a {x: 1}\nb:\n" + "".join("  - {<<: *a}\n" for _ in range(4000))

REFUSED: list[tuple[str, Callable[[bytes], object], bytes, str]] = [
    ("Y01", parse_yaml, LAUGHS.encode(), "it uses an anchor or an alias"),
    ("Y02", parse_yaml, MERGES.encode(), "it uses an anchor or an alias"),
    ("Y02", parse_yaml, b"a: 1\n<<: {b: 2}\n", "it has the key '<<'"),
    ("Y02", parse_yaml, b"a: 1\n'<<': {b: 2}\n", "it has the key '<<'"),
    ("Y03", parse_yaml, b"&a [*a]", "it uses an anchor or an alias"),
    ("Y03", parse_yaml, b"[*a]", "it uses an anchor or an alias"),
    ("Y05", parse_yaml, b'!!python/object/apply:os.system ["touch x"]', "it uses a tag"),
    ("Y05", parse_yaml, b"a: !!python/name:os.system ''", "it uses a tag"),
    ("Y05", parse_yaml, b"%TAG ! tag:yaml.org,2002:python/\n---\na: !name:os.system x", "it uses a tag"),
    ("Y05", parse_yaml, b"!!map {a: 1}", "it uses a tag"),
    ("Y06", parse_yaml, b"role: viewer\nrole: admin\n", "it has the key 'role' twice"),
    ("Y06", parse_yaml, b"{role: viewer, 'role': admin}", "it has the key 'role' twice"),
    ("Y09", parse_yaml, b"a: 1\n" * 210_000, "it is larger than 65536 bytes"),
    ("Y09", parse_yaml, b"[" * 65_536, "it is nested more than 40 levels deep"),
    ("Y09", parse_yaml, b"- " * 32_000, "it is nested more than 40 levels deep"),
    ("Y10", split_front_matter, b"---\nrole: viewer\n--- \nrole: admin\n", "its front matter does not end"),
    ("Y10", parse_yaml, b"role: viewer\n--- \nrole: admin\n", "it holds several documents"),
    ("Y11", split_front_matter, b"---\n" + b"\n" * 60_000, "its front matter does not end"),
    ("Y11", split_front_matter, b"---\n" + b"--- \n" * 60_000, "its front matter does not end"),
    ("Y13", split_front_matter, b"\xef\xbb\xbf---\na: 1\n---\n", "it begins with a byte order mark"),
    ("Y13", split_front_matter, b"---\r\na: 1\r\n---\r\n", "its first line is not exactly `---`"),
    ("Y13", split_front_matter, b"---\na: 1\r\n---\r\n", "its lines end with CR LF"),
    ("Y13", parse_yaml, b"a:\n\t- 1\n", "it is not YAML"),
    ("Y13", parse_yaml, "a: 1\u2028role: admin\n".encode(), "it holds the control character U+2028"),
    ("Y13", parse_yaml, "a: 1\x85role: admin\n".encode(), "it holds the control character U+0085"),
    ("Y13", parse_yaml, "a: \ufeffb\n".encode(), "it holds the control character U+FEFF"),
    ("Y14", parse_json, b"[" * 100_000 + b"]" * 100_000, "it is nested more than 100 levels deep"),
    ("Y14", parse_json, b'{"a":' * 100_000, "it is nested more than 100 levels deep"),
    ("Y14", parse_json, b"[" * 101 + b"]" * 101, "it is nested more than 100 levels deep"),
    ("Y15", parse_json, b"9" * 5000, "it holds an integer of more than 64 bits"),
    ("Y15", parse_json, b"-" + b"9" * 20, "it holds an integer of more than 64 bits"),
    ("Y15", parse_json, b"1e5000", "it holds a number that is not finite"),
    ("Y15", parse_json, b"NaN", "it holds a number that is not finite"),
    ("Y15", parse_yaml, b"a: " + b"9" * 5000, "it holds an integer of more than 64 bits"),
    ("Y17", parse_json, b'{"role": "viewer", "role": "admin"}', "it has the key 'role' twice in one object"),
    ("Y17", parse_json, b'{"role": "viewer", "\\u0072ole": "admin"}', "it has the key 'role' twice in one object"),
    ("Y18", parse_json, b'"\\ud800"', "it holds a lone surrogate"),
    ("Y18", parse_json, b'{"\\udfff": 1}', "it holds a lone surrogate"),
    ("Y18", parse_json, b'"\xed\xa0\x80"', "it is not UTF-8"),
    ("Y18", parse_yaml, b'"\\ud800"', "it is not YAML"),
    ("Y19", parse_json, '{"a": 1}'.encode("utf-16"), "it is not UTF-8"),
    ("Y19", parse_json, '{"a": 1}'.encode("utf-16-le"), "it is not JSON"),
    ("Y19", parse_json, '{"a": 1}'.encode("utf-32-be"), "it is not JSON"),
    ("Y19", parse_json, '{"a": 1}'.encode("utf-8-sig"), "it begins with a byte order mark"),
]


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("row", "read", "text", "reason"), REFUSED, ids=[f"{row[0]}-{i}" for i, row in enumerate(REFUSED)]
)
def test_a_hostile_text_is_refused_at_once(row: str, read: Callable[[bytes], object], text: bytes, reason: str) -> None:
    began = process_time()
    with pytest.raises(MalformedText) as refused:
        read(text)
    assert refused.value.reason.startswith(reason)
    assert process_time() - began < 1


@pytest.mark.hostile("Y18")
@pytest.mark.parametrize("write", [canonical_json, pretty_json, dump_yaml, lambda text: join_front_matter({}, text)])
def test_half_of_a_surrogate_pair_is_refused_before_it_is_written(write: Callable[[str], object]) -> None:
    with pytest.raises(MalformedText):
        write("a\ud800")


@pytest.mark.hostile("Y07")
@pytest.mark.parametrize("word", ["no", "on", "yes", "off", "1_000", "0x1F", "017", "1e3", "2026-01-01", "12:30:45"])
def test_a_word_that_old_yaml_coerces_is_a_string_and_no_number_or_boolean(word: str) -> None:
    assert parse_yaml(f"a: {word}".encode()).value == {"a": word}
    for key in ("merge_mode_optional: %s", "supervisor: {max_active_features: %s}"):
        with pytest.raises(InvalidConfiguration):
            load_policy(key % word)


@pytest.mark.hostile("Y21")
@pytest.mark.parametrize(
    "text", ["supervisor: {max_active_features: true}", "locks: {lease_ttl_seconds: true}", "version: true"]
)
def test_true_is_no_integer(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match="expected `int`, got `bool`"):
        load_policy(text)


@pytest.mark.hostile("Y10")
def test_only_the_first_block_is_front_matter() -> None:
    yaml, body = split_front_matter(b"---\nrole: viewer\n---\nrole: admin\n---\n")
    assert (parse_yaml(yaml).value, body) == ({"role": "viewer"}, "role: admin\n---\n")


@pytest.mark.unmeasured
@pytest.mark.hostile("Y11")
def test_front_matter_of_many_lines_is_split_in_linear_time() -> None:
    began = process_time()
    yaml, body = split_front_matter(b"---\n" + b"\n" * 1_000_000 + b"---\n" + b"---\n" * 100_000)
    assert (len(yaml), len(body)) == (1_000_000, 400_000)
    assert process_time() - began < 2


@pytest.mark.hostile("Y13")
def test_a_line_separator_in_the_body_is_text() -> None:
    text = "---\na: 1\n---\nx\u2028---\n\ty\r\n"
    assert split_front_matter(text.encode()) == (b"a: 1\n", "x\u2028---\n\ty\r\n")


@pytest.mark.unmeasured
@pytest.mark.hostile("Y17")
def test_many_keys_with_one_twin_are_read_in_linear_time() -> None:
    text = json.dumps({f"k{number}": 0 for number in range(200_000)})[:-1] + ', "k199999": 1}'
    began = process_time()
    with pytest.raises(MalformedText, match="twice in one object"):
        parse_json(text)
    assert process_time() - began < 3


@pytest.mark.unmeasured
@pytest.mark.hostile("Y22")
def test_a_pattern_from_the_configuration_is_text_and_never_a_regular_expression() -> None:
    config = load_policy("exclusive_areas: ['(a+)+$']")
    area = parse_area(config.policy.exclusive_areas[0], Matching.GLOB)
    began = process_time()
    assert (area.covers("a" * 28 + "!"), area.covers("(a+)+$")) == (False, True)
    assert process_time() - began < 0.1


@pytest.mark.hostile("Y25")
def test_a_repetition_in_a_pattern_is_refused_when_the_configuration_is_read() -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        load_policy("exclusive_areas: ['a{1001}']")
    assert refused.value.facts["key"] == "exclusive_areas[0]"


ENDLESS_TRACEBACK = """
said = 'File "' * 160_000
print(said)
with open("junit.xml", "w") as report:
    case = '<testcase name="a"><failure message="x">' + said + "</failure></testcase>"
    report.write('<testsuite tests="1" failures="1">' + case + "</testsuite>")
"""


@pytest.mark.unmeasured
@pytest.mark.hostile("Y23")
def test_a_traceback_that_never_ends_is_read_in_linear_time(tmp_path: Path) -> None:
    flood = [{"name": "check", "cmd": [sys.executable, "flood.py"]}]
    report = {"tests": {"type": "junit_xml", "path": "junit.xml"}}
    world = configured(
        tmp_path / "repo", gates=gates_of(fast=flood, parsers=report), files={"flood.py": ENDLESS_TRACEBACK}
    )
    try:
        world.plan()
        world.patch()
        began = process_time()
        answer = world.call("gates.run", feature_id="one", mode="fast")
        assert (answer.error or {})["code"] == "gate_failed"
        world.ok("evidence.latest", feature_id="one")
        world.ok("report.feature_summary", feature_id="one")
        assert process_time() - began < 3
    finally:
        world.close()


def load_policy(text: str) -> Config:
    version = "" if text.startswith("version") else "version: 1\n"
    policy = ConfigText(source="main:policy.yaml", content=f"{version}{text}\n".encode())
    return load_config(ConfigTexts(policy=policy), bundled_texts())

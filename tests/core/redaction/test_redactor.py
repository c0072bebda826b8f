"""Redactor: what it masks, what it leaves, and its cost."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.redaction.redactor import Redactor, SecretFinding, mask_json
from aop.core.redaction.rules import MASKING_RULES, RULES

MADE_UP = "Zq7" + "vK2mX9" + "pL4wR8"


MASKED = [
    ("password=hunter2", "password=[redacted:bare-secret]"),
    ("password: hunter2, user: bob", "password: [redacted:bare-secret], user: bob"),
    ('{"password": "correct horse"}', '{"password": "[redacted:quoted-secret]"}'),
    (r'"{\"client_secret\": \"correcthorse\"}"', r'"{\"client_secret\": \"[redacted:quoted-secret]\"}"'),
    ("api_key => 'abcdefgh'", "api_key => '[redacted:quoted-secret]'"),
    ("export DB_PASSWORD=correcthorse", "export DB_PASSWORD=[redacted:variable]"),
    ("STRIPE_KEY=abcdefgh next", "STRIPE_KEY=[redacted:variable] next"),
    ("mysql --password hunter --host x", "mysql --password [redacted:flag] --host x"),
    ("tool --signing-key=abcdef", "tool --signing-key=[redacted:flag]"),
    ("curl -u bob:hunter2 x", "curl -u bob:[redacted:login] x"),
    ("machine x login bob password hunter", "machine x login bob password [redacted:login]"),
    ("Server=x;User Id=sa;Pwd=hunter;", "Server=x;User Id=sa;Pwd=[redacted:connection-string];"),
    (f"Authorization: Bearer {MADE_UP}", "Authorization: Bearer [redacted:authorization]"),
    ("'Authorization': 'Basic Ym9iOmh1bnRlcg=='", "'Authorization': 'Basic [redacted:authorization]'"),
    (f"authorization: {MADE_UP}", "authorization: [redacted:bare-authorization]"),
    (f"used bearer {MADE_UP}x1 there", "used bearer [redacted:bearer] there"),
    (f"PRIVATE-TOKEN: {MADE_UP}", "PRIVATE-TOKEN: [redacted:header]"),
    (f"X-Vault-Token: {MADE_UP}", "X-Vault-Token: [redacted:header]"),
    ("Set-Cookie: session=abcd1234; Path=/", "Set-Cookie: [redacted:cookie]"),
    ("postgres://bob:p@ss@db:5432/x", "postgres://bob:[redacted:url-password]@db:5432/x"),
    (f"https://{MADE_UP}abcdef@git.test/x", "https://[redacted:url-token]@git.test/x"),
    ("GET /x?access_token=abcdefgh&y=1", "GET /x?access_token=[redacted:url-parameter]&y=1"),
]


@pytest.mark.req("AOP-269")
@pytest.mark.parametrize(("text", "masked"), MASKED)
def test_a_value_is_masked_because_of_what_stands_before_it(text: str, masked: str) -> None:
    assert Redactor()(text) == masked
    assert Redactor().secrets_in(text) == ()


def test_every_masking_rule_is_shown_to_mask() -> None:
    shown = {masked.partition("[redacted:")[2].partition("]")[0] for _, masked in MASKED}
    assert shown == {rule.name for rule in MASKING_RULES}


@pytest.mark.parametrize(
    "text",
    [
        "Password must be at least 8 characters",
        "def login(user: str, password: str) -> Token:",
        "token = tokens[0]",
        "token: Token = next_token()",
        'if token == "integer":',
        'secret = os.environ["SECRET"]',
        "password=${DB_PASSWORD}",
        "password: $DB_PASSWORD",
        'password: "<your password>"',
        'token: "{{ secrets.GITHUB }}"',
        "headers = {'Authorization': f'Bearer {token}'}",
        "max_tokens=4096 tokenizer=cl100k_base",
        "PWD=/home/bob/project1",
        "ssh://git@host.test:22/x.git",
        "https://host.test:8080/a?page=2&sort=name",
        "collected 412 items / 3 deselected / 409 selected",
        "a sketch of the public key, not the private key",
        "",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor()(text) == text


@pytest.mark.req("AOP-269")
def test_known_values_are_masked_first_and_block_too() -> None:
    redact = Redactor(["hunter2"])
    text = "password=hunter2"
    assert redact(text) == "password=[redacted:known-value]"
    assert redact.secrets_in(text) == (SecretFinding(rule="known-value", start=9, end=16),)


def test_known_values_that_overlap_are_masked_as_one() -> None:
    assert Redactor(["abcdef", "defghi", "hi-jkl"])("x abcdefghi-jkl y abcdef") == (
        "x [redacted:known-value] y [redacted:known-value]"
    )


def test_names_and_values_of_json_are_masked_at_any_depth() -> None:
    known, mask = Redactor([MADE_UP]), "[redacted:known-value]"
    assert mask_json({MADE_UP: [{"a": MADE_UP}, 1, None]}, known) == {mask: [{"a": mask}, 1, None]}


def test_known_values_of_less_than_six_characters_are_ignored() -> None:
    assert Redactor(["abcde", "", "  \n", " abc  "])("abcde abc") == "abcde abc"


def test_each_longer_line_of_a_known_value_is_known_and_the_space_around_it_is_not() -> None:
    redact = Redactor(["  first-line-of-a-secret\nshort\nsecond-line-of-a-secret\n"])
    assert redact("> second-line-of-a-secret <") == "> [redacted:known-value] <"
    assert redact("> short <") == "> short <"
    assert redact("first-line-of-a-secret\nshort\nsecond-line-of-a-secret") == "[redacted:known-value]"


def test_a_known_value_longer_than_the_prefilter_looks_is_masked_only_as_a_whole() -> None:
    value = "same-beginning-for-all-of-them-" + MADE_UP
    assert Redactor([value])(f"{value[:-1]}_ {value}") == f"{value[:-1]}_ [redacted:known-value]"


@given(st.text(), st.text(min_size=6).filter(lambda value: len(value.strip()) >= 6), st.text())
def test_a_known_value_never_comes_through(before: str, value: str, after: str) -> None:
    assert value.strip() not in Redactor([value])(before + value + after).replace("[redacted:known-value]", "\0")


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_redacted_and_findings_lie_in_order_inside_it(text: str) -> None:
    whole = f"{text} password='{MADE_UP}' {text}"
    found = Redactor().find(whole)
    ends = [position for finding in found for position in (finding.start, finding.end)]
    assert ends == sorted(ends)
    assert 0 < len(found) <= len(whole)
    assert ends[-1] <= len(whole)


@given(st.text("=:'\"pasword tken[redcgni-]{}/@&?0123\n", max_size=60))
def test_what_was_redacted_once_stays_as_it_is(text: str) -> None:
    once = Redactor()(f"password={MADE_UP} token='{MADE_UP}' " + text)
    assert once.startswith("password=[redacted:bare-secret] token='[redacted:quoted-secret]'")
    assert Redactor()(once).startswith("password=[redacted:bare-secret] token='[redacted:quoted-secret]'")


def test_positions_count_characters_not_bytes() -> None:
    text = f"größe \ud800 → 'passwörd' password='pä{MADE_UP}'"
    (found,) = Redactor().find(text)
    assert text[found.start : found.end] == f"pä{MADE_UP}"


def test_rule_names_are_unique_and_keywords_are_in_lower_case() -> None:
    rules = (*RULES, *MASKING_RULES)
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(keyword == keyword.lower() for rule in rules for keyword in rule.keywords)


def test_importing_the_redactor_does_not_load_the_engine() -> None:
    program = "import sys, aop.core.redaction.redactor\nsys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=300).returncode == 0


@pytest.mark.unmeasured
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        pytest.param("-----BEGIN PRIVATE KEY-----\nName: value\n" + "x" * 33 + " ", id="private keys that do not end"),
        pytest.param("?sv=&sig=/?sp=%3D&", id="signatures that are none"),
        pytest.param("aws-secret_access.key-token", id="names without values"),
        pytest.param("://a:b", id="addresses without hosts"),
        pytest.param("Authorization: Bearer ", id="headers in headers"),
    ],
)
def test_two_megabytes_that_nearly_match_are_read_in_linear_time(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    assert len(Redactor()(text)) > 0

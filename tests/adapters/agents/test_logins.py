"""Log-ins of coding agents: what is taken from the user's home, what is refused, and what is reported."""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aop.adapters.agents.logins.connect_requests import Refused
from aop.adapters.agents.logins.credential_files import LARGEST
from aop.adapters.agents.logins.host_proxy import ProxyReport, open_proxy
from aop.adapters.agents.logins.login_sessions import LoginSession, proxy_text, renewed_copy
from aop.adapters.agents.logins.self_reports import SelfReport, price_of
from aop.adapters.agents.logins.vendor_logins import LOGINS, login_of
from aop.adapters.agents.vendors.catalogue import vendors_of
from aop.adapters.agents.vendors.launch import AgentSession
from aop.brains.prices import Price, Prices
from aop.core.errors import AgentLoginAmbiguous, AgentLoginExpired, AgentLoginMissing, AgentLoginUnsafe, Refusal
from aop.core.redaction.redactor import Redactor
from aop.core.roles import Role
from aop.kernel.config.agents import Provider
from aop.kernel.record.documents.usage import Usage

REFRESH = "rt-that-only-the-person-may-use-0123456789"
ACCESS = "at-that-lasts-a-while-0123456789"
FILES = {"claude": ".claude/.credentials.json", "codex": ".codex/auth.json", "gemini": ".gemini/oauth_creds.json"}


ENDPOINTS = {"claude": "ANTHROPIC_BASE_URL", "codex": "OPENAI_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}
FAMILIES = {"claude": "anthropic", "codex": "openai", "gemini": "google"}


def jwt(**claims: Any) -> str:
    return f"e30.{urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


def codex_tokens(ends: float, account: str = "acc-1") -> dict[str, Any]:
    named = {"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}}
    person = {"email": "person@vendor.example", **named}
    tokens = {"id_token": jwt(**person), "access_token": jwt(exp=ends, **named), "refresh_token": REFRESH}
    return {"OPENAI_API_KEY": None, "tokens": {**tokens, "account_id": account}, "last_refresh": "2026-01-01T00:00:00Z"}


def content(vendor: str, seconds: float = 3600) -> dict[str, Any]:
    ends = time.time() + seconds
    match vendor:
        case "claude":
            kept = {
                "accessToken": ACCESS,
                "refreshToken": REFRESH,
                "expiresAt": int(ends * 1000),
                "new": "kept out",
            }
            return {"claudeAiOauth": {**kept, "subscriptionType": "max"}, "mcpOAuth": {"x": {"accessToken": "other"}}}
        case "codex":
            return codex_tokens(ends)
    return {"access_token": ACCESS, "refresh_token": REFRESH, "expiry_date": int(ends * 1000)}


def logged_in(home: Path, vendor: str, file: Mapping[str, Any] | None = None) -> Path:
    path = home / FILES[vendor]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(content(vendor) if file is None else file))
    return path


def env(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "AOP_AGENTS_HOME": str(home / "agents"), "PATH": os.environ["PATH"]}


# --- the copy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", FILES)
def test_a_turn_gets_the_credentials_that_it_needs_and_no_others(tmp_path: Path, vendor: str) -> None:
    logged_in(tmp_path, vendor)
    copy = LOGINS[Provider(vendor)].copy_from(env(tmp_path))
    text = json.dumps(copy.files)
    # Google's refresh token is not used up, and its access token lasts an hour.
    assert (REFRESH in text) == (vendor == "gemini")
    assert "kept out" not in text
    assert "mcpOAuth" not in text
    assert (copy.account, copy.expires_at is None) == {
        "claude": ("max", False),
        "codex": ("person@vendor.example", False),
        "gemini": ("", True),
    }[vendor]
    masked = Redactor()
    masked.learn(copy.secrets)
    assert ACCESS not in masked(text)
    assert ACCESS not in repr(copy)


def test_the_folder_that_a_variable_names_is_the_one_of_the_log_in(tmp_path: Path) -> None:
    logged_in(tmp_path / "elsewhere", "codex")
    moved = {**env(tmp_path), "CODEX_HOME": str(tmp_path / "elsewhere/.codex")}
    assert LOGINS[Provider.CODEX].copy_from(moved).account == "person@vendor.example"


# --- what is refused -------------------------------------------------------------------------------


def open_to_others(path: Path) -> None:
    path.chmod(0o640)


def a_link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def behind_a_link(path: Path) -> None:
    path.parent.rename(path.parent.with_name("real"))
    path.parent.symlink_to("real")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def too_large(path: Path) -> None:
    path.write_text(path.read_text() + " " * LARGEST)


def absent(path: Path) -> None:
    path.unlink()


def not_json(path: Path) -> None:
    path.write_text("{")


def a_key(path: Path) -> None:
    path.write_text(json.dumps({"OPENAI_API_KEY": "sk-of-a-person-0123456789", "tokens": None}))


def two_accounts(path: Path) -> None:
    path.write_text(json.dumps(codex_tokens(time.time() + 3600, account="acc-2")))


WRONG: dict[Callable[[Path], None], tuple[type[Refusal], str]] = {
    open_to_others: (AgentLoginUnsafe, "can be reached by other users: its mode is 0640."),
    a_link: (AgentLoginUnsafe, "is behind a link, which AOP does not follow."),
    behind_a_link: (AgentLoginUnsafe, "is behind a link, which AOP does not follow."),
    a_folder: (AgentLoginUnsafe, "is not a plain file."),
    too_large: (AgentLoginUnsafe, "is larger than 65536 bytes"),
    absent: (AgentLoginMissing, "holds no log-in of `codex`."),
    not_json: (AgentLoginMissing, "is not a JSON object."),
    a_key: (AgentLoginMissing, "holds no log-in of `codex`."),
    two_accounts: (AgentLoginAmbiguous, "names two accounts: `acc-2` and `acc-1`."),
}


@pytest.mark.parametrize("spoil", WRONG, ids=lambda spoil: spoil.__name__)
def test_a_log_in_that_cannot_be_used_is_refused_by_its_name(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(logged_in(tmp_path, "codex"))
    refusal, words = WRONG[spoil]
    with pytest.raises(refusal) as refused:
        LOGINS[Provider.CODEX].copy_from(env(tmp_path))
    assert words in refused.value.message
    assert "chmod 600" in refused.value.next_action or "aop agents login" in refused.value.hint
    assert "sk-of-a-person" not in refused.value.message


def test_the_account_of_gemini_is_the_one_that_its_tokens_are_of(tmp_path: Path) -> None:
    logged_in(tmp_path, "gemini", {**content("gemini"), "id_token": jwt(email="one@vendor.example")})
    accounts = tmp_path / ".gemini/google_accounts.json"
    accounts.touch(mode=0o600)
    accounts.write_text(json.dumps({"active": "one@vendor.example", "old": ["before@vendor.example"]}))
    copy = LOGINS[Provider.GEMINI].copy_from(env(tmp_path))
    assert (copy.account, "before@" in json.dumps(copy.files)) == ("one@vendor.example", False)
    accounts.write_text(json.dumps({"active": "two@vendor.example"}))
    with pytest.raises(AgentLoginAmbiguous):
        LOGINS[Provider.GEMINI].copy_from(env(tmp_path))


# --- renewal ---------------------------------------------------------------------------------------


def renewing_program(folder: Path, new: str) -> str:
    """Return a program that renews the log-in of Claude in its user's home, and counts its starts."""
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\necho run >>{folder}/starts\n{new}\n")
    path.chmod(0o700)
    return str(path)


def test_a_log_in_that_ends_soon_is_renewed_where_it_is_and_once(tmp_path: Path) -> None:
    logged_in(tmp_path, "claude", content("claude", seconds=120))
    (tmp_path / "new").write_text(json.dumps(content("claude", seconds=3600)))
    program = renewing_program(tmp_path, 'cat "$HOME/new" >"$HOME/.claude/.credentials.json"')
    copy, _ = (renewed_copy(LOGINS[Provider.CLAUDE], program, env(tmp_path)) for _ in range(2))
    assert (copy.expires_at or 0) > time.time() + 3000
    assert (tmp_path / "starts").read_text() == "run\n"


@pytest.mark.parametrize("does", ["true", 'echo "{}" >"$HOME/.claude/.credentials.json"', "exit 1"])
def test_a_log_in_that_its_program_does_not_renew_has_expired(tmp_path: Path, does: str) -> None:
    logged_in(tmp_path, "claude", content("claude", seconds=-1))
    with pytest.raises(AgentLoginExpired) as refused:
        renewed_copy(LOGINS[Provider.CLAUDE], renewing_program(tmp_path, does), env(tmp_path))
    assert refused.value.next_action == "Log in again with `aop agents login claude`."


def test_a_log_in_that_still_lasts_a_little_is_used_where_it_cannot_be_renewed(tmp_path: Path) -> None:
    logged_in(tmp_path, "claude", content("claude", seconds=120))
    assert renewed_copy(LOGINS[Provider.CLAUDE], None, env(tmp_path)).account == "max"


# --- the launch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", FILES)
def test_a_launch_with_a_log_in_has_no_key_and_no_address_of_a_meter(tmp_path: Path, vendor: str) -> None:
    session = AgentSession(
        role=Role.BUILDER,
        model=None,
        home=tmp_path,
        tree=tmp_path,
        mcp_url="http://127.0.0.1:1/mcp",
        token="a-token",
        model_url="http://127.0.0.1:2",
        model_key="a-placeholder",
        sandboxed=True,
    )
    row = vendors_of(None, {})[vendor]
    launch = LOGINS[row.provider].adapt(row.launch(session))
    assert not {row.row.key_variable, ENDPOINTS[vendor]} & set(launch.env)
    assert "a-placeholder" not in json.dumps([*launch.words, *launch.files.values(), *launch.env.values()])
    chosen = {
        "claude": launch.words[0] == "-p",
        "codex": 'model_provider="openai"' in launch.words and launch.words[-1] == "-",
        "gemini": '"selectedType":"oauth-personal"' in launch.files.get(".gemini/settings.json", ""),
    }
    assert chosen[vendor]


# --- usage -----------------------------------------------------------------------------------------

REPLY = {
    "type": "assistant",
    "message": {"id": "m1", "model": "fable", "usage": {"input_tokens": 4, "output_tokens": 1}},
}
CACHED = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5}
REPORTS: dict[str, list[tuple[dict[str, Any], Usage]]] = {
    "claude": [
        ({"type": "system"}, Usage(self_reported=True)),
        (REPLY, Usage(input_tokens=4, output_tokens=1, cached_input_tokens=0, cost_usd=6e-6, self_reported=True)),
        (REPLY, Usage(input_tokens=4, output_tokens=1, cached_input_tokens=0, cost_usd=6e-6, self_reported=True)),
        (
            {"type": "result", "usage": CACHED, "total_cost_usd": 0.5},
            Usage(input_tokens=100, output_tokens=2, cached_input_tokens=90, cost_usd=0.5, self_reported=True),
        ),
    ],
    "codex": [
        (
            {"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 3, "output_tokens": 1}},
            Usage(input_tokens=9, output_tokens=1, cached_input_tokens=3, self_reported=True),
        ),
    ],
    "gemini": [
        (
            {
                "type": "result",
                "stats": {"input_tokens": 8, "output_tokens": 2, "cached": 1, "models": {"fable": {"input": 8}}},
            },
            Usage(input_tokens=8, output_tokens=2, cached_input_tokens=1, cost_usd=1.2e-5, self_reported=True),
        ),
    ],
}


@pytest.mark.parametrize("vendor", REPORTS)
def test_usage_is_what_the_program_reports_reply_by_reply(tmp_path: Path, vendor: str) -> None:
    row, log = vendors_of(None, {})[vendor], tmp_path / "builder.log"
    prices = Prices({f"{FAMILIES[vendor]}:fable": Price(input=1, output=2)})
    report = SelfReport(log, LOGINS[row.provider].report, price_of(prices, FAMILIES[vendor], None))
    assert report.usage() == Usage(self_reported=True)
    for line, usage in REPORTS[vendor]:
        with log.open("a") as growing:
            growing.write(f"A word of its own.\n{json.dumps(line)}\n" + '{"type": "half of a li')
        assert report.usage() == usage
        with log.open("a") as growing:
            growing.write('ne"}\n')


@pytest.mark.parametrize("vendor", REPORTS)
@pytest.mark.parametrize(
    "line",
    [7, [], {}, {"type": 1}, {"type": "result", "usage": "much", "stats": []}, {"type": "turn.completed"}],
    ids=str,
)
def test_a_report_in_another_format_is_unknown_and_never_nothing(tmp_path: Path, vendor: str, line: object) -> None:
    (tmp_path / "builder.log").write_text(json.dumps(line) + "\n")
    report = SelfReport(tmp_path / "builder.log", LOGINS[vendor].report, lambda _model, _tokens: 0.0)
    assert report.usage() == Usage(self_reported=True)


@pytest.mark.parametrize(("left", "reason"), [(5, ""), (4, "It reached the cap of its feature")])
def test_a_turn_ends_after_the_reply_that_reaches_the_cap(tmp_path: Path, left: int, reason: str) -> None:
    log, login = tmp_path / "builder.log", LOGINS["claude"]
    logged_in(tmp_path, "claude")
    report = SelfReport(log, login.report, lambda _model, _tokens: None)
    with open_proxy(login.hosts) as proxy:
        session = LoginSession(
            login, login.copy_from(env(tmp_path)), proxy, report, lambda usage: (usage.input_tokens or 0) >= left
        )
        ends_early = session.ends_early(lambda _silent: "")
        assert ends_early(0.0) == ""
        log.write_text(json.dumps(REPLY) + "\n")
        assert ends_early(0.0).startswith(reason)
        assert bool(ends_early(0.0)) == bool(reason)
    session.write_credentials(tmp_path / "private")
    written = tmp_path / "private/.claude/.credentials.json"
    assert (written.stat().st_mode & 0o777, REFRESH in written.read_text()) == (0o400, False)


SESSION_LINES = {
    "codex": {"type": "token_usage_record", "payload": {"turn_id": "t1", "turn_token_usage": {"input_tokens": 9}}},
    "gemini": {"type": "gemini", "id": "g1", "tokens": {"input": 9, "output": 1, "thoughts": 2}, "model": "fable"},
}


@pytest.mark.parametrize("vendor", SESSION_LINES)
def test_a_program_that_prints_its_usage_at_the_end_is_stopped_by_what_its_session_file_says_of_each_reply(
    tmp_path: Path, vendor: str
) -> None:
    log, login = tmp_path / "builder.log", LOGINS[vendor]
    home = tmp_path / "home"
    logged_in(tmp_path, vendor)
    sessions = home / login.sessions / "2026"
    sessions.mkdir(parents=True)
    (sessions / "an-earlier-turn.jsonl").write_text(json.dumps(SESSION_LINES[vendor]) + "\n")
    report = SelfReport(log, login.report, lambda _model, _tokens: None)
    with open_proxy(login.hosts) as proxy:
        copy = login.copy_from(env(tmp_path))
        session = LoginSession(login, copy, proxy, report, lambda usage: (usage.input_tokens or 0) >= 9)
        session.write_credentials(home)
        ends_early = session.ends_early(lambda _silent: "")
        assert ends_early(0.0) == ""
        (sessions / "this-turn.jsonl").write_text('{"type": "other"}\n' + json.dumps(SESSION_LINES[vendor]) + "\n")
        assert ends_early(0.0).startswith("It reached the cap of its feature")


def test_links_pipes_and_floods_in_the_place_of_a_session_file_are_not_read(tmp_path: Path) -> None:
    sessions, elsewhere = tmp_path / "sessions", tmp_path / "elsewhere"
    line = json.dumps(SESSION_LINES["codex"]) + "\n"
    for folder in (sessions, elsewhere):
        folder.mkdir()
    (elsewhere / "a.jsonl").write_text(line)
    (sessions / "link.jsonl").symlink_to(elsewhere / "a.jsonl")
    (sessions / "folder").symlink_to(elsewhere)
    os.mkfifo(sessions / "pipe.jsonl")
    (tmp_path / "linked").symlink_to(elsewhere)
    for followed in (sessions, tmp_path / "linked"):
        report = SelfReport(tmp_path / "builder.log", LOGINS["codex"].report, lambda _model, _tokens: None)
        report.follow(followed)
        assert report.usage() == Usage(self_reported=True)
    report = SelfReport(tmp_path / "builder.log", LOGINS["codex"].report, lambda _model, _tokens: None)
    report.follow(sessions)
    (sessions / "flood.jsonl").write_bytes(b"x" * (40 * 2**20) + b"\n" + line.encode())
    looks = [report.usage().input_tokens for _ in range(4)]
    assert (looks[0], looks[-1]) == (None, 9)


def test_a_row_that_is_not_as_aop_ships_it_gets_no_log_in() -> None:
    own = vendors_of(None, {})["claude"]
    changed = replace(own, row=replace(own.row, command=("another-program",)))
    assert (login_of(own), login_of(changed)) == (LOGINS["claude"], None)


def test_the_log_of_a_proxy_names_hosts_and_refusals() -> None:
    refused = {(Refused.OTHER_HOST, "example.com"): 2, (Refused.NO_TOKEN, ""): 1}
    report = ProxyReport(connections={"api.vendor.example": 1}, sent_bytes=10, received_bytes=20, refused=refused)
    assert proxy_text(report).splitlines() == [
        "Connected 1 time to api.vendor.example.",
        "10 bytes were sent, 20 received.",
        "Refused 2 times: example.com: not a host of this vendor.",
        "Refused 1 time: a connection: without the token of this turn.",
    ]

"""Real coding agents with their own log-ins: doubles of their vendors behind TLS, reached through AOP's proxy alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from aop.adapters.agents.logins.host_proxy import open_proxy
from aop.adapters.agents.logins.vendor_logins import LOGINS
from aop.core.roles import Role
from tests.real.conftest import BIN
from tests.real.fake_vendors import Asked, Call, Says
from tests.real.login_turn import FEATURE, NOTE, network_of
from tests.real.login_vendors import TOKEN_HOSTS, LoginTokens, LoginVendors, log_in, login_vendors
from tests.real.scenes import SECONDS, agent_environments, called, files_with, needs, requests_of, works
from tests.world import FILES, make_repository, run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

EXPIRED = -60.0
MANY_REPLIES = 60
NO_FILES: Mapping[str, str] = {}


class Desk(Struct, frozen=True, kw_only=True):
    """A repository, the home of a person with a log-in, and the vendor's double."""

    vendor: str
    root: Path
    home: Path
    file: Path
    tokens: LoginTokens
    model: LoginVendors
    person_proxy: str

    @property
    def environ(self) -> Mapping[str, str]:
        certificate = str(self.model.certificate)
        trusted = {"NODE_EXTRA_CA_CERTS": certificate, "SSL_CERT_FILE": certificate}
        path = f"{BIN}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.home), "HTTPS_PROXY": self.person_proxy, **trusted}

    def process(self, module: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a module, which gets the repository and the port of the double before its words."""
        ran = subprocess.run(
            [sys.executable, "-m", module, str(self.root), str(self.model.server_port), *words],
            cwd=Path(__file__).parents[2],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert not [value for value in self.tokens.values if value in ran.stdout + ran.stderr]
        return ran

    def turn(self, role: Role) -> Any:
        """Run one turn of a role; return what it answered, or how it was refused."""
        ran = self.process("tests.real.login_turn", self.vendor, role)
        assert ran.returncode == 0, (ran.stderr, logs(self), requests_of(self.model))
        return json.loads(ran.stdout)

    @property
    def proxy_log(self) -> str:
        return "\n".join(text for name, text in logs(self).items() if name.endswith("-proxy.log"))


class Watch:
    """A model that looks for a text in the private homes of agents whenever it is asked."""

    def __init__(self, folder: Path, secret: str) -> None:
        self._folder, self._secret = folder, secret
        self.agents = 0
        self.holders: list[Path] = []

    def says(self, asked: Asked) -> Call | str:
        self.agents += len(agent_environments(self._folder))
        self.holders += files_with(self._secret, self._folder / "repo" / ".aop")
        return "done" if asked.results else called(asked, "submit_note", {"feature_id": FEATURE, "note": NOTE})


@contextmanager
def desk(
    vendor: str, folder: Path, *, seconds: float, says: Says | None = None, files: Mapping[str, str] = NO_FILES
) -> Iterator[tuple[Desk, Watch]]:
    """Log a person in for so many seconds."""
    needs(vendor)
    tokens, home = LoginTokens(vendor), folder / "home"
    allowed = f"version: 1\nlogin: {{{vendor}: true}}\n"
    root = make_repository(folder / "repo", {**FILES, "agentic/orchestrator/agents.yaml": allowed, **files})
    watch = Watch(folder, tokens.refresh)
    file = log_in(vendor, home, tokens, seconds=seconds)
    with login_vendors(says or watch.says, tokens, folder / "authority") as model:
        hosts = LOGINS[vendor].hosts | {TOKEN_HOSTS[vendor]}
        with open_proxy(hosts, network_of(model.server_port)) as own:
            yield (
                Desk(
                    vendor=vendor,
                    root=root,
                    home=home,
                    file=file,
                    tokens=tokens,
                    model=model,
                    person_proxy=own.url,
                ),
                watch,
            )


def logs(desk: Desk) -> dict[str, str]:
    return {path.name: path.read_text()[-3000:] for path in (desk.root / ".aop/logs").rglob("*.log")}


def leaks(desk: Desk) -> list[Path]:
    """Return the files of the repository that hold a value of the log-in."""
    return [path for value in desk.tokens.values for path in files_with(value, desk.root)]


@pytest.mark.parametrize("vendor", TOKEN_HOSTS)
def test_an_agent_works_with_its_own_log_in_and_reports_its_usage_itself(tmp_path: Path, vendor: str) -> None:
    with desk(vendor, tmp_path, seconds=3600) as (at, watch):
        before = at.file.read_bytes()
        output = at.turn(Role.PLANNER)
    assert output["note"] == NOTE, (output, logs(at), requests_of(at.model))
    told = output["usage"]
    assert (told["input_tokens"], told["self_reported"]) == (10 * len(at.model.asked), True)
    assert at.model.keys == {at.tokens.access}
    assert (at.file.read_bytes(), at.model.renewals) == (before, [])
    assert "Refused" not in at.proxy_log
    assert leaks(at) == []
    assert bool(watch.holders) == (vendor == "gemini")


@pytest.mark.parametrize("vendor", TOKEN_HOSTS)
def test_a_log_in_that_expires_is_renewed_by_its_own_program_and_the_person_stays_logged_in(
    tmp_path: Path, vendor: str
) -> None:
    with desk(vendor, tmp_path, seconds=EXPIRED) as (at, watch):
        output = at.turn(Role.PLANNER)
    assert output.get("note") == NOTE, (output, logs(at), requests_of(at.model))
    assert at.model.renewals == [at.tokens.refresh]
    assert at.tokens.next_refresh in at.file.read_text()
    assert at.model.keys == {at.tokens.next_access}
    assert leaks(at) == []
    assert bool(watch.holders) == (vendor == "gemini")


@pytest.mark.parametrize("vendor", ["claude", "codex"])
def test_a_log_in_that_cannot_be_renewed_is_refused_by_its_name(tmp_path: Path, vendor: str) -> None:
    with desk(vendor, tmp_path, seconds=EXPIRED) as (at, _):
        at.model.is_refusing = True
        output = at.turn(Role.PLANNER)
    assert output.get("refused") == "agent_login_expired", output
    assert output["next"] == f"Log in again with `aop agents login {vendor}`."


@pytest.mark.parametrize("vendor", TOKEN_HOSTS)
def test_a_turn_with_a_log_in_ends_after_the_reply_that_reaches_its_cap(tmp_path: Path, vendor: str) -> None:
    policy = {"agentic/orchestrator/policy.yaml": "version: 1\ncost: {max_tokens_per_feature: 15}\n"}
    with desk(vendor, tmp_path, seconds=3600, says=_reads_for_ever, files=policy) as (at, _):
        output = at.turn(Role.BUILDER)
    assert "It reached the cap of its feature" in output.get("message", ""), (output, logs(at))
    assert len(at.model.asked) < MANY_REPLIES
    assert leaks(at) == []


@pytest.mark.parametrize("vendor", TOKEN_HOSTS)
def test_a_whole_run_with_a_log_in_goes_from_spec_to_merge(tmp_path: Path, vendor: str) -> None:
    spec = tmp_path / "good.md"
    spec.write_text("Write good.\n")
    with desk(vendor, tmp_path, seconds=3600, says=works) as (at, _):
        ran = at.process("tests.real.login_run", "-fi", str(spec), "--wait", "--agent-provider", vendor)
    assert ran.returncode == 0, (ran.stdout, ran.stderr, logs(at), requests_of(at.model))
    assert "Refused" not in at.proxy_log
    shown = run_aop(at.root, "status", "good")
    assert "self-reported" in shown.out
    merged = run_aop(at.root, "merge", "good", "--yes")
    assert merged.code == 0, (merged.out, merged.err)
    assert at.model.keys == {at.tokens.access}
    assert leaks(at) == []


def _reads_for_ever(asked: Asked) -> Call | str:
    tools = {"list_directory": {"dir_path": "."}, "Glob": {"pattern": "*"}, "exec_command": {"cmd": "ls"}}
    tool = next((name for name in tools if name in asked.offered), None)
    if len(asked.results) >= MANY_REPLIES:
        return "done"
    return Call(name="exec", arguments={}, code="text('')") if tool is None else Call(name=tool, arguments=tools[tool])


# The shells of the other two are not told of the proxy.
def test_the_shell_of_an_agent_reaches_no_other_host_through_the_proxy(tmp_path: Path) -> None:
    with desk("claude", tmp_path, seconds=3600, says=_knocks) as (at, _):
        output = at.turn(Role.BUILDER)
    patch = output.get("unified_diff", "")
    answers = re.findall(r"^\+(HTTP/1.1 \d+|nothing)", patch, re.MULTILINE)
    assert answers == ["HTTP/1.1 403", "HTTP/1.1 403", "HTTP/1.1 403", "HTTP/1.1 407"], (output, logs(at))
    for line in ("example.com: not a host", "93.184.215.14: an address", "without the token"):
        assert line in at.proxy_log
    assert leaks(at) == []


KNOCK = r"""
knock() {
  exec 3<>"/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:}"
  printf 'CONNECT %s HTTP/1.1\r\nProxy-Authorization: Basic %s\r\n\r\n' "$1" "$2" >&3
  read -r -t 10 line <&3 && echo "${line:0:12}" || echo nothing
}
who="${HTTPS_PROXY#http://}"
key="$(printf %s "${who%@*}" | base64 -w0)"
for to in example.com:443 93.184.215.14:443 api.anthropic.com:80; do knock "$to" "$key"; done >src/good.txt
knock api.anthropic.com:443 d3Jvbmc6d3Jvbmc= >>src/good.txt
"""


def _knocks(asked: Asked) -> Call | str:
    tool = asked.tool("Bash")
    if asked.results or tool is None:
        return "done"
    return Call(name=tool, arguments={"command": f"bash -c '{_quoted(KNOCK)}'", "description": "Knock."})


def _quoted(script: str) -> str:
    return script.replace("'", "'\\''")

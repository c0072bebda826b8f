"""Login sessions: turns of a coding agent that works with its own log-in.

The agent gets a copy of its credentials, and a proxy that reaches the hosts of its vendor. Nothing counts its requests:
tokens and cost are those that it reports.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from aop.adapters.agents.logins.destinations import MACHINE_NETWORK, Network
from aop.adapters.agents.logins.host_proxy import HostProxy, ProxyReport, open_proxy
from aop.adapters.agents.logins.self_reports import SelfReport, price_of
from aop.adapters.agents.logins.vendor_logins import LOGINS, LoginCopy, VendorLogin, login_of
from aop.adapters.agents.turn_logs import AGENT_LOGS, fresh_log, turn_log
from aop.adapters.agents.vendors.catalogue import Vendor
from aop.adapters.agents.vendors.launch import Launch
from aop.adapters.agents.vendors.programs import agents_folder, installed_program
from aop.adapters.files.locks import locked_file
from aop.adapters.machine.agent_signs import SIGNS
from aop.adapters.machine.sockets import LOOPBACK
from aop.core.errors import AgentLoginExpired, AgentLoginMissing, NoUsableAnswer
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.usage import Usage
from aop.kernel.record.spending import left_of_caps, reaches_cap

CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
"""Variables that name further certificate authorities; an agent needs those that its user needs."""
_DIRECT = f"{LOOPBACK},localhost"
_RENEWED_BEFORE_SECONDS = 300.0
"""The programs renew a log-in this long before it expires."""
_RENEWAL_SECONDS = 120.0
_OVER_CAP = "It reached the cap of its feature, as it reports itself."


class LoginSession:
    """The access of one turn to its model."""

    placeholder_key = ""

    def __init__(
        self,
        login: VendorLogin,
        copy: LoginCopy,
        proxy: HostProxy,
        report: SelfReport,
        is_over: Callable[[Usage], bool],
    ) -> None:
        self._login = login
        self._copy = copy
        self._proxy = proxy
        self._report = report
        self._is_over = is_over
        self._home: Path | None = None

    @property
    def base_url(self) -> str:
        """Return the address of the proxy, without its token: all that the agent reaches beside AOP's tools."""
        return f"http://{LOOPBACK}:{self._proxy.port}"

    def launch(self, launch: Launch, environ: Mapping[str, str]) -> Launch:
        """Return a launch with the log-in in place of a key."""
        adapted = self._login.adapt(launch)
        own = {name: environ[name] for name in CERTIFICATES if environ.get(name)}
        url = self._proxy.url
        proxy = {"HTTPS_PROXY": url, "https_proxy": url, "NO_PROXY": _DIRECT, "no_proxy": _DIRECT}
        return replace(adapted, env={**adapted.env, **own, **proxy})

    def write_credentials(self, home: Path) -> None:
        """Write the copy into the private home of a turn; what the program makes of it there is discarded."""
        self._home = Path(os.path.realpath(home))
        for name, content in self._copy.files.items():
            path = home / self._login.folder / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_bytes(msgspec.json.encode(content))
            # A program that renews in the turn writes its copy.
            path.chmod(0o600 if self._copy.expires_at is None else 0o400)

    def usage(self) -> Usage:
        """Return what the program has reported so far."""
        return self._report.usage()

    def ends_early(self, watch: Callable[[float], str]) -> Callable[[float], str]:
        """Return a watch that also ends the turn after the reply that reaches the feature's cap."""
        if self._home is not None and self._login.sessions:
            self._report.follow(self._home / self._login.sessions)
        return lambda silent: watch(silent) or (_OVER_CAP if self._is_over(self.usage()) else "")

    def clearest_fault(self, fault: NoUsableAnswer) -> NoUsableAnswer:
        """Return the fault of a turn, or that its log-in expired, which explains it better."""
        if self._copy.expires_at is None or time.time() < self._copy.expires_at:
            return fault
        facts: Mapping[str, Any] = fault.facts
        return AgentLoginExpired(f"The log-in of `{self._login.provider}` expired during the turn.", **facts)


class Logins(Struct, frozen=True, kw_only=True):
    """The log-ins of this machine that the configuration allows to use."""

    kernel: Kernel
    root: Path
    environ: Mapping[str, str]
    network: Network = MACHINE_NETWORK

    def is_on(self, vendor: Vendor) -> bool:
        """Tell whether an agent works with its own log-in."""
        return login_of(vendor) is not None and self.kernel.config().agents.uses_login(vendor.provider)

    def check(self, vendor: Vendor) -> None:
        """Refuse a log-in that cannot be used. Raises: the refusals of a log-in."""
        LOGINS[vendor.provider].copy_from(self.environ)

    @contextmanager
    def open(self, vendor: Vendor, feature_id: FeatureId, role: Role, model: str | None) -> Iterator[LoginSession]:
        """Open the way to a vendor for one turn. Raises: the refusals of a log-in."""
        from aop.adapters.models.settings import known_prices

        login = LOGINS[vendor.provider]
        copy = renewed_copy(login, installed_program(vendor, self.environ), self.environ)
        self.kernel.redact.learn(copy.secrets)
        with self.kernel.record.read() as view:
            dollars, tokens = left_of_caps(view, self.kernel.config().policy.cost, feature_id)
        logs = self.root / AGENT_LOGS
        family = vendor.row.endpoint.family if vendor.row.endpoint else ""
        cost = price_of(known_prices(self.environ), family, model)
        report = SelfReport(turn_log(logs, feature_id, role), login.report, cost)
        with open_proxy(login.hosts, self.network) as proxy:
            self.kernel.redact.learn([proxy.token])
            try:
                yield LoginSession(
                    login, copy, proxy, report, lambda usage: reaches_cap(usage, dollars=dollars, tokens=tokens)
                )
            finally:
                # The agent chooses the names that it asks for.
                text = self.kernel.redact(proxy_text(proxy.report()))
                fresh_log(logs, feature_id, f"{role}-proxy").write_text(text)


def proxy_text(report: ProxyReport) -> str:
    """Return the lines of a turn's log about its proxy."""
    lines = [f"Connected {count(n, 'time')} to {host}." for host, n in sorted(report.connections.items())]
    lines.append(f"{report.sent_bytes} bytes were sent, {report.received_bytes} received.")
    refused = sorted(report.refused.items())
    lines += [f"Refused {count(n, 'time')}: {host or 'a connection'}: {reason}." for (reason, host), n in refused]
    return "\n".join(lines) + "\n"


def renewed_copy(login: VendorLogin, program: str | None, environ: Mapping[str, str]) -> LoginCopy:
    """Return a copy that has not expired; where it is about to, the program renews its log-in in the user's home.

    That is the program's own doing, as whenever the user starts it: only there a new refresh token replaces the old
    one, which is worthless from then on. It gets fixed words, and nothing of a feature.

    Raises: the refusals of a log-in.
    """
    copy = login.copy_from(environ)
    if not _is_ending(copy):
        return copy
    if program is not None and login.renewal:
        folder = agents_folder(environ)
        folder.mkdir(parents=True, exist_ok=True)
        with locked_file(folder / f"{login.provider}-login.lock"):
            copy = login.copy_from(environ)
            if _is_ending(copy):
                _run_once(program, login, environ)
                copy = _copy_after_renewal(login, environ)
    if copy.expires_at is not None and copy.expires_at <= time.time():
        raise _expired(login)
    return copy


def _copy_after_renewal(login: VendorLogin, environ: Mapping[str, str]) -> LoginCopy:
    try:
        return login.copy_from(environ)
    except AgentLoginMissing as refusal:
        # A program that cannot renew its log-in may take it away.
        raise _expired(login) from refusal


def _expired(login: VendorLogin) -> AgentLoginExpired:
    return AgentLoginExpired(
        f"The log-in of `{login.provider}` has expired, and its program did not renew it.",
        hint=f"Log in again with `aop agents login {login.provider}`.",
        provider=login.provider,
    )


def _is_ending(copy: LoginCopy) -> bool:
    return copy.expires_at is not None and copy.expires_at - time.time() < _RENEWED_BEFORE_SECONDS


def _run_once(program: str, login: VendorLogin, environ: Mapping[str, str]) -> None:
    """Start the program as its user would, in an empty folder; whether it renewed its log-in is seen in its file."""
    env = own_environment(environ)
    with tempfile.TemporaryDirectory(prefix="aop-login-") as folder, suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [program, *login.renewal],
            check=False,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_RENEWAL_SECONDS,
        )


def run_own_login(program: str, login: VendorLogin, environ: Mapping[str, str], *, output: int | None) -> None:
    """Let the program log its user in, in this terminal; whether it did is seen in its file."""
    with suppress(OSError):
        subprocess.run([program, *login.command], check=False, env=own_environment(environ), stdout=output)


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment for the user's own program: without a key, which it would prefer to its log-in."""
    keys = {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", *SIGNS}
    return {name: text for name, text in environ.items() if name not in keys}

"""Targets of notifications: bell, desktop, webhook, Slack and ntfy."""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from aop.adapters.reporting.http_post import Post, post
from aop.core.clock import Clock, timestamp
from aop.core.exit_codes import exit_words
from aop.kernel.config.people import NotificationTarget
from aop.supervisor.notices import Notice

Send: TypeAlias = Callable[[Notice], None]
APPLE_SCRIPT = "on run argv\n display notification (item 2 of argv) with title (item 1 of argv)\nend run"
"""The texts are arguments; they are not parsed as a script."""


class TargetUnreachable(Exception):
    """A target was not reached; the reason names no address and no key. A temporary failure may be retried."""

    def __init__(self, why: str, *, for_now: bool = False) -> None:
        super().__init__(why)
        self.for_now = for_now


class Machine(Struct, frozen=True, kw_only=True):
    """The parts of this machine that targets use."""

    environ: Mapping[str, str]
    clock: Clock
    timeout_seconds: float


def sender_for(target: NotificationTarget, machine: Machine) -> Send:
    """Return the function that sends a notice to a target; it raises `TargetUnreachable`."""
    ways: Mapping[str, Callable[[Notice, NotificationTarget, Machine], None]] = {
        "bell": _ring_bell,
        "desktop": _show_on_desktop,
        "webhook": _webhook,
        "slack": _slack,
        "ntfy": _ntfy,
    }
    return lambda notice: ways[target.type](notice, target, machine)


def signature(secret: str, at: str, body: bytes) -> str:
    """Return the signature of a webhook: HMAC-SHA256 over the time, a full stop, and the body."""
    return "sha256=" + hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def _ring_bell(_notice: Notice, _target: NotificationTarget, _machine: Machine) -> None:
    if not sys.stderr.isatty():
        raise TargetUnreachable("There is no terminal to ring.")
    sys.stderr.write("\a")
    sys.stderr.flush()


def _show_on_desktop(notice: Notice, _target: NotificationTarget, machine: Machine) -> None:
    path = machine.environ.get("PATH", os.defpath)
    title, text = f"AOP: {notice.title}", _with_link(notice)
    # The desktop parses markup.
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    programs = {"notify-send": ["--app-name=AOP", "--", title, escaped], "osascript": ["-e", APPLE_SCRIPT, title, text]}
    found = [(shutil.which(name, path=path), words) for name, words in programs.items()]
    program, words = next(((program, words) for program, words in found if program), (None, []))
    if program is None:
        raise TargetUnreachable("Neither `notify-send` nor `osascript` is installed.")
    try:
        done = subprocess.run(
            [program, *words],
            env=dict(machine.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=machine.timeout_seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetUnreachable(f"The desktop was not reached: {type(error).__name__}.", for_now=True) from error
    if done.returncode:
        raise TargetUnreachable(f"`{os.path.basename(program)}` ended with {exit_words(done.returncode)}.")


def _webhook(notice: Notice, target: NotificationTarget, machine: Machine) -> None:
    now = machine.clock.now()
    body = msgspec.json.encode({**msgspec.to_builtins(notice), "at": timestamp(now)})
    at = str(int(now.timestamp()))
    headers = {
        "Content-Type": "application/json",
        "X-AOP-Event": notice.event_id,
        "X-AOP-Timestamp": at,
        "X-AOP-Signature": signature(_variable(target.secret_env, machine), at, body),
    }
    _post(target, machine, headers, body)


def _slack(notice: Notice, target: NotificationTarget, machine: Machine) -> None:
    text = f"AOP: {notice.title}\n{_with_link(notice)}"
    # In Slack, links and mentions of everyone start with `<`.
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    _post(target, machine, {"Content-Type": "application/json"}, msgspec.json.encode({"text": escaped}))


def _ntfy(notice: Notice, target: NotificationTarget, machine: Machine) -> None:
    headers = {"Content-Type": "text/plain; charset=utf-8", "Title": f"AOP: {notice.title}"}
    if notice.url:
        headers["Click"] = notice.url
    if target.secret_env:
        headers["Authorization"] = f"Bearer {_variable(target.secret_env, machine)}"
    _post(target, machine, headers, notice.text.encode(errors="replace"))


def _with_link(notice: Notice) -> str:
    return f"{notice.text}\n{notice.url}" if notice.url else notice.text


def _post(target: NotificationTarget, machine: Machine, headers: Mapping[str, str], body: bytes) -> None:
    url = _variable(target.url_env, machine)
    if not url.startswith(("https://", "http://")):
        raise TargetUnreachable(f"`{target.url_env}` is not an address that starts with `https://` or `http://`.")
    answered = post(Post(url=url, headers=headers, body=body), machine.environ, timeout_seconds=machine.timeout_seconds)
    if answered.problem:
        raise TargetUnreachable(answered.problem, for_now=True)
    if not 200 <= answered.status < 300:
        is_for_now = answered.status in (408, 425, 429) or answered.status >= 500
        raise TargetUnreachable(f"The target answered with HTTP {answered.status}.", for_now=is_for_now)


def _variable(name: str, machine: Machine) -> str:
    value = machine.environ.get(name, "").strip()
    if not value:
        raise TargetUnreachable(f"The variable `{name}` is not set.")
    return value

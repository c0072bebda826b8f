"""Notifications: one thread for each target, so that none delays the others.

An event is sent to a target once; the record notes it before and after. If AOP is killed in between, it is sent again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from aop.adapters.reporting.targets import Machine, Send, TargetUnreachable, sender_for
from aop.core.redaction.redactor import Redactor
from aop.kernel.config.people import NotificationRules
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import SUPERVISOR
from aop.supervisor.notices import Notice, row_path

Log: TypeAlias = Callable[[str], None]


class Notifications:
    """Implements `aop.supervisor.notices.Notifier`."""

    def __init__(
        self,
        gateway: Gateway,
        environ: Mapping[str, str],
        rules: NotificationRules,
        log: Log,
        *,
        pages: Callable[[], str] = lambda: "",
    ) -> None:
        """Send to the targets of these rules; `pages` returns the address of the pages, or nothing."""
        kernel = gateway.kernel
        self._pages = pages
        machine = Machine(environ=environ, clock=kernel.clock, timeout_seconds=rules.timeout_seconds)
        self._stopping = threading.Event()
        self._queues = {
            name: _TargetQueue(
                name, with_retries(sender_for(target, machine), rules, self._stopping), gateway, log, self._stopping
            )
            for name, target in rules.targets.items()
        }
        self._wanted = {name: frozenset(target.events) for name, target in rules.targets.items()}
        self._redact: Redactor = kernel.redact

    def send(self, notice: Notice) -> None:
        clean, pages = redact_notice(notice, self._redact), self._pages()
        if pages:
            clean = msgspec.structs.replace(clean, url=f"{pages}{row_path(notice)}")
        for name, line in self._queues.items():
            if notice.kind in self._wanted[name]:
                line.queue.put(clean)

    def close(self, wait_seconds: float) -> None:
        """Wait so long for queued notices; the next supervisor sends the rest."""
        for line in self._queues.values():
            line.queue.put(None)
        for line in self._queues.values():
            line.thread.join(wait_seconds)
        self._stopping.set()


def redact_notice(notice: Notice, redact: Redactor) -> Notice:
    """Return a notice without secrets."""
    return msgspec.structs.replace(notice, title=redact(notice.title), text=redact(notice.text))


def with_retries(send: Send, rules: NotificationRules, stopping: threading.Event) -> Send:
    """Return a function that sends a notice, with retries after growing pauses if the failure is temporary."""

    def send_with_retries(notice: Notice) -> None:
        for attempt in range(1, rules.attempts + 1):
            try:
                return send(notice)
            except TargetUnreachable as unreached:
                pause = rules.retry_after_seconds * 2 ** (attempt - 1)
                if not unreached.for_now or attempt == rules.attempts or stopping.wait(pause):
                    raise
        return None

    return send_with_retries


class _TargetQueue:
    """One target and its queue of notices."""

    def __init__(self, name: str, send: Send, gateway: Gateway, log: Log, stopping: threading.Event) -> None:
        self._stopping = stopping
        self.queue: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()
        self._name, self._send, self._gateway, self._log = name, send, gateway, log
        self.thread = threading.Thread(target=self._work, name=f"notify-{name}", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (notice := self.queue.get()) is not None:
            if self._note(notice, "sending") == "sending":
                outcome = self._outcome_of(notice)
                if self._stopping.is_set():
                    return  # the record is closed: the next supervisor sends it again
                self._note(notice, outcome)

    def _outcome_of(self, notice: Notice) -> str:
        try:
            self._send(notice)
        except TargetUnreachable as unreached:
            self._log(f"notifications: {notice.event_id} was not sent to `{self._name}`: {unreached}")
            return "failed"
        return "sent"

    def _note(self, notice: Notice, outcome: str) -> str:
        given = {"feature_id": notice.feature_id, "event_id": notice.event_id, "target": self._name, "outcome": outcome}
        answer = self._gateway.call(SUPERVISOR, "notices.note", given)
        return str(answer.data["outcome"]) if answer.error is None else "failed"

"""Notifications against a real local server: signed, once, without secrets."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.reporting.notifications import Notifications
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.config.people import NoticeKind, NotificationRules
from aop.supervisor.notices import Notice
from aop.wiring.build import make_ready_for_threads
from tests.adapters.reporting.web_hooks import Listener, listening
from tests.kernel.tools.worlds import events
from tests.world import World

HOOK = {"type": "webhook", "url_env": "HOOK_URL", "secret_env": "HOOK_KEY"}
KEY = "not-for-anybody"
NOTICE = Notice(
    event_id="question:q1",
    kind=NoticeKind.QUESTION,
    feature_id=FeatureId("one"),
    title="one needs a person: question",
    text="asks: Which <!channel> colour & why? (aop answer q1 TEXT)",
)


class Desk:
    """Notifications at work, and what they say went wrong."""

    def __init__(self, world: World, environ: Mapping[str, str], rules: NotificationRules) -> None:
        self.log: list[str] = []
        self.notifications = Notifications(world.app.gateway, environ, rules, self.log.append)

    def tell(self, *notices: Notice) -> None:
        for notice in notices or (NOTICE,):
            self.notifications.send(notice)
        self.notifications.close(20)


def rules(*, attempts: int = 1, **targets: Any) -> NotificationRules:
    given = {"targets": targets, "timeout_seconds": 60, "attempts": attempts, "retry_after_seconds": 0}
    return msgspec.convert(given, NotificationRules)


@contextmanager
def desk(world: World, listener: Listener | None = None, *, attempts: int = 1, **targets: Any) -> Iterator[Desk]:
    make_ready_for_threads()
    environ = {"HOOK_URL": f"{listener.url}/hook" if listener else "", "HOOK_KEY": KEY}
    yield Desk(world, environ, rules(attempts=attempts, **targets))


@pytest.fixture
def begun(world: World) -> World:
    world.init()
    return world


# --- what is sent ----------------------------------------------------------------------------------


def test_a_webhook_is_signed_over_its_time_and_its_body(begun: World) -> None:
    with listening() as listener, desk(begun, listener, hook=HOOK) as at_work:
        at_work.tell()
    [heard] = listener.heard
    told = json.loads(heard.body)
    assert {name: told[name] for name in ("event_id", "kind", "feature_id", "title", "text")} == {
        "event_id": "question:q1",
        "kind": "question",
        "feature_id": "one",
        "title": "one needs a person: question",
        "text": NOTICE.text,
    }
    signed = heard.headers["X-Aop-Timestamp"].encode() + b"." + heard.body
    expected = hmac.new(KEY.encode(), signed, hashlib.sha256).hexdigest()
    assert (heard.path, heard.headers["X-Aop-Event"]) == ("/hook", "question:q1")
    assert heard.headers["X-Aop-Signature"] == f"sha256={expected}"
    assert at_work.log == []


@pytest.mark.parametrize(
    ("kind", "event_id", "row"),
    [
        (NoticeKind.QUESTION, "question:q1", "row-question-q1"),
        (NoticeKind.REMINDER, "question:q1:reminder:2", "row-question-q1"),
        (NoticeKind.READY, "ready:one:0123", "row-approval-one"),
        (NoticeKind.FAILED, "failed:one:v3", "row-stuck-one"),
    ],
)
def test_every_target_gets_the_link_of_the_row_while_the_pages_are_served(
    begun: World, kind: NoticeKind, event_id: str, row: str
) -> None:
    make_ready_for_threads()
    notice = msgspec.structs.replace(NOTICE, kind=kind, event_id=event_id)
    targets: dict[str, Any] = {"hook": HOOK, "team": {**HOOK, "type": "slack"}, "phone": {**HOOK, "type": "ntfy"}}
    told = {}
    for name, target in targets.items():
        with listening() as listener:
            environ = {"HOOK_URL": listener.url, "HOOK_KEY": KEY}
            wanted: Any = {name: {**target, "events": list(NoticeKind)}}
            given = rules(**wanted)
            made = Notifications(begun.app.gateway, environ, given, print, pages=lambda: "http://x.localhost:1")
            made.send(notice)
            made.close(20)
        told[name] = listener.heard[0]
    link = f"http://x.localhost:1/#{row}"
    assert json.loads(told["hook"].body)["url"] == link
    assert json.loads(told["team"].body)["text"].endswith(f"\n{link}")
    assert told["phone"].headers["Click"] == link


def test_slack_gets_text_that_calls_nobody(begun: World) -> None:
    with listening() as listener, desk(begun, listener, team={"type": "slack", "url_env": "HOOK_URL"}) as at_work:
        at_work.tell()
    text = "asks: Which &lt;!channel&gt; colour &amp; why? (aop answer q1 TEXT)"
    assert json.loads(listener.heard[0].body) == {"text": f"AOP: one needs a person: question\n{text}"}


def test_ntfy_gets_a_title_the_text_and_the_token(begun: World) -> None:
    phone = {"type": "ntfy", "url_env": "HOOK_URL", "secret_env": "HOOK_KEY"}
    with listening() as listener, desk(begun, listener, phone=phone) as at_work:
        at_work.tell()
    [heard] = listener.heard
    assert (heard.headers["Title"], heard.body.decode()) == ("AOP: one needs a person: question", NOTICE.text)
    assert heard.headers["Authorization"] == f"Bearer {KEY}"


def test_the_desktop_gets_the_text_as_words_and_not_as_markup_or_options(begun: World, tmp_path: Path) -> None:
    program, seen = tmp_path / "bin/notify-send", tmp_path / "seen"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}\n')
    program.chmod(0o755)
    log: list[str] = []
    make_ready_for_threads()
    environ = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    made = Notifications(begun.app.gateway, environ, rules(screen={"type": "desktop"}), log.append)
    made.send(NOTICE)
    made.close(20)
    escaped = "asks: Which &lt;!channel&gt; colour &amp; why? (aop answer q1 TEXT)"
    assert seen.read_text().splitlines() == ["--app-name=AOP", "--", "AOP: one needs a person: question", escaped]
    assert log == []


def test_a_target_is_told_of_the_events_that_it_wants(begun: World) -> None:
    ready = msgspec.structs.replace(NOTICE, event_id="ready:one:1", kind=NoticeKind.READY)
    with listening() as listener, desk(begun, listener, hook={**HOOK, "events": ["ready"]}) as at_work:
        at_work.tell(NOTICE, ready)
    assert [heard.headers["X-Aop-Event"] for heard in listener.heard] == ["ready:one:1"]


def test_no_secret_is_sent(begun: World) -> None:
    key = "AKIA" + "Z7QWERTYUIOPASDF"
    leaky = msgspec.structs.replace(NOTICE, text=f"asks: Is aws_secret_access_key {key} right?")
    with listening() as listener, desk(begun, listener, hook=HOOK) as at_work:
        at_work.tell(leaky)
    assert key not in listener.heard[0].body.decode()
    assert "[redacted:" in listener.heard[0].body.decode()


# --- once ------------------------------------------------------------------------------------------


def test_an_event_is_told_once_also_by_another_process(begun: World) -> None:
    with listening() as listener:
        for _ in range(2):
            with desk(begun, listener, hook=HOOK) as at_work:
                at_work.tell(NOTICE, NOTICE)
    assert len(listener.heard) == 1
    assert events(begun).count("notice_noted") == 2


def test_what_a_killed_process_was_about_to_tell_is_told_by_the_next_one(begun: World) -> None:
    given = {"event_id": "question:q1", "target": "hook", "outcome": "sending"}
    begun.ok("notices.note", role=Role.SYSTEM, feature_id="one", **given)
    with listening() as listener, desk(begun, listener, hook=HOOK) as at_work:
        at_work.tell()
    assert len(listener.heard) == 1
    begun.ok("notices.note", role=Role.SYSTEM, feature_id="one", **given)
    assert begun.ok("notices.note", role=Role.SYSTEM, feature_id="one", **given)["outcome"] == "sent"


# --- what fails ------------------------------------------------------------------------------------


def test_a_target_that_fails_for_now_is_tried_again(begun: World) -> None:
    with listening(503, 429, 200) as listener, desk(begun, listener, attempts=3, hook=HOOK) as at_work:
        at_work.tell()
    assert (len(listener.heard), at_work.log) == (3, [])


@pytest.mark.parametrize(
    ("status", "attempts"), [(404, 1), (401, 1), (302, 1), (500, 2)], ids=["not found", "forbidden", "moved", "broken"]
)
def test_a_target_that_is_not_reached_is_named_in_the_log_without_its_address_or_key(
    begun: World, status: int, attempts: int
) -> None:
    with listening(status) as listener, desk(begun, listener, attempts=2, hook=HOOK) as at_work:
        at_work.tell()
    assert [heard.path for heard in listener.heard] == ["/hook"] * attempts
    [line] = at_work.log
    assert line == f"notifications: question:q1 was not sent to `hook`: The target answered with HTTP {status}."


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"HOOK_KEY": KEY}, "The variable `HOOK_URL` is not set."),
        ({"HOOK_URL": "http://127.0.0.1:1/"}, "The variable `HOOK_KEY` is not set."),
        (
            {"HOOK_URL": "file:///etc/passwd", "HOOK_KEY": KEY},
            "`HOOK_URL` is not an address that starts",
        ),
        (
            {"HOOK_URL": "http://127.0.0.1:1/x?token=t0p", "HOOK_KEY": KEY},
            "The target was not reached: ConnectionRefusedError.",
        ),
        ({"HOOK_URL": "http://127.0.0.1:99999/", "HOOK_KEY": KEY}, "The target was not reached:"),
        ({"HOOK_URL": "http://[", "HOOK_KEY": KEY}, "The target was not reached: ValueError."),
    ],
    ids=["no address", "no key", "no web address", "nobody there", "no such port", "nonsense"],
)
def test_one_target_that_cannot_work_holds_up_no_other(begun: World, environ: dict[str, str], why: str) -> None:
    log: list[str] = []
    make_ready_for_threads()
    with listening() as listener:
        both = rules(bad=HOOK, good={"type": "slack", "url_env": "GOOD_URL"})
        made = Notifications(begun.app.gateway, {**environ, "GOOD_URL": listener.url}, both, log.append)
        made.send(NOTICE)
        made.close(20)
    assert len(listener.heard) == 1
    assert len(log) == 1
    assert log[0].startswith(f"notifications: question:q1 was not sent to `bad`: {why}")
    assert "t0p" not in log[0]

"""`aop logs --agent`: real processes, and an agent that prints something and then waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aop.adapters.agents.turn_logs import TurnLogReader, fresh_log
from aop.core.ids import FeatureId
from tests.cli.shops import Shop
from tests.world import run_aop

ONE = FeatureId("one")
TOKEN = "not-for-any-eye-1234567"
SPEAKER = """\
import os, sys, time
print("thinking", "{token}", file=sys.stderr, flush=True)
while not os.path.exists("{go}"):
    time.sleep(0.01)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.slow
def test_what_an_agent_says_is_shown_while_it_still_works_and_without_secrets(shop: Shop) -> None:
    shop.wants("one")
    go = shop.agent / "go"
    script = shop.agent / "speaker.py"
    script.write_text(SPEAKER.format(token=TOKEN, go=go))
    shop.env["AOP_CUSTOM_AGENT"] = f"{sys.executable} {script} {shop.agent}"
    shop.env["AGENT_TOKEN"] = TOKEN
    running = shop.started("--wait")
    following = subprocess.Popen(
        [sys.executable, "-m", "aop.cli.main", "logs", "--agent", "one", "--follow", "--json"],
        cwd=shop.root,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **shop.env},
    )
    with following:
        assert following.stdout is not None
        said = json.loads(following.stdout.readline())["data"]
        following.terminate()
    is_at_work = running.poll() is None
    running.terminate()
    running.wait(300)
    assert is_at_work
    assert {key: said[key] for key in ("type", "feature_id", "role")} == {
        "type": "agent",
        "feature_id": "one",
        "role": "planner",
    }
    assert said["line"].startswith("thinking ")
    assert TOKEN not in said["line"]


def test_a_model_s_work_is_told_in_words_and_deception_is_shown(shop: Shop) -> None:
    events = [
        {"type": "replied", "model": "anthropic:m", "text": "I look.\n"},
        {"type": "called", "tool": "repo.search", "arguments": '{"query": "x"}'},
        {"type": "observed", "tool": "repo.search", "ok": False, "text": "[refused] No."},
    ]
    fresh_log(shop.root / ".aop/logs", ONE, "planner").write_text("\n".join(map(json.dumps, events)))
    fresh_log(shop.root / ".aop/logs", ONE, "builder").write_text("fine\u202e\n", encoding="utf-8")
    ran = run_aop(shop.root, "logs", "--agent", "one")
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            "builder  fine\\u{202e}",
            "planner  anthropic:m says: I look.",
            'planner  calls repo.search {"query": "x"}',
            "planner  repo.search refuses: [refused] No.",
        ],
    )


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "json"])
def test_a_line_that_is_nested_too_deep_to_parse_is_printed_as_it_is(shop: Shop, words: tuple[str, ...]) -> None:
    deep = "[" * 100_000
    fresh_log(shop.root / ".aop/logs", ONE, "builder").write_text(f"{deep}\n")
    ran = run_aop(shop.root, "logs", "--agent", "one", *words)
    assert (ran.code, deep in ran.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "code"), [(("--since", "3"), 2), (("--feature", "one"), 2), ((), 0)], ids=["since", "feature", "silent"]
)
def test_what_does_not_go_together_is_refused_and_silence_is_said(
    shop: Shop, words: tuple[str, ...], code: int
) -> None:
    ran = run_aop(shop.root, "logs", "--agent", "one", *words)
    assert (ran.code, ran.out) == (code, "")
    assert ("No output of an agent for `one` yet." in ran.err) is (code == 0)


def test_a_reader_goes_from_one_turn_to_the_next_and_waits_for_whole_lines(tmp_path: Path) -> None:
    reader = TurnLogReader(tmp_path, ONE)
    log = fresh_log(tmp_path, ONE, "qa")
    log.write_text("first\nsec")
    assert list(reader.new_lines(with_unended=False)) == [("qa", "first")]
    with log.open("a") as file:
        file.write("ond\nlast")
    assert list(reader.new_lines(with_unended=False)) == [("qa", "second")]
    fresh_log(tmp_path, ONE, "qa")
    assert list(reader.new_lines(with_unended=False)) == []
    log.write_text("a longer line than all of those before it\n")
    told = list(reader.new_lines(with_unended=False))
    reader.close()
    assert told == [("qa", "last"), ("qa", "a longer line than all of those before it")]

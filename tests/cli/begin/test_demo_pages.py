"""`aop demo --web`, as a real process: a person decides everything on its pages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from aop.wiring.server_lease import server_of
from tests.racing import until
from tests.web.pages.page_visits import Browser, entered
from tests.world import run_aop

SECONDS = 300.0
FEATURES = ["gift_wrap", "order_number", "receipt", "stock", "volume_discount"]


@contextmanager
def demo(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Play the demo on its pages; give the process and the link."""
    # A runner in the background may ignore the signal of Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "aop.cli.main", "demo", "--web", "--print"],
            env={**os.environ, "TMPDIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def wait_for(browser: Browser, path: str, text: str) -> None:
    until(lambda: text in browser.get(path).html, seconds=SECONDS)


@pytest.mark.slow
def test_a_person_answers_approves_and_merges_on_the_pages_and_the_demo_ends(tmp_path: Path) -> None:
    with demo(tmp_path) as (process, link), entered(link) as browser:
        wait_for(browser, "/", "What does it cost to wrap an order?")
        answer = {**browser.get("/").form("answer"), "answer": "150 cents"}
        assert browser.post("/do/answer", answer).status == 303
        for name in FEATURES:
            wait_for(browser, f"/features/{name}", "/do/approve")
            assert browser.post("/do/approve", browser.get(f"/features/{name}").form("approve")).status == 303
            assert browser.post("/do/merge", browser.get(f"/features/{name}").form("merge")).status == 303
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, err
        assert [f"Merge feature {name}" in out for name in FEATURES] == [True] * 5
        with pytest.raises(httpx2.ConnectError):
            browser.get("/")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_interrupted_leaves_neither_server_nor_folder(tmp_path: Path, number: signal.Signals) -> None:
    with demo(tmp_path) as (process, link), entered(link) as browser:
        root = next(tmp_path.glob("aop-demo-*/shop"))
        assert server_of(root) is not None
        process.send_signal(number)
        _out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 130, err
        with pytest.raises(httpx2.ConnectError):
            browser.get("/")
    assert list(tmp_path.iterdir()) == []


def test_only_the_demo_of_features_has_pages(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "demo", "tickets", "--web", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "invalid_cli_args")

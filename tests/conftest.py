"""What every test starts from: no git settings of this machine, and the same hypothesis examples each time."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from coverage import Coverage

from tests.world import World, make_repository

MEASURED_BY_FIRST_ROW = ("tests/cli/", "tests/hostile/", "tests/mcpserver/")


def pytest_configure(config: pytest.Config) -> None:
    # Under a git hook GIT_DIR names the outer repository, and a test's `git commit` would land there.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    # A suite that was started in the background inherits an ignored Ctrl-C, and so would each command under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # What collection makes lives until the end: to look for garbage in it is a fifth of the time that it takes.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first-rows", action="store_true", help="of each table of cases, run only the first row")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tables = dict[str, list[pytest.Item]]()
    for item in items:
        tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    others = [item for rows in tables.values() for item in rows[1:]]
    if config.getoption("--first-rows"):
        config.hook.pytest_deselected(items=others)
        items[:] = [rows[0] for rows in tables.values()]
    # Measuring is a third of the time of a test, and half of that of a command: a row mostly goes where the first went.
    for item in others:
        if item.nodeid.startswith(MEASURED_BY_FIRST_ROW):
            item.add_marker("unmeasured")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    measuring = Coverage.current() if item.get_closest_marker("unmeasured") else None
    if measuring is None:
        return (yield)
    measuring.stop()
    # A process that finds these measures itself.
    asked = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("COVERAGE_PROCESS")}
    try:
        return (yield)
    finally:
        os.environ |= asked
        measuring.start()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    shops = sys.modules.get("tests.cli.shops")
    if shops is not None:
        # A test that fails before its run ends would leave a supervisor and its agents behind.
        shops.close_shops()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A managed repository with one commit."""
    made = World(make_repository(tmp_path / "repo"))
    yield made
    made.close()

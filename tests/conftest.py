"""What every test starts from: no git settings of this machine, and the same hypothesis examples each time."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis
import pytest
from coverage import Coverage

from tests.world import World, make_repository

SEPARATE_MARKS = ("slow", "soak")
"""Marks that few modules have, and that are run on their own."""


def pytest_configure(config: pytest.Config) -> None:
    # Under a git hook GIT_DIR names the outer repository, and a test's `git commit` would land there.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    if config.option.markexpr != "real":
        # No other test leaves this machine: to read its certificates is nine tenths of the time that a client takes.
        os.environ.pop("SSL_CERT_FILE", None)
        os.environ["SSL_CERT_DIR"] = os.devnull
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
    parser.addoption(
        "--rows",
        choices=("first", "some", "all"),
        default="some",
        help="of each table of cases, run the first row, or all rows; some: all but those that a series leaves out",
    )
    parser.addoption("--part", metavar="K/N", help="run only the k-th of n parts of the tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # `-m slow` would import a thousand modules in each worker to find the seventy that have such a test.
    mark = config.option.markexpr
    if mark not in SEPARATE_MARKS or collection_path.suffix != ".py":
        return None
    return f"mark.{mark}" not in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    # After `-m` has chosen: first rows and parts are of what is left.
    result = yield
    tables = dict[str, list[pytest.Item]]()
    for item in items:
        tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = config.getoption("--rows")
    if chosen != "all":
        _keep(config, items, [item for rows in tables.values() for item in _chosen_rows(rows, chosen)])
    if config.getoption("--part"):
        number, parts = map(int, config.getoption("--part").split("/"))
        _keep(config, items, items[len(items) * (number - 1) // parts : len(items) * number // parts])
    # Measuring takes half of the time of a command, and a row mostly goes where the first went.
    for rows in tables.values():
        for item in rows[1:]:
            item.add_marker(pytest.mark.unmeasured("processes"))
    return result


def _chosen_rows(rows: list[pytest.Item], chosen: str) -> list[pytest.Item]:
    """Return the first row of a table, or as many as its mark `series` says, spread over the table."""
    series = rows[0].get_closest_marker("series")
    count = 1 if chosen == "first" else series.args[0] if series else len(rows)
    return [rows[number * len(rows) // count] for number in range(min(count, len(rows)))] if count < len(rows) else rows


def _keep(config: pytest.Config, items: list[pytest.Item], chosen: list[pytest.Item]) -> None:
    names = {item.nodeid for item in chosen}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    unmeasured = item.get_closest_marker("unmeasured")
    if unmeasured is None:
        return (yield)
    # A worker measures twice: as a process that was started while its parent measured, and as a part of the tests.
    stopped = list[Coverage]()
    while not unmeasured.args and (measuring := Coverage.current()) is not None:
        measuring.stop()
        stopped.append(measuring)
    # A process that finds these measures itself.
    asked = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("COVERAGE_PROCESS")}
    try:
        return (yield)
    finally:
        os.environ |= asked
        for measuring in reversed(stopped):
            measuring.start()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    shops = sys.modules.get("tests.cli.shops")
    if shops is not None:
        # A test that fails before its run ends would leave a supervisor and its agents behind.
        shops.close_shops()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder of the test. Landlock opens shared memory to every step, so what it judges has to be on the disk."""
    if request.node.get_closest_marker("on_disk") is None:
        yield tmp_path
        return
    with TemporaryDirectory(prefix="aop-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A managed repository with one commit."""
    made = World(make_repository(tmp_path / "repo"))
    yield made
    made.close()

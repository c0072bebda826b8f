"""Canary steps: steps of pytest that carry canaries in their test report.

A plugin outside of the tree adds two tests after all others. The one that must fail is taken out of pytest's own count
of failures once the report has it, so the exit code of an honest run stays what it is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from aop.core.paths import globs
from aop.kernel.config.gates import Step, TestsParser
from aop.kernel.config.policy import ExecutionRules, Policy
from aop.kernel.features.installation import CheckoutExtras
from aop.kernel.gates.reports.canaries import Canary
from aop.kernel.gates.reports.verdict import Reports
from aop.kernel.ports.files import Files

_PYTEST = ("pytest", "py.test")
_STARTS_PYTEST = re.compile(r"python[\d.]*|pypy[\d.]*|pytest|py\.test|uv|poetry|pdm|hatch|pipenv|rye")
_CLOSED = re.compile(r"-[a-zA-Z]*[IE][a-zA-Z]*")
"""Options of Python under which it does not look at `PYTHONPATH`."""
REPORT_OPTION = re.compile(r"--junit-?xml=(.+)")
FOLDER = ".aop"
"""The folder of a checkout that holds the plugin during a step; git ignores it in every worktree."""

PLUGIN = """\
import pytest

GOOD, BAD = {passing!r}, {failing!r}
_sessions = []


def _passes():
    pass


def _fails():
    raise AssertionError("a canary, which must fail")


def _module(session):
    try:
        import pathlib

        return pytest.Module.from_parent(session, path=pathlib.Path(__file__))
    except TypeError:
        import py

        return pytest.Module.from_parent(session, fspath=py.path.local(__file__))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session, items):
    _sessions[:] = [session]
    if items:
        module = _module(session)
        items.append(pytest.Function.from_parent(module, name=GOOD, callobj=_passes))
        items.append(pytest.Function.from_parent(module, name=BAD, callobj=_fails))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_logreport(report):
    if not (report.nodeid.endswith("::" + BAD) and report.failed):
        yield
        return
    option = _sessions[0].config.option if _sessions else None
    most = getattr(option, "maxfail", 0)
    if option is not None:
        option.maxfail = 0
    yield
    if option is not None:
        option.maxfail = most
        _sessions[0].testsfailed -= 1
    report.outcome = "passed"


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report):
    if report.nodeid.endswith(("::" + GOOD, "::" + BAD)):
        return "", "", ""


def pytest_sessionstart(session):
    _sessions[:] = [session]
"""


def with_canaries(reports: Reports, steps: Sequence[Step], policy: Policy, new_id: Callable[[str], str]) -> Reports:
    """Add canaries for each step that starts pytest itself, with the report that is read."""
    carriers = [step for step in steps if _can_carry(step, reports.tests, policy.execution)]
    canaries = [Canary(step=step.name, token=new_id("canary").rpartition("-")[2]) for step in carriers]
    return msgspec.structs.replace(reports, canaries=tuple(canaries))


def _can_carry(step: Step, parser: TestsParser | None, rules: ExecutionRules) -> bool:
    names = [posixpath.basename(word) for word in step.cmd]
    reports = [found[1] for word in step.cmd if (found := REPORT_OPTION.fullmatch(word))]
    if parser is None or not reports or not _STARTS_PYTEST.fullmatch(names[0]) or "PYTHONPATH" in rules.env_allowlist:
        return False
    starts = next((at for at, name in enumerate(names) if name in _PYTEST), None)
    if starts is None or any(_CLOSED.fullmatch(word) for word in step.cmd[:starts]):
        return False
    place = posixpath.normpath(posixpath.join(step.cwd or "", reports[-1]))
    return place == parser.path or globs.matches(parser.path, place)


def carry_canary(
    files: Files, step: Step, canaries: Sequence[Canary], checkout: Path, extras: CheckoutExtras
) -> tuple[Step, CheckoutExtras]:
    """Write the plugin of a step's canaries into the checkout; return the step that loads it, and may only read it."""
    canary = next((each for each in canaries if each.step == step.name), None)
    if canary is None:
        return step, extras
    code = PLUGIN.format(passing=canary.passing, failing=canary.failing)
    return carry_plugin(files, step, checkout, extras, token=canary.token, code=code)


def carry_plugin(
    files: Files, step: Step, checkout: Path, extras: CheckoutExtras, *, token: str, code: str
) -> tuple[Step, CheckoutExtras]:
    """Write a plugin of pytest into the checkout; return the step that loads it, and may only read it."""
    folder, name = f"{FOLDER}/{token}", f"aop_{token}"
    place = (checkout / folder / f"{name}.py").relative_to(files.root).as_posix()
    files.write(place, _unmeasured(code), durable=False)
    options = " ".join(filter(None, [step.env.get("PYTEST_ADDOPTS"), f"-p {name}"]))
    path = ":".join(filter(None, [step.env.get("PYTHONPATH"), str(checkout / folder)]))
    env = {**step.env, "PYTEST_ADDOPTS": options, "PYTHONPATH": path}
    return (
        msgspec.structs.replace(step, env=env),
        msgspec.structs.replace(extras, closed=(*extras.closed, folder)),
    )


def _unmeasured(code: str) -> bytes:
    """Return a module with this code in one line that a measurement of the project's coverage leaves out."""
    return f"exec(compile({code!r}, '<aop>', 'exec'))  # pragma: no cover\n".encode()

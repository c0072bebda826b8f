"""The locks are complete, hashed, and say nothing of the machine that wrote them."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DEV, RUN = ((ROOT / "requirements" / name).read_text(encoding="utf-8") for name in ("dev.lock", "run.lock"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINNED = re.compile(
    r"^([a-z0-9-]+)(?:\[[a-z0-9, -]+\])?==([^ ;]+)[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", re.MULTILINE
)

each_lock = pytest.mark.parametrize("lock", [DEV, RUN], ids=["dev", "run"])


@each_lock
def test_the_lock_names_no_host_and_no_index(lock: str) -> None:
    assert [line for line in lock.splitlines() if "://" in line or line.startswith("-")] == []


@each_lock
def test_every_line_that_is_no_comment_is_a_pin_or_its_hash(lock: str) -> None:
    lines = [line for line in lock.splitlines() if not line.lstrip().startswith(("#", "--hash=sha256:"))]
    assert len(lines) == len(PINNED.findall(lock))


def test_the_lock_holds_every_declared_dependency() -> None:
    declared = [line for lines in EXTRAS.values() for line in lines] + PROJECT["dependencies"]
    assert names_of(declared) - {name for name, _ in PINNED.findall(DEV)} == set()


def test_the_lock_of_the_demo_holds_what_aop_needs_and_none_of_the_developers_tools() -> None:
    pinned = {name for name, _ in PINNED.findall(RUN)}
    assert names_of(PROJECT["dependencies"] + EXTRAS["sandbox"]) - pinned == set()
    assert names_of(EXTRAS["dev"] + EXTRAS["models"]) & pinned <= {"jsonschema"}


def test_both_locks_pin_the_same_versions() -> None:
    assert set(PINNED.findall(RUN)) - set(PINNED.findall(DEV)) == set()


@each_lock
def test_plain_pip_finds_every_extra_that_a_requirement_names_pinned_in_the_lock(lock: str) -> None:
    """With hashes pip takes `psycopg==3.3.8` for no pin of `psycopg[binary]`, and stops."""
    pins = [Requirement(line.rstrip(" \\")) for line in lock.splitlines() if re.match(r"[a-z0-9]", line)]
    pinned = {pin.name: extras_of(pin) for pin in pins}
    declared = [*PROJECT["dependencies"], *(line for name in EXTRAS if lock == DEV for line in EXTRAS[name])]
    named = [Requirement(line) for line in declared]
    named += [each for name, extras in pinned.items() for each in requirements_of(name, extras)]

    assert "psycopg" in {each.name for each in named if each.extras}
    here = [(each, pinned[canonicalize_name(each.name)]) for each in named if canonicalize_name(each.name) in pinned]
    assert {str(each) for each, extras in here if not extras_of(each) <= extras} == set()


def extras_of(requirement: Requirement) -> set[str]:
    return {canonicalize_name(extra) for extra in requirement.extras}


def requirements_of(package: str, extras: set[str]) -> list[Requirement]:
    """Return what an installed package needs with these extras; a package of another platform is not installed."""
    try:
        lines = requires(package) or []
    except PackageNotFoundError:
        return []
    needs = [Requirement(line) for line in lines]
    return [
        each
        for each in needs
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def names_of(declared: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9-]", line)[0] for line in declared}

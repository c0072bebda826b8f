"""Rust projects: gates from Cargo.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from aop.adapters.projects.guesses import (
    ChosenStep,
    Guess,
    Project,
    caches_note,
    guess_of,
    monorepo_note,
    printed_report,
)
from aop.kernel.config.gates import Parsers, Step

MANIFEST = "Cargo.toml"
LOCK = "Cargo.lock"
REGISTRY = "~/.cargo/registry"
"""Not `~/.cargo`, which holds the tokens of registries."""
CHECKOUTS = "~/.cargo/git"


def marks(name: str) -> bool:
    """Tell whether a file of this name makes its folder a Rust project."""
    return name == MANIFEST


def reads(path: str) -> bool:
    """Tell whether the guess depends on the text of a file."""
    return path in (MANIFEST, LOCK)


def guess(project: Project) -> Guess | None:
    """Return the gates of a Rust project; None for another project."""
    if MANIFEST not in project.paths:
        return None
    manifest = _parse_manifest(project.texts.get(MANIFEST, ""))
    if manifest is None:
        return guess_of(tests=(), notes=[f"`{MANIFEST}` is not valid TOML."])
    everything = ("--workspace",) if "workspace" in manifest else ()
    test = _cargo(project, "test", "test", *everything)
    reporting = _cargo(project, "test", "test", *everything, "--no-fail-fast")
    why = f"`{MANIFEST}` exists; `cargo test` builds the project and runs its tests"
    caches = tuple(_caches(project, manifest))
    return guess_of(
        checks=tuple(_checks(project, manifest, everything)),
        tests=[ChosenStep(step=test, why=why)],
        reporting=[ChosenStep(step=reporting, why=why)],
        parsers=Parsers(tests=printed_report("cargo_test", reporting)),
        notes=tuple(_notes(project, manifest, caches)),
        sandbox_read=caches,
    )


def _parse_manifest(text: str) -> Mapping[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _cargo(project: Project, name: str, command: str, *words: str) -> Step:
    locked = ("--locked",) if LOCK in project.paths else ()
    return Step(name=name, cmd=("cargo", command, "--offline", *locked, *words))


def _checks(project: Project, manifest: Mapping[str, Any], everything: tuple[str, ...]) -> Iterator[ChosenStep]:
    if settings := project.first_of("rustfmt.toml", ".rustfmt.toml"):
        yield ChosenStep(step=Step(name="format", cmd=("cargo", "fmt", "--all", "--check")), why=f"`{settings}` exists")
    settings = project.first_of("clippy.toml", ".clippy.toml")
    lints = (_table(manifest, "lints"), _table(manifest, "workspace", "lints"))
    if settings or any("clippy" in table for table in lints):
        step = _cargo(project, "lint", "clippy", *everything, "--all-targets", "--", "-D", "warnings")
        yield ChosenStep(step=step, why=f"`{settings}` exists" if settings else f"`{MANIFEST}` has Clippy lints")


def _table(manifest: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return a table of the manifest; an empty one if it is absent or not a table."""
    table: Any = manifest
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table if isinstance(table, Mapping) else {}


def _caches(project: Project, manifest: Mapping[str, Any]) -> Iterator[str]:
    locked = project.texts.get(LOCK, "")
    tables = [_table(manifest, *keys) for keys in _DEPENDENCIES]
    if locked:
        from_registry, from_git = "registry+" in locked, "git+" in locked
    else:
        from_registry = any(tables) or "workspace" in manifest
        from_git = any("git" in one for table in tables for one in table.values() if isinstance(one, Mapping))
    if from_registry:
        yield REGISTRY
    if from_git:
        yield CHECKOUTS


_DEPENDENCIES = (("dependencies",), ("dev-dependencies",), ("build-dependencies",), ("workspace", "dependencies"))


def _notes(project: Project, manifest: Mapping[str, Any], caches: tuple[str, ...]) -> Iterator[str]:
    if "workspace" in manifest:
        members = _table(manifest, "workspace").get("members", ())
        yield monorepo_note("Cargo workspace", [member for member in members if isinstance(member, str)])
    if LOCK not in project.paths:
        yield f"`{LOCK}` is not committed: each gate run chooses package versions again, from those on this machine."
    if caches:
        yield caches_note("`cargo test`", read=caches)

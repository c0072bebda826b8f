"""Go projects: gates from go.mod or go.work."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aop.adapters.projects.guesses import (
    NO_PARSERS,
    ChosenStep,
    Guess,
    Project,
    caches_note,
    guess_of,
    monorepo_note,
    printed_report,
)
from aop.kernel.config.gates import Parsers, Step

MODULE = "go.mod"
WORKSPACE = "go.work"
LINTER_SETTINGS = (".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json")
CACHE = "~/go/pkg/mod"
NO_DOWNLOADS = {"GOPROXY": "off"}
"""Makes Go report a missing module instead of a missing network."""

_USE = re.compile(r"^use\s+(?:\((?P<several>[^)]*)\)|(?P<one>\S+))", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*")


def marks(name: str) -> bool:
    """Tell whether a file of this name makes its folder a Go project."""
    return name in (MODULE, WORKSPACE)


def reads(path: str) -> bool:
    """Tell whether the guess depends on the text of a file."""
    return path == WORKSPACE


def guess(project: Project) -> Guess | None:
    """Return the gates of a Go project; None for another project."""
    manifest = project.first_of(WORKSPACE, MODULE)
    if manifest is None:
        return None
    modules = _modules(project)
    packages = [f"./{module}/..." if module else "./..." for module in modules]
    has_tests = any(path.endswith("_test.go") for path in project.paths)
    test = Step(name="test", cmd=("go", "test", *packages), env=NO_DOWNLOADS)
    reporting = Step(name="test", cmd=("go", "test", "-json", *packages), env=NO_DOWNLOADS)
    why = f"`{manifest}` and `_test.go` files exist"
    caches = (CACHE,) if _downloads(project) else ()
    return guess_of(
        checks=tuple(_checks(project, manifest, packages)),
        tests=[ChosenStep(step=test, why=why)] if has_tests else (),
        reporting=[ChosenStep(step=reporting, why=why)] if has_tests else (),
        parsers=Parsers(tests=printed_report("go_test_json", reporting)) if has_tests else NO_PARSERS,
        notes=tuple(_notes(project, modules, caches)),
        sandbox_read=caches,
    )


def _modules(project: Project) -> list[str]:
    """Return the folders of the modules; the root is an empty name."""
    if WORKSPACE not in project.paths:
        return [""]
    text = _COMMENT.sub("", project.texts.get(WORKSPACE, ""))
    named = [word for found in _USE.finditer(text) for word in (found["several"] or found["one"] or "").split()]
    return sorted({word.strip('"').removeprefix("./").strip("/").removeprefix(".") for word in named}) or [""]


def _downloads(project: Project) -> bool:
    sums = any(path.rpartition("/")[2] in ("go.sum", "go.work.sum") for path in project.paths)
    return sums and "vendor/modules.txt" not in project.paths


def _checks(project: Project, manifest: str, packages: list[str]) -> Iterator[ChosenStep]:
    yield ChosenStep(
        step=Step(name="vet", cmd=("go", "vet", *packages), env=NO_DOWNLOADS),
        why=f"`{manifest}` exists, and `vet` is part of Go",
    )
    if settings := project.first_of(*LINTER_SETTINGS):
        step = Step(name="lint", cmd=("golangci-lint", "run", *packages), env=NO_DOWNLOADS)
        yield ChosenStep(step=step, why=f"`{settings}` exists")


def _notes(project: Project, modules: list[str], caches: tuple[str, ...]) -> Iterator[str]:
    if WORKSPACE in project.paths:
        yield monorepo_note("Go workspace", [module or "." for module in modules])
    if caches:
        yield caches_note("`go test`", read=caches)

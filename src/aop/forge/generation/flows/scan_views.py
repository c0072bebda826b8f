"""Views of a scan: what each tool of the scout flow shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from aop.core.errors import Json, UnknownPackage
from aop.forge.generation.inputs import GenerationInputs
from aop.forge.scan.findings.architecture import map_below
from aop.forge.scan.report import Architecture

OWN_PREFIX = "forge_"
"""Begins fields that are about this product; a model is shown them without it (FORGE-001)."""


def stack_profile(inputs: GenerationInputs, _path: str) -> Json:
    """Return languages, backend, frontend, testing and infrastructure (FORGE-128)."""
    return _neutral(inputs.scan.get("stack_profile"))


def renovation_priorities(inputs: GenerationInputs, _path: str) -> Json:
    """Return the brief of the renovation plan (FORGE-129)."""
    return _neutral(inputs.plan.get("executive_brief"))


def migration_tasks(inputs: GenerationInputs, _path: str) -> Json:
    """Return the recommended migrations and the packages that are behind (FORGE-130)."""
    versions = inputs.plan.get("version_report")
    behind = (
        {name: versions[name] for name in ("outdated", "eol") if versions.get(name)}
        if isinstance(versions, Mapping)
        else {}
    )
    tasks = inputs.plan.get("migration_recommendations")
    return _neutral({"tasks": tasks or [], **({"packages": behind} if behind else {})})


def project_dossier(inputs: GenerationInputs, _path: str) -> Json:
    """Return summary, intent, quality, risks and recommendations (FORGE-131), and the person's own words if any."""
    own = {name: dict(part) for name, part in inputs.answers.items()}
    dossier = _neutral(inputs.scan.get("dossier"))
    return {
        "name": inputs.name,
        "size": inputs.mode,
        **(dossier if isinstance(dossier, Mapping) else {}),
        **({"answers": {**own}} if own else {}),
    }


def compliance_checks(inputs: GenerationInputs, _path: str) -> Json:
    """Return the checks with code, name, result and detail (FORGE-132)."""
    return _neutral(inputs.scan.get("checks"))


def architecture_map(inputs: GenerationInputs, path: str) -> Json:
    """Return packages, layers, routes and tables, whole at the level of packages; `path` goes deeper (FORGE-133)."""
    architecture = msgspec.convert(inputs.scan.get("architecture", {}), Architecture)
    routes = [f"{each['method']} {each['path']} {_place(each)}" for each in _found(inputs, "routes", path)]
    tables = [
        f"{each['name']} ({', '.join(each['columns'])}) {_place(each)}" for each in _found(inputs, "tables", path)
    ]
    try:
        plain: dict[str, Json] = msgspec.to_builtins(map_below(architecture, path))
    except UnknownPackage:
        # A folder of SQL files has tables, and no package.
        if not tables:
            raise
        plain = {}
    return {**plain, "routes": [*routes], "tables": [*tables]}


def _found(inputs: GenerationInputs, name: str, path: str) -> list[Mapping[str, Any]]:
    below = path.strip("/").removeprefix(".")
    return [each for each in inputs.scan.get(name, ()) if not below or f"{each['file']}/".startswith(f"{below}/")]


def _place(found: Mapping[str, Any]) -> str:
    return f"{found['file']}:{found['line']}"


def _neutral(value: Json) -> Json:
    """Return a value without the product's own prefix in the names of fields."""
    if isinstance(value, Mapping):
        return {name.removeprefix(OWN_PREFIX): _neutral(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_neutral(part) for part in value]
    return value

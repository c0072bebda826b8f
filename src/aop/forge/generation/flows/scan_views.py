"""Views of a scan: what each tool of the scout flow shows of it."""

from __future__ import annotations

from collections.abc import Mapping

from aop.core.errors import Json
from aop.forge.generation.inputs import GenerationInputs

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
    """Return the map, whole at the level of packages; `path` keeps what lies below it (FORGE-133)."""
    whole = _neutral(inputs.scan.get("architecture"))
    return _below(whole, path.strip("/")) if path.strip("/") else whole


def _neutral(value: Json) -> Json:
    """Return a value without the product's own prefix in the names of fields."""
    if isinstance(value, Mapping):
        return {name.removeprefix(OWN_PREFIX): _neutral(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_neutral(part) for part in value]
    return value


def _below(value: Json, path: str) -> Json:
    """Return what of a value names a path at or below another, with what stands around it."""
    if isinstance(value, str):
        return value if value == path or value.startswith((f"{path}/", f"{path}:")) else None
    if isinstance(value, Mapping):
        if any(isinstance(part, str) and _below(part, path) is not None for part in value.values()):
            return dict(value)
        kept = {
            name: part if _below(name, path) is not None else _below(part, path)
            for name, part in value.items()
            if not isinstance(part, str | int | float)
        }
        return {name: part for name, part in kept.items() if part} or None
    if isinstance(value, list | tuple):
        return [part for part in (_below(each, path) for each in value) if part is not None] or None
    return None

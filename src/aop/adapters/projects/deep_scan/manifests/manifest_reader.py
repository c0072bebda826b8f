"""Manifest reader: the right reader for each kind of file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aop.adapters.projects.deep_scan.manifests import lock_files, other_manifests, python_manifests
from aop.adapters.projects.deep_scan.manifests.manifest_text import UNREADABLE
from aop.forge.scan.file_facts import Ecosystem, LockFacts, ManifestFacts

_MANIFESTS: dict[str, tuple[Ecosystem, Callable[[bytes], ManifestFacts]]] = {
    "pyproject.toml": ("python", python_manifests.read_pyproject),
    "setup.cfg": ("python", python_manifests.read_setup_cfg),
    "Pipfile": ("python", python_manifests.read_pipfile),
    "package.json": ("node", other_manifests.read_package_json),
    "pom.xml": ("maven", other_manifests.read_pom),
    "build.gradle": ("maven", other_manifests.read_gradle),
    "build.gradle.kts": ("maven", other_manifests.read_gradle),
    "go.mod": ("go", other_manifests.read_go_mod),
    "Cargo.toml": ("rust", other_manifests.read_cargo),
}
_LOCKS: dict[str, tuple[Ecosystem, Callable[[bytes], LockFacts]]] = {
    "uv.lock": ("python", partial(lock_files.read_toml_lock, ecosystem="python")),
    "poetry.lock": ("python", partial(lock_files.read_toml_lock, ecosystem="python")),
    "pdm.lock": ("python", partial(lock_files.read_toml_lock, ecosystem="python")),
    "Pipfile.lock": ("python", lock_files.read_pipfile_lock),
    "package-lock.json": ("node", lock_files.read_package_lock),
    "npm-shrinkwrap.json": ("node", lock_files.read_package_lock),
    "yarn.lock": ("node", lock_files.read_yarn_lock),
    "pnpm-lock.yaml": ("node", lock_files.read_pnpm_lock),
    "go.sum": ("go", lock_files.read_go_sum),
    "Cargo.lock": ("rust", partial(lock_files.read_toml_lock, ecosystem="rust")),
}


def read_manifest(path: str, content: bytes) -> ManifestFacts:
    """Return what a manifest asks for; any other file is read as requirements."""
    name = path.rpartition("/")[2]
    ecosystem, read = _MANIFESTS.get(name, ("python", partial(python_manifests.read_requirements, path=path)))
    try:
        return read(content)
    except UNREADABLE as error:
        return ManifestFacts(ecosystem=ecosystem, problem=_why(error))


def read_lock(path: str, content: bytes) -> LockFacts:
    """Return what a lock file pins."""
    ecosystem, read = _LOCKS[path.rpartition("/")[2]]
    try:
        return read(content)
    except UNREADABLE as error:
        return LockFacts(ecosystem=ecosystem, problem=_why(error))


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else f"it cannot be read: {str(error)[:120]}"

"""Lock files: the versions that each pins, and what it says the manifest asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aop.adapters.projects.deep_scan.file_kinds import LARGEST_LOCK
from aop.adapters.projects.deep_scan.manifests.manifest_text import (
    json_of,
    plain_text,
    table,
    text_of_manifest,
    toml_of,
)
from aop.forge.scan.file_facts import Ecosystem, LockFacts, normal_name

_YARN_HEAD = re.compile(r'^"?((?:@[^@/\s"]+/)?[^@\s"]+)@[^\n]*:\s*$')
_YARN_VERSION = re.compile(r'^\s+version:?\s+"?([^"\s]+)"?')
_PNPM = re.compile(r"^\s{2}'?/?((?:@[^@/\s']+/)?[^@/\s'():]+)[@/](\d[^:'()\s]*+)[^:]*+:\s*$")
_GO_SUM = re.compile(r"^(\S+) (v\S+?)(?:/go\.mod)? h1:")


def read_toml_lock(content: bytes, ecosystem: Ecosystem) -> LockFacts:
    """Read a lock of uv, Poetry, PDM or Cargo: a list of packages."""
    packages = toml_of(content).get("package")
    listed = packages if isinstance(packages, list) else []
    pairs = [(plain_text(each.get("name")), plain_text(each.get("version"))) for each in listed]
    return LockFacts(ecosystem=ecosystem, versions=_grouped(ecosystem, pairs))


def read_pipfile_lock(content: bytes) -> LockFacts:
    """Read a Pipfile.lock."""
    whole = json_of(content, limit=LARGEST_LOCK)
    pairs = [
        (name, plain_text(table(value).get("version")).removeprefix("=="))
        for part in ("default", "develop")
        for name, value in table(whole, part).items()
    ]
    return LockFacts(ecosystem="python", versions=_grouped("python", pairs))


def read_package_lock(content: bytes) -> LockFacts:
    """Read a package-lock.json of any version."""
    whole = json_of(content, limit=LARGEST_LOCK)
    packages = table(whole, "packages")
    pairs = [
        (path.rpartition("node_modules/")[2], plain_text(table(value).get("version")))
        for path, value in packages.items()
        if path.startswith("node_modules/") and path.count("node_modules/") == 1
    ]
    if not packages:
        pairs = [
            (name, plain_text(table(value).get("version"))) for name, value in table(whole, "dependencies").items()
        ]
    root = packages.get("")
    claims = {
        name: plain_text(constraint)
        for part in ("dependencies", "devDependencies", "optionalDependencies")
        for name, constraint in table(root, part).items()
    }
    return LockFacts(ecosystem="node", versions=_grouped("node", pairs), claims=claims)


def read_yarn_lock(content: bytes) -> LockFacts:
    """Read a yarn.lock, of the first or a later Yarn."""
    pairs: list[tuple[str, str]] = []
    name = ""
    for line in text_of_manifest(content).splitlines():
        head = _YARN_HEAD.match(line) if line[:1] not in (" ", "#", "") else None
        if head is not None:
            name = head.group(1)
        elif name and (version := _YARN_VERSION.match(line)):
            pairs.append((name, version.group(1)))
            name = ""
    return LockFacts(ecosystem="node", versions=_grouped("node", pairs))


def read_pnpm_lock(content: bytes) -> LockFacts:
    """Read the packages of a pnpm-lock.yaml by their lines."""
    found = (_PNPM.match(line) for line in text_of_manifest(content).splitlines())
    return LockFacts(ecosystem="node", versions=_grouped("node", [match.groups() for match in found if match]))  # type: ignore[misc]


def read_go_sum(content: bytes) -> LockFacts:
    """Read a go.sum."""
    found = (_GO_SUM.match(line) for line in text_of_manifest(content).splitlines())
    return LockFacts(
        ecosystem="go", versions=_grouped("go", [(match.group(1), match.group(2)) for match in found if match])
    )


def _grouped(ecosystem: Ecosystem, pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    versions: dict[str, dict[str, None]] = {}
    for name, version in pairs:
        if name:
            versions.setdefault(normal_name(ecosystem, name), {})[version] = None
    return {name: tuple(found) for name, found in versions.items()}

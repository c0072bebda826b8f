"""Build cycles for tests: a project with contracts whose build has begun, and the refs of a repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aop.core.roles import Role
from aop.forge.builds.documents import BuildCycle
from aop.kernel.gateway.principals import Principal
from tests.forge.broker.shelves import shelve
from tests.world import World, git

BRANCH = "forge/build-shop-b1"


def begin(world: World, project: str = "shop", **arguments: Any) -> Any:
    """Begin a project with contracts and a build of it; return the facts of the build."""
    shelve(world, project)
    return world.ok("forge.build_begin", project_id=project, **arguments)


def begun(world: World, project: str = "shop") -> str:
    """Begin a project with contracts and a build of it; return the id of the build."""
    return str(begin(world, project)["build_id"])


def coder(build: str, role: Role = Role.CODER) -> Principal:
    """Return an agent whose token opens one build."""
    return Principal(role=role, actor=f"{role}:1", project=build.rpartition("-")[0], build=build)


def refs(root: Path, below: str = "refs/heads/") -> dict[str, str]:
    """Return the refs of a repository, with their commits."""
    listed = git(root, "for-each-ref", "--format=%(refname) %(objectname)", below)
    return dict(line.split(" ") for line in listed.splitlines())


def cycle_of(world: World, build_id: str = "shop-b1") -> BuildCycle:
    """Return the cycle of a build as it is recorded."""
    with world.app.record.read() as view:
        cycle = view.get(BuildCycle, build_id)
    assert cycle is not None
    return cycle

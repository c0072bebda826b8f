"""A build that has begun, and its worktree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aop.forge.contracts.types import ContractType
from tests.forge.broker.shelves import shelve
from tests.forge.sample_contracts import CONTRACTS
from tests.world import World


def begun(world: World, project: str = "shop", contents: Mapping[ContractType, str] = CONTRACTS) -> str:
    """Begin a build of a new project with these contracts; return its id."""
    shelve(world, project, contents)
    build: str = world.ok("forge.build_begin", project_id=project)["build_id"]
    return build


def worktree_of(world: World, build: str) -> Path:
    """Return the worktree of a build."""
    return world.root / ".worktrees" / build

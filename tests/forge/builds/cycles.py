"""Build cycles for tests: a project with contracts whose build has begun, and the refs of a repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from aop.core.roles import Role
from aop.forge.builds.cycle.commits import commit_and_push
from aop.forge.builds.cycle.lookup import the_living_cycle
from aop.forge.builds.documents import BuildCycle
from aop.kernel.features.lifecycle import store_feature
from aop.kernel.gateway.calls import Arguments, Call, Envelope, Outcome, Tool, feature_named
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.merges.branch_moves import undo_move
from aop.kernel.ports.git import FileMode
from aop.kernel.record.port import Transaction
from aop.wiring.catalogue import CATALOGUE
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


class CommitArguments(Arguments, frozen=True, kw_only=True):
    build_id: str
    path: str = "made.txt"
    text: str = "made\n"
    subject: str = "Make it"
    body: str = ""
    push: bool = False


class Made(Struct, frozen=True, kw_only=True):
    head: str


def _commit(call: Call, arguments: CommitArguments) -> Outcome:
    """Write a file into the tree of a build, and commit it: what the loop of a build does at the end of a task."""
    kernel = call.kernel
    with kernel.record.read() as view:
        cycle, state = the_living_cycle(view, arguments.build_id, call.principal), feature_named(view, "shop-b1")
    tree = kernel.git.objects.tree_with(state.tree, {arguments.path: (FileMode.FILE, arguments.text.encode())})

    def store(tx: Transaction, moved: BuildCycle) -> Outcome:
        before = feature_named(tx, moved.build_id)
        store_feature(tx, before, replace(before, tree=tree), now=moved.updated_at)
        tx.mark_unshown("worktree", before.feature_id)
        return Made(head=moved.head)

    return commit_and_push(call, cycle, tree, arguments.subject, arguments.body, store=store, push=arguments.push)


COMMIT = Tool(
    name="forge.test_commit",
    summary="Write a file, and commit it on the branch of a build.",
    arguments=CommitArguments,
    output=Made,
    roles=COORDINATORS,
    run=_commit,
    mutates=True,
    person_only=True,
    resolve=undo_move,
)


def commit(world: World, **arguments: Any) -> Envelope:
    """Commit a file on the branch of the build `shop-b1`, through the gateway."""
    gateway = Gateway(world.app.gateway.kernel, {**CATALOGUE, COMMIT.name: COMMIT})
    return gateway.call(world.app.person, COMMIT.name, {"build_id": "shop-b1", **arguments})

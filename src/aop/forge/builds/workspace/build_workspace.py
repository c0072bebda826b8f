"""Build workspace: the tree of the build that a caller's token is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from aop.core.errors import BuildEnded, BuildNotBegun, BuildOnHold, NoBuildInSession, OtherRolesTurn
from aop.core.roles import Role
from aop.forge.broker.sessions import scope_of
from aop.forge.builds.cycle.lookup import refuse_ended, the_cycle
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.machine.crew_step import role_at_work
from aop.forge.builds.machine.decisions import is_complete
from aop.forge.builds.workspace.projection import SHOWN_FOLDER, shown_files
from aop.forge.projects.documents import ForgeBuild
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Call
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.workspaces import Workspace
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot

LARGEST_READ = 50 * 1024
MOST_MATCHES = 50


class OpenBuild(Struct, frozen=True, kw_only=True):
    """A build with its cycle and its feature, as a call found them."""

    build: ForgeBuild
    cycle: BuildCycle
    state: FeatureState


def workspace_of(view: Snapshot, principal: Principal) -> Workspace:
    """Return the workspace of a caller's build. Raises: NoBuildInSession, BuildNotBegun, and as `scope_of`."""
    found = build_of(view, principal)
    return Workspace(
        feature_id=found.state.feature_id,
        tree=found.state.tree,
        version=found.state.version,
        own=frozenset({SHOWN_FOLDER}),
        files=partial(shown_files, view, found.build),
        largest_read=LARGEST_READ,
        most_matches=MOST_MATCHES,
    )


def build_of(view: Snapshot, principal: Principal) -> OpenBuild:
    """Return the build of a caller's session. Raises: NoBuildInSession, BuildNotBegun, and as `scope_of`."""
    build = scope_of(view, principal).build
    if build is None:
        raise NoBuildInSession("A workspace belongs to a build, and the session of your token has none.")
    cycle, state = the_cycle(view, build.build_id, principal), view.get(FeatureState, build.build_id)
    if state is None:
        raise BuildNotBegun(f"The feature of the build `{build.build_id}` was deleted.", build_id=build.build_id)
    return OpenBuild(build=build, cycle=cycle, state=state)


def open_build_of(view: Snapshot, principal: Principal) -> OpenBuild:
    """Return the build of a caller's session, if it takes work now. Raises: BuildEnded, BuildOnHold, as `build_of`."""
    found = build_of(view, principal)
    cycle = found.cycle
    refuse_ended(cycle)
    if is_complete(cycle):
        # Nothing would commit what is written now, and a tree that is not committed cannot be sealed.
        raise BuildEnded(
            f"Every phase of the build `{cycle.build_id}` is signed off.",
            hint=f"`aop forge build {cycle.project_id}` seals it.",
            build_id=cycle.build_id,
        )
    if cycle.hold:
        reason = f": {cycle.hold_reason}" if cycle.hold_reason else ""
        raise BuildOnHold(f"The build `{cycle.build_id}` is on hold ({cycle.hold}{reason}).", build_id=cycle.build_id)
    return found


@contextmanager
def held_build(call: Call) -> Iterator[OpenBuild]:
    """Hold the worktree of the caller's build; yield the build as it is then. Raises: WorktreeBusy, BuildEnded."""
    with call.kernel.record.read() as view:
        name = open_build_of(view, call.principal).cycle.build_id
    with held_worktree(call.kernel, name):
        with call.kernel.record.read() as view:
            found = open_build_of(view, call.principal)
        refuse_other_turn(found.cycle, call.principal.role)
        yield found


def refuse_other_turn(cycle: BuildCycle, role: Role) -> None:
    """Refuse everyone but the role of a team that is at work now. Raises: OtherRolesTurn."""
    if cycle.crew == "team" and role not in (role_at_work(cycle), Role.SYSTEM):
        raise OtherRolesTurn(
            f"The {role_at_work(cycle)} works on the build `{cycle.build_id}` now, and you are a {role}.",
            build_id=cycle.build_id,
            stage=cycle.current.crew.stage,
        )

"""Leftovers of a repository, with removals that are recorded."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.adapters.agents.kept_sessions import drop_sessions
from aop.adapters.reporting.doctor.leftovers import Leftover, Leftovers, Removal
from aop.core.errors import Fault, Json
from aop.core.roles import Role
from aop.forge.projects.old_documents import SHAPES
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.documents.features import TERMINAL, FeatureState
from aop.wiring.build import App


def leftovers_of(app: App) -> Leftovers:
    """Return what finds and removes leftovers; every removal is recorded."""
    kernel = app.gateway.kernel
    base_branch = kernel.config().policy.worktree.base_branch
    who = Principal(role=Role.SYSTEM, actor=app.person.actor)

    def note(leftover: Leftover, did: str, ref: str | None) -> None:
        given: Json = {"kind": leftover.kind, "name": leftover.name, "did": did, "ref": ref}
        if leftover.kind in SHAPES:
            answer = app.gateway.call(who, "forge.leftover_drop", {"kind": leftover.kind, "key": leftover.name})
        else:
            answer = app.gateway.call(who, "leftovers.note", given)
        if answer.error is not None:
            raise Fault(f"The removal of `{leftover.name}` cannot be recorded: {answer.error['message']}")

    return Leftovers(
        app.repository,
        app.record,
        kernel.locks,
        note,
        base_branch=base_branch,
        environ=app.settings.environ,
        now=kernel.clock.now(),
    )


class HubLeftovers(Struct, frozen=True, kw_only=True):
    """The refs at the hub that no feature needs any more, and the refusal of the hub."""

    removals: tuple[Removal, ...] = ()
    error: Mapping[str, Json] | None = None


def clean_hub(app: App, *, apply: bool, grace_seconds: int) -> HubLeftovers:
    """Find refs at the hub that no feature has needed for some time, and remove them with `apply`."""
    who = Principal(role=Role.SYSTEM, actor=app.person.actor)
    wanted: Json = {"dry_run": not apply, "grace_seconds": grace_seconds}
    removals: list[Removal] = []
    is_over = app.hub is None
    while not is_over:
        answer = app.gateway.call(who, "leftovers.clean_hub", wanted)
        if answer.error is not None:
            return HubLeftovers(removals=tuple(removals), error=answer.error)
        found = answer.data["refs"]
        removals += [
            Removal(leftover=Leftover(kind="hub_ref", name=each["ref"]), problem=each["problem"]) for each in found
        ]
        # What stays would be found again.
        is_over = not apply or not answer.data["left"] or any(each["problem"] for each in found)
    return HubLeftovers(removals=tuple(removals))


def drop_ended_sessions(app: App) -> None:
    """Remove the kept sessions of features that have ended or were deleted."""
    with app.record.read() as view:
        living = [state.feature_id for state in view.all(FeatureState) if state.status not in TERMINAL]
    drop_sessions(app.root, living)

"""Followers: the ready features that a merge has made old."""

from __future__ import annotations

from msgspec.structs import replace

from aop.core.roles import Role
from aop.core.text.conflicts import conflict_lines
from aop.kernel.gateway.calls import Envelope
from aop.kernel.merges.base_moves import ready_features_behind
from aop.wiring.build import App


def send_back_conflicts(app: App) -> list[str]:
    """Try every ready feature against the base branch as it is now; return lines about those that conflict."""
    behind = ready_features_behind(app.gateway.kernel)
    return [line for state in behind for line in _lines(_follow(app, state.feature_id))]


def _follow(app: App, feature: str) -> Envelope:
    # A refusal is about that feature alone, and not about the merge that has happened.
    return app.gateway.call(replace(app.person, role=Role.SYSTEM), "repo.follow_base", {"feature_id": feature})


def _lines(followed: Envelope) -> list[str]:
    if not followed.ok or followed.data["conflict"] is None:
        return []
    conflict, feature = followed.data["conflict"], followed.data["feature_id"]
    return [
        conflict["message"],
        *conflict_lines(conflict["conflicts"]),
        f"  {feature} is {followed.data['status']} again; a builder resolves the conflict in the next run: aop resume",
    ]

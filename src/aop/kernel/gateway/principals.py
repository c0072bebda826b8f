"""Principals: the caller, as a token or the terminal says, never the arguments."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import PersonRequired
from aop.core.ids import FeatureId
from aop.core.roles import Role


class Principal(Struct, frozen=True, kw_only=True):
    """An authenticated caller and what it may reach."""

    role: Role
    actor: str
    person: bool = False
    """True for the terminal and the page; false for every token that a model or a worker holds."""
    features: frozenset[FeatureId] | None = None
    """The features that it may touch; None means all of this repository."""
    token: str = ""
    """The id of the token that it came in with; empty for those who need none."""
    user: str = "local"
    """The owner of the projects that it may reach; a person at the terminal is `local`."""
    project: str | None = None
    """The one project that it may reach; None means all of its user."""
    build: str | None = None
    """The one build that it may reach; None means all of its projects."""
    scopes: frozenset[str] | None = None
    """The scopes of the key that it came in with over HTTP; None for all that came otherwise."""
    turn: str = ""
    """The turn of a coding agent that it speaks in: there it reads and proposes, and the supervisor acts."""
    agent_sign: str = ""
    """The sign of an agent at the terminal, such as a variable that AOP gives only to agents; empty for a person."""

    def reaches(self, feature_id: str) -> bool:
        """Tell whether a feature is in this caller's scope."""
        return self.features is None or feature_id in self.features


def refuse_agent(what: str, caller: Principal) -> None:
    """Refuse at a terminal of an agent what is for a person. Raises: PersonRequired."""
    if caller.agent_sign:
        raise PersonRequired(f"{what} is for a person, and {caller.agent_sign}.", sign=caller.agent_sign)


SUPERVISOR = Principal(role=Role.SYSTEM, actor="supervisor")
"""AOP itself, where the supervisor acts for no agent."""

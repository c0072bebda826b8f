"""Sessions: the project and the build that a token reads, within its reach.

The HTTP door keeps no state between two requests, so a session belongs to the token and not to a connection (C-33).
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import NoProjectInSession, UnknownForgeProject
from aop.forge.projects.documents import BrokerSession, ForgeBuild, ForgeProject
from aop.forge.projects.owners import the_build, the_project
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.port import Snapshot


class Scope(Struct, frozen=True, kw_only=True):
    """The project, and the build if there is one, that a call is about."""

    project: ForgeProject
    build: ForgeBuild | None = None

    @property
    def build_id(self) -> str | None:
        """Return the id of the build, if there is one."""
        return None if self.build is None else self.build.build_id


def scope_named(
    view: Snapshot, principal: Principal, project_id: str | None = None, build_id: str | None = None
) -> Scope:
    """Return the project and build of these names; a build alone names its project.

    Raises: UnknownForgeProject, UnknownForgeBuild, NoProjectInSession.
    """
    # A token that was made for a build never sees the project without it.
    build_id = principal.build if build_id is None else build_id
    if build_id is None:
        if project_id is None:
            raise NoProjectInSession("This call names no project, and the session of your token has none.")
        return Scope(project=the_project(view, project_id, principal))
    build = the_build(view, build_id, principal)
    if project_id not in (None, build.project_id):
        # Not: "that build is of another project", which would tell that it exists.
        raise UnknownForgeProject(project_id)
    return Scope(project=the_project(view, build.project_id, principal), build=build)


def scope_of(view: Snapshot, principal: Principal, project_id: str | None = None, build_id: str | None = None) -> Scope:
    """Return the project and build that a call is about: its own names, else those of the session.

    A project that is named without a build keeps the build of the session, if it is of that project.
    Raises: UnknownForgeProject, UnknownForgeBuild, NoProjectInSession.
    """
    known_project, known_build = _session(view, principal)
    if build_id is None and project_id in (None, known_project):
        project_id, build_id = known_project, known_build
    return scope_named(view, principal, project_id, build_id)


def _session(view: Snapshot, principal: Principal) -> tuple[str | None, str | None]:
    stored = view.get(BrokerSession, principal.token) if principal.token else None
    if stored is None:
        return principal.project, principal.build
    return stored.project_id, stored.build_id or None


def narrowed(view: Snapshot, principal: Principal, project_id: str | None, build_id: str | None) -> Principal:
    """Return a caller that reaches this project or build and no other; it cannot reach more than before.

    Raises: UnknownForgeProject, UnknownForgeBuild.
    """
    scope = scope_named(view, principal, project_id, build_id)
    return replace(principal, project=scope.project.project_id, build=scope.build_id)

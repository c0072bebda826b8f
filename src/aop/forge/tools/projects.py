"""Project tools: `forge.project_new`, `forge.project_list`, `forge.project_show`."""

from __future__ import annotations

from itertools import count
from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import ForgeProjectExists, InvalidArguments
from aop.core.text.slugs import slug_of
from aop.forge.contracts.types import BuildMode
from aop.forge.projects.documents import ForgeProject, ForgeUser
from aop.forge.projects.owners import may_reach, own_projects, the_project
from aop.forge.tools.facts import ProjectFacts, ProjectRow, project_facts, project_row
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.port import Snapshot, Transaction

LONGEST_NAME = 120


class ProjectArguments(Arguments, frozen=True, kw_only=True):
    project_id: Annotated[str, Meta(min_length=1, max_length=200)]
    """The project."""


class NewProject(Arguments, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    """Its name, for people; the id is made of its words."""
    mode: BuildMode = "full"
    """`mini` for a project of two phases and three sections of questions."""


class Projects(Struct, frozen=True, kw_only=True):
    projects: tuple[ProjectRow, ...]
    """The projects of the caller, by id."""


def new_project(call: Call, arguments: NewProject, tx: Transaction) -> Outcome:
    """Begin a project of the caller; its id is made of the words of its name."""
    name = " ".join(call.kernel.redact(arguments.name).split())
    now, user = call.kernel.now(), call.principal.user
    if tx.get(ForgeUser, user) is None:
        tx.put(ForgeUser(version=1, user_id=user, name=user, created_at=now), user)
    project = ForgeProject(
        version=1,
        project_id=_new_id(call, tx, name),
        name=name,
        owner=user,
        mode=arguments.mode,
        created_at=now,
        updated_at=now,
    )
    tx.put(project, project.project_id)
    facts = {"project_id": project.project_id, "owner": user, "mode": project.mode}
    tx.append(call.event("project_begun", None, **facts))
    return project_facts(tx, project)


def _new_id(call: Call, view: Snapshot, name: str) -> str:
    """Return an id that nobody uses. Raises: ForgeProjectExists if the caller does, InvalidArguments."""
    slug = slug_of(name)
    if not slug:
        raise InvalidArguments(
            f"The name `{name}` has no letter or digit of the Latin alphabet, from which an id could be made.",
            hint="Choose a name with at least one.",
        )
    known = view.get(ForgeProject, slug)
    if known is not None and may_reach(call.principal, known):
        raise ForgeProjectExists(f"The project `{slug}` already exists.", project_id=slug)
    # Another user's project of that name is not revealed, and the id of a deleted one not used again.
    candidates = (slug if number == 1 else f"{slug}-{number}" for number in count(1))
    return next(each for each in candidates if view.get(ForgeProject, each) is None)


def list_projects(call: Call, _arguments: Arguments) -> Outcome:
    """Return the projects of the caller."""
    with call.kernel.record.read() as view:
        return Projects(projects=tuple(map(project_row, own_projects(view, call.principal))))


def show_project(call: Call, arguments: ProjectArguments) -> Outcome:
    """Return one project with its contracts and builds."""
    with call.kernel.record.read() as view:
        return project_facts(view, the_project(view, arguments.project_id, call.principal))


TOOLS = (
    Tool(
        name="forge.project_new",
        summary="Begin a project: an idea or a repository that gets nine contracts.",
        arguments=NewProject,
        output=ProjectFacts,
        roles=COORDINATORS,
        run=committed(new_project),
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="forge.project_list",
        summary="List the projects of the caller, and how far each is.",
        arguments=Arguments,
        output=Projects,
        roles=COORDINATORS,
        run=list_projects,
        person_only=True,
    ),
    Tool(
        name="forge.project_show",
        summary="Return one project: its status, its contracts and their versions, its builds.",
        arguments=ProjectArguments,
        output=ProjectFacts,
        roles=COORDINATORS,
        run=show_project,
        person_only=True,
    ),
)

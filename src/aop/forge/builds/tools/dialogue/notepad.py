"""Notepad: `forge.note_get`, `forge.note_put`, `forge_read_notepad`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.roles import Role
from aop.forge.broker.sessions import scope_of
from aop.forge.builds.people.notes import LONGEST_NOTE, changed_note, note_of
from aop.forge.projects.documents import ForgeProject, ProjectNote, note_key
from aop.forge.projects.keys import READ_SCOPE, WRITE_SCOPE
from aop.forge.projects.owners import the_project
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.port import Transaction


class PutNote(ProjectArguments, frozen=True, kw_only=True):
    content: Annotated[str, Meta(max_length=LONGEST_NOTE)]
    """The whole note; it replaces the one before. Empty: no note."""


class Note(Struct, frozen=True, kw_only=True):
    project_id: str
    """The project."""
    content: str
    """The note; empty if there is none."""
    updated_at: str = ""
    """When it was last changed; empty if never."""


def get_note(call: Call, arguments: ProjectArguments) -> Outcome:
    """Return the caller's note on a project."""
    with call.kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
        return _shown(project, note_of(view, project.project_id, call.principal.user))


def put_note(call: Call, arguments: PutNote, tx: Transaction) -> Outcome:
    """Replace the caller's note on a project, at any time (FORGE-222)."""
    project, user = the_project(tx, arguments.project_id, call.principal), call.principal.user
    known = note_of(tx, project.project_id, user)
    content = call.kernel.redact(arguments.content)
    note = changed_note(known, project.project_id, user, content=content, now=call.kernel.now())
    if note is not known:
        tx.put(note, note_key(note.project_id, note.user_id))
        size = len(note.content)
        tx.append(call.event("note_changed", None, project_id=note.project_id, characters=size))
    return _shown(project, note)


def read_notepad(call: Call, _arguments: Arguments) -> Outcome:
    """Return the note of the owner of the session's project."""
    with call.kernel.record.read() as view:
        project = scope_of(view, call.principal).project
        return _shown(project, note_of(view, project.project_id, project.owner))


def _shown(project: ForgeProject, note: ProjectNote | None) -> Note:
    if note is None:
        return Note(project_id=project.project_id, content="")
    return Note(project_id=project.project_id, content=note.content, updated_at=note.updated_at)


TOOLS = (
    Tool(
        name="forge.note_get",
        summary="Read your note on a project.",
        arguments=ProjectArguments,
        output=Note,
        roles=COORDINATORS,
        run=get_note,
        person_only=True,
        key_scope=READ_SCOPE,
    ),
    Tool(
        name="forge.note_put",
        summary="Replace your note on a project; a running build is told of it.",
        arguments=PutNote,
        output=Note,
        roles=COORDINATORS,
        run=committed(put_note),
        mutates=True,
        brief=True,
        idempotent=True,
        person_only=True,
        key_scope=WRITE_SCOPE,
    ),
    Tool(
        name="forge_read_notepad",
        summary="Read the notes of the user of your project.",
        arguments=Arguments,
        output=Note,
        roles=frozenset({Role.FORGE_BUILDER, Role.SCOUT, Role.CODER}),
        run=read_notepad,
        lean=True,
    ),
)

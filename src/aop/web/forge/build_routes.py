"""Build routes: answers, texts and notes of people; errors and seal of a build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import Json, NoActiveBuild
from aop.forge.builds.cycle.branch_log import BuildStatus
from aop.forge.builds.cycle.lookup import LIVING, cycles_of
from aop.forge.builds.tools.build_errors import BuildErrors, ErrorFacts
from aop.forge.builds.tools.build_seal import CheckedSeal
from aop.forge.builds.tools.controls import BuildHold
from aop.forge.builds.tools.dialogue.notepad import Note
from aop.forge.projects.keys import READ_SCOPE, WRITE_SCOPE
from aop.forge.projects.owners import the_project
from aop.kernel.features.questions import QuestionFacts
from aop.web.forge.tool_routes import Asked, ToolRoute


class HttpAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to a question of the active build."""

    question_id: Annotated[str, Meta(min_length=1, max_length=20)]
    answer: Annotated[str, Meta(min_length=1, max_length=1000)]


class HttpInterjection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text for the model of the active build."""

    text: Annotated[str, Meta(min_length=1, max_length=4000)]


class HttpNote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole note."""

    content: Annotated[str, Meta(max_length=20_000)]


def _in_path(asked: Asked) -> Mapping[str, Json]:
    return dict(asked.values)


def _in_path_and_body(asked: Asked) -> Mapping[str, Json]:
    return {**asked.values, **msgspec.to_builtins(asked.body)}


def _active_build(asked: Asked) -> Mapping[str, Json]:
    """Name the build that a text is for. Raises: UnknownForgeProject, NoActiveBuild."""
    project = the_project(asked.view, asked.values["project_id"], asked.holder.principal)
    active = (cycle for cycle in cycles_of(asked.view, project.project_id) if cycle.status in LIVING)
    cycle = next(active, None)
    if cycle is None:
        raise NoActiveBuild(f"The project `{project.project_id}` has no active build.", project_id=project.project_id)
    return {"build_id": cycle.build_id, **msgspec.to_builtins(asked.body)}


BUILD_ROUTES: tuple[ToolRoute, ...] = (
    ToolRoute(
        method="POST",
        path="/projects/{project_id}/build/clarify",
        summary="Answer a question of the active build of a project; 404 if it has no such question that is open.",
        tool="forge.clarify",
        scope=WRITE_SCOPE,
        answer=QuestionFacts,
        body=HttpAnswer,
        arguments=_in_path_and_body,
    ),
    ToolRoute(
        method="POST",
        path="/projects/{project_id}/build/interject",
        summary="Tell the model of the active build something before its next reply.",
        tool="forge.build_interject",
        scope=WRITE_SCOPE,
        answer=BuildHold,
        body=HttpInterjection,
        arguments=_active_build,
    ),
    ToolRoute(
        method="GET",
        path="/projects/{project_id}/notepad",
        summary="Your note on a project.",
        tool="forge.note_get",
        scope=READ_SCOPE,
        answer=Note,
        arguments=_in_path,
    ),
    ToolRoute(
        method="PUT",
        path="/projects/{project_id}/notepad",
        summary="Replace your note on a project; a running build is told of it.",
        tool="forge.note_put",
        scope=WRITE_SCOPE,
        answer=Note,
        body=HttpNote,
        arguments=_in_path_and_body,
    ),
    ToolRoute(
        method="GET",
        path="/api/build-cycles/{build_id}",
        summary="A build: its status, its phase, its branch, and its newest commits with their authors.",
        tool="forge.build_status",
        scope=READ_SCOPE,
        answer=BuildStatus,
        arguments=_in_path,
    ),
    ToolRoute(
        method="GET",
        path="/api/build-cycles/{build_id}/seal",
        summary="The seal of a build, and whether it still holds.",
        tool="forge.build_verify_seal",
        scope=READ_SCOPE,
        answer=CheckedSeal,
        arguments=_in_path,
    ),
    ToolRoute(
        method="GET",
        path="/api/build-cycles/{build_id}/errors",
        summary="The errors of a build, the unresolved first.",
        tool="forge.errors_list",
        scope=READ_SCOPE,
        answer=BuildErrors,
        arguments=_in_path,
    ),
    ToolRoute(
        method="POST",
        path="/api/build-cycles/{build_id}/errors/{error_id}/dismiss",
        summary="Dismiss an error that did not end the build.",
        tool="forge.error_dismiss",
        scope=WRITE_SCOPE,
        answer=ErrorFacts,
        arguments=_in_path,
    ),
)

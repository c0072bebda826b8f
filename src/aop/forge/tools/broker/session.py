"""Session tools: choose the project and build of a token; read an artifact."""

from __future__ import annotations

from aop.core.errors import InvalidArguments, UnknownArtifact, UnknownForgeProject
from aop.core.roles import Role
from aop.forge.broker.resolution import find_artifact
from aop.forge.broker.sessions import scope_named, scope_of
from aop.forge.projects.documents import BrokerSession
from aop.forge.tools.broker import broker_answers as answers
from aop.forge.tools.broker.broker_answers import Named, ScopedArguments
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Transaction

COORDINATORS = frozenset({Role.ORCHESTRATOR})


class SetSession(Arguments, frozen=True, kw_only=True):
    """Arguments of `forge_set_session`."""

    project_id: Named
    """The project to read."""
    build_id: Named | None = None
    """The build to read; without one, the project's newest contracts are read."""
    user_id: Named | None = None
    """Must be the user of your token."""


class GetArtifact(ScopedArguments, frozen=True, kw_only=True):
    """Arguments of `forge_get_artifact`."""

    type: Named
    """The type of the artifact."""
    key: Named
    """Its name within the type."""


def set_session(call: Call, arguments: SetSession, tx: Transaction) -> Outcome:
    """Move the session of the caller's token, within what the token reaches."""
    principal = call.principal
    if not principal.token:
        raise InvalidArguments(
            "A session belongs to a token, and this call came without one: name the project in each."
        )
    if arguments.user_id not in (None, principal.user):
        raise UnknownForgeProject(arguments.project_id)
    scope = scope_named(tx, principal, arguments.project_id, arguments.build_id)
    known = tx.get(BrokerSession, principal.token)
    chosen = {"project_id": scope.project.project_id, "build_id": scope.build_id or "", "user_id": principal.user}
    session = BrokerSession(version=1, token_id=principal.token, **chosen) if known is None else revise(known, **chosen)
    tx.put(session, principal.token)
    tx.append(call.event("session_set", None, token_id=principal.token, **chosen))
    return answers.SessionAnswer(
        ok=True, project_id=session.project_id, build_id=scope.build_id, user_id=session.user_id
    )


def get_artifact(call: Call, arguments: GetArtifact) -> Outcome:
    """Return an artifact of the project, within the day that it is kept."""
    with call.kernel.record.read() as view:
        scope = scope_of(view, call.principal, arguments.project_id)
        found = find_artifact(view, scope, arguments.type, arguments.key, now=call.kernel.now())
    if found is None:
        raise UnknownArtifact("The project has no such artifact, or its time is over.", key=arguments.key)
    return answers.ArtifactAnswer(
        **answers.origin(scope, None),
        source="artifact",
        type=found.artifact_type,
        key=found.name,
        content=found.content,
        created_at=found.created_at,
        expires_at=found.expires_at,
    )


TOOLS = (
    Tool(
        name="forge_set_session",
        summary="Choose the project and build that your token reads from now on.",
        arguments=SetSession,
        output=answers.SessionAnswer,
        roles=COORDINATORS,
        run=committed(set_session),
        lean=True,
        mutates=True,
        brief=True,
        idempotent=True,
    ),
    Tool(
        name="forge_get_artifact",
        summary="Read an artifact of a build; it is kept for a day.",
        arguments=GetArtifact,
        output=answers.ArtifactAnswer,
        roles=COORDINATORS,
        run=get_artifact,
        lean=True,
    ),
)

"""Which coding agent works in which role: the command line first, then the environment, then agents.yaml (AOP-313).

Where none of them names one, a run that goes on keeps the agent that it began with.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.core.errors import AgentProviderNotConfigured, UnsupportedAgentProvider
from aop.core.roles import Role
from aop.kernel.config.agents import Provider, Runtime
from aop.kernel.record.documents.runs import RunProvider
from aop.supervisor.workers import ProviderChoice

ROLES = (Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA)
NOBODY: Mapping[str, RunProvider] = {}


class ProviderPreference(Struct, frozen=True, kw_only=True):
    """What one place says about the provider; None where it says nothing."""

    provider: str | None = None
    model: str | None = None
    config_env: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> ProviderPreference:
        """Read what the environment says."""
        return cls(
            provider=environ.get("AOP_AGENT_PROVIDER") or None,
            model=environ.get("AOP_AGENT_MODEL") or None,
            config_env=environ.get("AOP_PROVIDER_CONFIG_ENV") or None,
        )


def choices(
    command_line: ProviderPreference,
    environment: ProviderPreference,
    runtime: Runtime,
    before: Mapping[str, RunProvider] = NOBODY,
) -> dict[Role, ProviderChoice]:
    """Return who works in each role; `before` is who did in the run that goes on.

    Raises: AgentProviderNotConfigured, UnsupportedAgentProvider.
    """
    return {role: choice_of(role, command_line, environment, runtime, before.get(role)) for role in ROLES}


def choice_of(
    role: Role,
    command_line: ProviderPreference,
    environment: ProviderPreference,
    runtime: Runtime,
    before: RunProvider | None = None,
) -> ProviderChoice:
    """Return who works in one role.

    Raises: AgentProviderNotConfigured, UnsupportedAgentProvider.
    """
    preferences = [command_line, environment, *_preferences(role, runtime)]
    if before is not None and not any(preference.provider for preference in preferences):
        preferences.append(
            ProviderPreference(provider=before.provider, model=before.model, config_env=before.provider_config_ref)
        )
    return _choice(role, preferences)


def _preferences(role: Role, runtime: Runtime) -> list[ProviderPreference]:
    own = next((preference for name, preference in runtime.role_provider_overrides.items() if name == role), None)
    preferences = (
        []
        if own is None
        else [ProviderPreference(provider=own.provider, model=own.model, config_env=own.provider_config_env)]
    )
    default = ProviderPreference(
        provider=runtime.default_provider, model=runtime.default_model, config_env=runtime.provider_config_env
    )
    return [*preferences, default]


def _choice(role: Role, preferences: list[ProviderPreference]) -> ProviderChoice:
    provider = next((preference.provider for preference in preferences if preference.provider), None)
    if provider is None:
        raise AgentProviderNotConfigured(f"Nothing says which coding agent works as the {role}.", role=role)
    if provider not in set(Provider):
        raise UnsupportedAgentProvider(f"There is no provider `{provider[:80]}`.", provider=provider[:80], role=role)
    # A model and its settings are those of one provider: what was said beside another one is not meant here.
    fitting = [preference for preference in preferences if preference.provider in (None, provider)]
    return ProviderChoice(
        provider=provider,
        model=next((preference.model for preference in fitting if preference.model), None),
        provider_config_ref=next((preference.config_env for preference in fitting if preference.config_env), None),
    )

"""Providers: each role's agent, by arguments, environment, agents.yaml (AOP-313)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from aop.core.errors import AgentProviderNotConfigured, UnsupportedAgentProvider
from aop.core.roles import Role
from aop.core.text.suggestions import did_you_mean
from aop.kernel.config.agents import Runtime, known_providers
from aop.kernel.record.documents.runs import RunProvider
from aop.supervisor.workers import ProviderChoice

ROLES = (Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA)
NO_PROVIDERS: Mapping[str, RunProvider] = {}


class ProviderPreference(Struct, frozen=True, kw_only=True):
    """The provider settings of one source; None where it has none."""

    provider: str | None = None
    model: str | None = None
    config_env: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> ProviderPreference:
        """Read the environment's settings."""
        return cls(
            provider=environ.get("AOP_AGENT_PROVIDER") or None,
            model=environ.get("AOP_AGENT_MODEL") or None,
            config_env=environ.get("AOP_PROVIDER_CONFIG_ENV") or None,
        )


def provider_choices(
    command_line: ProviderPreference,
    environment: ProviderPreference,
    runtime: Runtime,
    before: Mapping[str, RunProvider] = NO_PROVIDERS,
    *,
    known: Collection[str] = known_providers(),
) -> dict[Role, ProviderChoice]:
    """Return the agent for each role. Raises: AgentProviderNotConfigured, UnsupportedAgentProvider."""
    # `before` holds the agents of the run that is resumed: they count where nothing else chooses one.
    return {
        role: provider_choice(role, command_line, environment, runtime, before.get(role), known=known) for role in ROLES
    }


def provider_choice(
    role: Role,
    command_line: ProviderPreference,
    environment: ProviderPreference,
    runtime: Runtime,
    before: RunProvider | None = None,
    *,
    known: Collection[str] = known_providers(),
) -> ProviderChoice:
    """Return the agent for one role. Raises: AgentProviderNotConfigured, UnsupportedAgentProvider."""
    preferences = [command_line, environment, *_preferences(role, runtime)]
    if before is not None and not any(preference.provider for preference in preferences):
        preferences.append(
            ProviderPreference(provider=before.provider, model=before.model, config_env=before.provider_config_ref)
        )
    return _choice(role, preferences, known)


def _preferences(role: Role, runtime: Runtime) -> list[ProviderPreference]:
    own = [
        ProviderPreference(provider=each.provider, model=each.model, config_env=each.provider_config_env)
        for name, each in runtime.role_provider_overrides.items()
        if name == role
    ]
    default = ProviderPreference(
        provider=runtime.default_provider, model=runtime.default_model, config_env=runtime.provider_config_env
    )
    return [*own, default]


def _choice(role: Role, preferences: list[ProviderPreference], known: Collection[str]) -> ProviderChoice:
    provider = next((preference.provider for preference in preferences if preference.provider), None)
    if provider is None:
        raise AgentProviderNotConfigured(f"No coding agent is chosen for the role {role}.", role=role)
    if provider not in known:
        meant = did_you_mean(provider, known)
        raise UnsupportedAgentProvider(
            f"There is no provider `{provider[:80]}`.{meant}",
            hint=f"Choose one of: {', '.join(known)}.",
            provider=provider[:80],
            role=role,
        )
    # A model and its settings belong to one provider: those given for another provider do not apply.
    fitting = [preference for preference in preferences if preference.provider in (None, provider)]
    return ProviderChoice(
        provider=provider,
        model=next((preference.model for preference in fitting if preference.model), None),
        provider_config_ref=next((preference.config_env for preference in fitting if preference.config_env), None),
    )

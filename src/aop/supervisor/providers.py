"""Which coding agent works in which role: the command line first, then the environment, then agents.yaml (AOP-313)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.core.errors import AgentProviderNotConfigured, UnsupportedAgentProvider
from aop.core.roles import Role
from aop.kernel.agent_models import Provider, Runtime
from aop.supervisor.workers import ProviderChoice

ROLES = (Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA)


class Wish(Struct, frozen=True, kw_only=True):
    """What one place says about the provider; None where it says nothing."""

    provider: str | None = None
    model: str | None = None
    config_env: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Wish:
        """Read what the environment says."""
        return cls(
            provider=environ.get("AOP_AGENT_PROVIDER") or None,
            model=environ.get("AOP_AGENT_MODEL") or None,
            config_env=environ.get("AOP_PROVIDER_CONFIG_ENV") or None,
        )


def choices(command_line: Wish, environment: Wish, runtime: Runtime) -> dict[Role, ProviderChoice]:
    """Return who works in each role.

    Raises: AgentProviderNotConfigured, UnsupportedAgentProvider.
    """
    return {role: choice_of(role, command_line, environment, runtime) for role in ROLES}


def choice_of(role: Role, command_line: Wish, environment: Wish, runtime: Runtime) -> ProviderChoice:
    """Return who works in one role.

    Raises: AgentProviderNotConfigured, UnsupportedAgentProvider.
    """
    return _choice(role, [command_line, environment, *_wishes(role, runtime)])


def _wishes(role: Role, runtime: Runtime) -> list[Wish]:
    own = next((wish for name, wish in runtime.role_provider_overrides.items() if name == role), None)
    wishes = [] if own is None else [Wish(provider=own.provider, model=own.model, config_env=own.provider_config_env)]
    default = Wish(
        provider=runtime.default_provider, model=runtime.default_model, config_env=runtime.provider_config_env
    )
    return [*wishes, default]


def _choice(role: Role, wishes: list[Wish]) -> ProviderChoice:
    provider = next((wish.provider for wish in wishes if wish.provider), None)
    if provider is None:
        raise AgentProviderNotConfigured(f"Nothing says which coding agent the {role} is.", role=role)
    if provider not in set(Provider):
        raise UnsupportedAgentProvider(f"There is no provider `{provider[:80]}`.", provider=provider[:80], role=role)
    return ProviderChoice(
        provider=provider,
        model=next((wish.model for wish in wishes if wish.model), None),
        provider_config_ref=next((wish.config_env for wish in wishes if wish.config_env), None),
    )

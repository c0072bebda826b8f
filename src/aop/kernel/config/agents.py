"""Agent configuration: the shape of agents.yaml. Each key: docs/configuration.md."""

from enum import StrEnum
from typing import Literal

from msgspec import field

from aop.kernel.config import checks as flaws
from aop.kernel.config.checks import demand
from aop.kernel.config.gates import Section


class Provider(StrEnum):
    """A coding agent that AOP can drive."""

    CODEX = "codex"
    CLAUDE = "claude"
    GEMINI = "gemini"
    CUSTOM = "custom"
    MODEL = "model"
    """No coding agent: a model that AOP asks itself, named `provider:model`."""


class AgentRole(Section, frozen=True, kw_only=True):
    system_prompt_path: str | None = None

    def __post_init__(self) -> None:
        if self.system_prompt_path is not None:
            demand(flaws.in_path(self.system_prompt_path), "system_prompt_path")


class AgentRoles(Section, frozen=True, kw_only=True):
    planner: AgentRole = AgentRole()
    builder: AgentRole = AgentRole()
    qa: AgentRole = AgentRole()


class ProviderOverride(Section, frozen=True, kw_only=True):
    """Settings of one role in place of the runtime's defaults."""

    provider: Provider | None = None
    model: str | None = None
    provider_config_env: str | None = None

    def __post_init__(self) -> None:
        if self.model is not None:
            demand(flaws.in_word(self.model), "model")
        if self.provider_config_env is not None:
            demand(flaws.in_variable(self.provider_config_env), "provider_config_env")


class Runtime(Section, frozen=True, kw_only=True):
    default_provider: Provider | None = None
    default_model: str | None = None
    provider_config_env: str | None = None
    role_provider_overrides: dict[Literal["orchestrator", "planner", "builder", "qa"], ProviderOverride] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        if self.default_model is not None:
            demand(flaws.in_word(self.default_model), "default_model")
        if self.provider_config_env is not None:
            demand(flaws.in_variable(self.provider_config_env), "provider_config_env")


class Agents(Section, frozen=True, kw_only=True):
    """agents.yaml: who does the work, and what each role is told."""

    version: Literal[1]
    roles: AgentRoles
    missing_prompt_behavior: Literal["ignore", "error"]
    runtime: Runtime

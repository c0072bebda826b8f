"""Who works in which role: the command line comes before the environment, and both before agents.yaml."""

from __future__ import annotations

import msgspec
import pytest

from aop.core.roles import Role
from aop.kernel.config.agents import Runtime
from aop.supervisor.providers import ProviderPreference, provider_choices

CONFIGURED = msgspec.convert(
    {
        "default_provider": "claude",
        "default_model": "of the repository",
        "provider_config_env": "REPOSITORY",
        "role_provider_overrides": {"qa": {"provider": "codex", "model": "of qa"}},
    },
    Runtime,
)
SILENT = ProviderPreference()


@pytest.mark.req("AOP-142", "AOP-313")
@pytest.mark.parametrize(
    ("command_line", "environment", "builder", "qa"),
    [
        pytest.param(
            SILENT,
            SILENT,
            ("claude", "of the repository", "REPOSITORY"),
            ("codex", "of qa", None),
            id="agents.yaml where nobody else speaks",
        ),
        pytest.param(
            SILENT,
            ProviderPreference(provider="gemini", model="of env"),
            ("gemini", "of env", None),
            ("gemini", "of env", None),
            id="the environment before agents.yaml",
        ),
        pytest.param(
            ProviderPreference(provider="custom", config_env="LINE"),
            ProviderPreference(provider="gemini", model="of env", config_env="ENV"),
            ("custom", None, "LINE"),
            ("custom", None, "LINE"),
            id="the command line before both, and no model of another provider",
        ),
        pytest.param(
            ProviderPreference(provider="claude"),
            ProviderPreference(model="of env"),
            ("claude", "of env", "REPOSITORY"),
            ("claude", "of env", "REPOSITORY"),
            id="what is said of no other provider holds for the one that is taken",
        ),
    ],
)
def test_what_agents_yaml_says_holds_where_neither_command_line_nor_environment_says_it(
    command_line: ProviderPreference,
    environment: ProviderPreference,
    builder: tuple[str, str | None, str | None],
    qa: tuple[str, str | None, str | None],
) -> None:
    chosen = provider_choices(command_line, environment, CONFIGURED)
    found = [msgspec.structs.astuple(chosen[role]) for role in (Role.BUILDER, Role.QA)]
    assert found == [builder, qa]

"""Arguments: the options of commands that supervise."""

from __future__ import annotations

import argparse

from aop.supervisor.providers import ProviderPreference


def add_supervision_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of commands that supervise."""
    parser.add_argument("--agent-provider", metavar="P", help="the coding agent")
    parser.add_argument("--agent-model", metavar="M", help="the model that it uses")
    parser.add_argument("--provider-config-env", metavar="V", help="the variable that holds the provider's settings")
    parser.add_argument("--max-active", type=int, metavar="N", help="how many features are worked on at once")
    parser.add_argument("--wait", action="store_true", help="return when nothing can continue without a person")
    add_anyway_argument(parser)


def add_anyway_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument that accepts a base branch on which the gates fail."""
    parser.add_argument("--anyway", action="store_true", help="begin even if the gates fail on the base branch")


def preference_of(arguments: argparse.Namespace) -> ProviderPreference:
    """Return the provider settings of the command line."""
    return ProviderPreference(
        provider=arguments.agent_provider, model=arguments.agent_model, config_env=arguments.provider_config_env
    )

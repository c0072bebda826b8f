"""Action: one of the things that `aop forge` does, with its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from msgspec import Struct

from aop.cli.shell.terminal import Terminal
from aop.forge.contracts.types import CONTRACT_TYPES


class Action(Struct, frozen=True):
    """What an action takes, and what it does."""

    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Terminal], int]


def declare_nothing(_parser: argparse.ArgumentParser) -> None:
    """Declare no argument."""


def declare_project(parser: argparse.ArgumentParser) -> None:
    """Declare the project that an action is about."""
    parser.add_argument("project", metavar="PROJECT", help="the id of the project, as `aop forge list` shows it")


def declare_contract(parser: argparse.ArgumentParser) -> None:
    """Declare the contract that an action is about."""
    declare_project(parser)
    names = [each.value for each in CONTRACT_TYPES]
    parser.add_argument("contract_type", metavar="TYPE", choices=names, help=f"the contract: {', '.join(names)}")

"""`aop undo`: list a feature's trees, ask, return to an earlier one."""

from __future__ import annotations

import argparse

from aop.cli.change.tree_steps import go_to_tree
from aop.cli.shell.terminal import Terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--to", metavar="TREE", help="the number or the id of a tree (default: one step back)")
    parser.add_argument("--yes", action="store_true", help="return without asking")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, ask, go back."""
    return go_to_tree(arguments, terminal, "undo", to=arguments.to)

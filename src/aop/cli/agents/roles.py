"""Roles as arguments of a command."""

from __future__ import annotations

import argparse

from aop.core.roles import Role
from aop.core.text.suggestions import did_you_mean


def role(word: str) -> Role:
    """Return the role of this name, as the `type` of an option. Raises: ArgumentTypeError."""
    try:
        return Role(word)
    except ValueError as error:
        text = f"there is no role `{word}`; use one of {', '.join(Role)}.{did_you_mean(word, Role)}"
        raise argparse.ArgumentTypeError(text) from error

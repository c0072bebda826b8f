"""Roles as arguments of a command."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from aop.core.roles import Role
from aop.core.text.suggestions import did_you_mean
from aop.kernel.gateway.tokens import TOKEN_ROLES


def role(word: str) -> Role:
    """Return the role of this name, as the `type` of an option. Raises: ArgumentTypeError."""
    return _one_of(word, Role)


def token_role(word: str) -> Role:
    """Return the role of this name, if an agent can have it. Raises: ArgumentTypeError."""
    return _one_of(word, sorted(TOKEN_ROLES))


def _one_of(word: str, roles: Iterable[Role]) -> Role:
    names = [each.value for each in roles]
    if word not in names:
        text = f"there is no role `{word}`; use one of {', '.join(names)}.{did_you_mean(word, names)}"
        raise argparse.ArgumentTypeError(text)
    return Role(word)

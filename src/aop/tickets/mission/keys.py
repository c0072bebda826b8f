"""Keys of tickets, which are part of run ids and file names."""

from __future__ import annotations

import re

from aop.core.errors import TicketKeyInvalid

_PROJECT = re.compile(r"[A-Z][A-Z0-9_]{0,49}", re.ASCII)
_KEY = re.compile(rf"{_PROJECT.pattern}-[1-9][0-9]{{0,11}}", re.ASCII)


def ticket_key(text: str) -> str:
    """Return a valid key. Raises: TicketKeyInvalid."""
    if not _KEY.fullmatch(text):
        raise TicketKeyInvalid("This is not a ticket key such as `SHOP-12`.")
    return text


def is_project_key(text: str) -> bool:
    """Tell whether tickets can belong to a project of this key."""
    return _PROJECT.fullmatch(text) is not None


def project_of(key: str) -> str:
    """Return the project key of a ticket."""
    return key.rpartition("-")[0]

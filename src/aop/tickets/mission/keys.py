"""The key of a ticket, which is a part of names of runs and of files."""

from __future__ import annotations

import re

from aop.core.errors import TicketKeyInvalid

_KEY = re.compile(r"[A-Z][A-Z0-9_]{0,49}-[1-9][0-9]{0,11}", re.ASCII)


def ticket_key(text: str) -> str:
    """Return a key that may be used.

    Raises: TicketKeyInvalid.
    """
    if not _KEY.fullmatch(text):
        raise TicketKeyInvalid("This is not the key of a ticket.")
    return text


def project_of(key: str) -> str:
    """Return the key of the project that a ticket belongs to."""
    return key.rpartition("-")[0]

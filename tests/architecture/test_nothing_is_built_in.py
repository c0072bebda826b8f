"""Ticket work: no address, model, id or token is built in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aop.core.redaction.redactor import Redactor

SOURCE = Path(__file__).parents[2] / "src" / "aop"
PARTS = ("tickets", "adapters/tickets", "cli/tickets/ticket.py")

_ADDRESS = re.compile(r"https?://(?!(?:[\w-]+\.)*example(?:\.com)?\b)[\w\[]")
_MODEL = re.compile(r"\b(?:claude|gpt|gemini|o[1-9])-[\w.]+", re.IGNORECASE)
_LONG_ID = re.compile(r"[\"'][0-9]{5,}[\"']")


def sources() -> list[Path]:
    found = [path for part in PARTS for path in [SOURCE / part] if path.is_file()]
    return [*found, *(path for part in PARTS for path in sorted((SOURCE / part).rglob("*.py")))]


@pytest.mark.req("SCAF-16", "REV-11")
def test_no_source_of_the_ticket_agents_names_an_address_a_model_an_id_or_a_token() -> None:
    redact = Redactor()
    named = {
        f"{path.relative_to(SOURCE)}: {found[0]}"
        for path in sources()
        for pattern in (_ADDRESS, _MODEL, _LONG_ID)
        if (found := pattern.search(path.read_text()))
    }
    secrets = [path.name for path in sources() if redact.secrets_in(path.read_text())]
    assert (named, secrets) == (set(), [])
    assert len(sources()) > 30

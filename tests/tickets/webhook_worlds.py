"""A tracker that sends webhooks: tickets in LOCAL and signed deliveries."""

from __future__ import annotations

import hmac
import json
from pathlib import Path
from typing import Any

import httpx2

from tests.cli.tickets.test_ticket import Place
from tests.mcpserver.clients import Served
from tests.tickets.local_worlds import KEY
from tests.tickets.mission.test_blocks import BLOCK, fenced
from tests.tickets.recorded_plans import record_plan

SECRET = "a-shared-secret-of-the-tracker"
SCAFFOLD, REVIEW = "/webhooks/jira/scaffolding-trigger", "/webhooks/jira/code-review-trigger"


class WebhookPlace(Place):
    """A place whose server takes webhooks, with a ticket for each number."""

    def __init__(self, folder: Path, *, tickets: int = 0) -> None:
        super().__init__(folder)
        self.env |= {"JIRA_WEBHOOK_SECRET": SECRET, "SCAFFOLDING_TRIGGER_STATE": "In Progress"}
        for number in range(1, tickets + 1):
            block = BLOCK.replace(KEY, f"MANY-{number}")
            self.local.tickets.create(f"MANY-{number}", "Orders", fenced(block))
            record_plan(Path(self.env["AOP_MODEL_REPLAY"]), block=block)


def delivery(key: str = KEY, *, to: str = "In Progress", sent: int = 1_700_000_000_000, **changed: Any) -> bytes:
    """Return what the tracker sends when a ticket is moved."""
    told = {
        "webhookEvent": "jira:issue_updated",
        "timestamp": sent,
        "user": {"displayName": "Ada", "emailAddress": "ada@example.org"},
        "issue": {
            "id": "10001",
            "key": key,
            "fields": {"summary": "Orders", "description": "text", "project": {"key": key.rpartition("-")[0]}},
        },
        "changelog": {"items": [{"field": "status", "fromString": "To Do", "toString": to}]},
    }
    return json.dumps({**told, **changed}).encode()


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    """Return the headers of a delivery."""
    signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
    return {"Content-Type": "application/json", "X-Hub-Signature": f"sha256={signature}"}


def post(server: Served, path: str, body: bytes, headers: Any = None) -> tuple[int, Any]:
    """Deliver it; return the status and the answer."""
    told = httpx2.post(server.origin + path, content=body, headers=headers or signed(body), timeout=300)
    return told.status_code, told.json()

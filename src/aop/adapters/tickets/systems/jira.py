"""Jira as the tracker, Data Center or Cloud, through `mcp-atlassian`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from aop.adapters.tickets.mcp.operation_table import TablePort
from aop.adapters.tickets.mcp.retries import with_retries
from aop.adapters.tickets.mcp.upstream import Upstream
from aop.adapters.tickets.systems.wiki_text import wiki_text
from aop.core.errors import Json, RemoteRejected, RemoteUnavailable
from aop.tickets.comments import MARKER, with_marker
from aop.tickets.mission.keys import ticket_key
from aop.tickets.ports import KnownTool, Ticket

MOST_COMMENTS = 100
"""The newest comments; the server returns no more."""

_KEY = {"key": "issue_key"}

TABLE: Mapping[str, KnownTool] = {
    "get_ticket": KnownTool(
        "jira_get_issue", {**_KEY, "fields": "fields", "comments": "comment_limit", "viewed": "update_history"}
    ),
    "search": KnownTool("jira_search", {"query": "jql", "fields": "fields", "most": "limit"}),
    "add_comment": KnownTool("jira_add_comment", {**_KEY, "text": "body"}),
    "update_description": KnownTool("jira_update_issue", {**_KEY, "values": "fields", "returned": "return_fields"}),
    "list_transitions": KnownTool("jira_get_transitions", _KEY),
    "do_transition": KnownTool("jira_transition_issue", {**_KEY, "transition": "transition_id"}),
}

_FENCE = re.compile(r"^(?:```|~~~).*$", re.MULTILINE)
_ARROW = re.compile(r"\s*->\s*")


class JiraTracker(TablePort):
    """Implements `aop.tickets.ports.TrackerPort`."""

    table = TABLE
    prefix = "jira_"

    def __init__(self, upstream: Upstream, *, waits: Sequence[float], is_cloud: bool) -> None:
        super().__init__(upstream)
        self.waits = waits
        self._is_cloud = is_cloud

    @with_retries
    async def get_ticket(self, key: str) -> Ticket:
        found = await self._issue(key, "summary,description,status")
        return Ticket(
            key=key,
            summary=str(found.get("summary") or ""),
            description=found.get("description"),
            status=str(found["status"]["name"]),
        )

    @with_retries
    async def add_comment(self, key: str, text: str, *, marker: str) -> None:
        if not any(has_jira_marker(body, marker) for body in await self._comments(key)):
            await self._call("add_comment", key=key, text=self._markup(with_marker(text, marker)))

    @with_retries
    async def update_task_description(self, key: str, addition: str) -> None:
        description = str((await self._issue(key, "description")).get("description") or "")
        # Jira returns other markup than was written, so only the words are compared.
        if _letters(_FENCE.sub("", addition)) not in _letters(description):
            values = json.dumps({"description": f"{description.rstrip()}\n\n{self._markup(addition)}\n"})
            await self._call("update_description", key=key, values=values, returned="summary")

    @with_retries
    async def update_status(self, key: str, state: str) -> None:
        found = await self._transition(key, state)
        if found is not None:
            await self._call("do_transition", key=key, transition=found)

    @with_retries
    async def check_status(self, key: str, state: str) -> None:
        await self._transition(key, state)

    async def _transition(self, key: str, state: str) -> str | None:
        """Return the id of the transition to a state; None if the ticket is there."""
        # `Start review -> In Review` names a transition and its target, where the two differ.
        transition, wanted = (_ARROW.split(state, maxsplit=1) * 2)[:2]
        if (await self._issue(key, "status"))["status"]["name"].casefold() == wanted.casefold():
            return None
        known = await self._call("list_transitions", key=key)
        names = {transition.casefold(), wanted.casefold()}
        found = [
            each for each in known if names & {str(each.get(name, "")).casefold() for name in ("name", "to_status")}
        ]
        if not found:
            offered: list[Json] = [each["name"] for each in known]
            raise RemoteRejected(
                f"`{key}` has no transition `{transition}`. It has:"
                f" {', '.join(f'`{name}`' for name in offered) or 'none'}.",
                transitions=offered,
                hint="Set the variable of the state to `TRANSITION -> STATE`, with one of these transitions.",
            )
        return str(found[0]["id"])

    @with_retries
    async def finds_tickets(self, query: str) -> bool:
        """Tell whether a query finds a ticket."""
        return bool(await self._search(query))

    async def _search(self, query: str) -> Sequence[Mapping[str, Any]]:
        found: Any = await self._call("search", query=query, fields="comment", most=1)
        return [dict(issue) for issue in found["issues"]]

    async def _issue(self, key: str, fields: str) -> Mapping[str, Any]:
        most = MOST_COMMENTS if fields == "comment" else 0
        wanted = {"key": ticket_key(key), "fields": fields, "comments": most, "viewed": False}
        found: Mapping[str, Any] = await self._call("get_ticket", **wanted)
        return found

    async def _comments(self, key: str) -> Sequence[str]:
        """Return a ticket's comments; the server may report unreadable ones as none, so none is checked by a search."""
        known = (await self._issue(key, "comment")).get("comments") or ()
        if not known and any(issue.get("comments") for issue in await self._search(f'key = "{key}"')):
            raise RemoteUnavailable(f"The comments of `{key}` could not be read, so no comment was added.")
        return [str(comment["body"]) for comment in known]

    def _markup(self, text: str) -> str:
        return text if self._is_cloud else wiki_text(text)


def has_jira_marker(body: str, marker: str) -> bool:
    """Tell whether a comment has a step's marker, in any markup."""
    mark = _letters(f"{MARKER}: {marker}")
    return any(_letters(line) == mark for line in body.splitlines())


def _letters(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9/]", "", text)

"""Server of LOCAL: its tools over MCP on standard streams."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from aop.adapters.tickets.systems.local.database import LocalAnswer, LocalDatabase
from aop.adapters.tickets.systems.local.pages import LocalPages
from aop.adapters.tickets.systems.local.repositories import LocalRepositories, PushedFile
from aop.adapters.tickets.systems.local.tickets import LocalTickets
from aop.brains.shapes import schema_of
from aop.core.errors import Fault, Json
from aop.core.version import VERSION

PROTOCOLS = ("2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05")
UNREADABLE, UNKNOWN_METHOD = -32700, -32601


class LocalTool(Struct, frozen=True):
    """A tool of LOCAL."""

    summary: str
    takes: Mapping[str, Any]
    do: Callable[..., Json]


class Local:
    """LOCAL in one folder: tickets, repositories and pages."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.database = LocalDatabase(folder)
        self.tickets = LocalTickets(self.database)
        self.repositories = LocalRepositories(folder / "repositories", self.database, environ)
        self.pages = LocalPages(folder / "docs")

    def tools(self) -> Mapping[str, LocalTool]:
        """Return the tools by name."""
        tickets, code, pages = self.tickets, self.repositories, self.pages
        where = {"project": str}
        named, request = {**where, "branch": str}, {**where, "number": int}
        return {
            "tracker_get_ticket": LocalTool("Return a ticket.", {"key": str}, tickets.get),
            "tracker_add_comment": LocalTool("Add a comment.", {"key": str, "body": str}, tickets.add_comment),
            "tracker_set_description": LocalTool(
                "Replace a description.", {"key": str, "description": str}, tickets.set_description
            ),
            "tracker_get_transitions": LocalTool(
                "Return the transitions of a ticket.", {"key": str}, tickets.transitions
            ),
            "tracker_transition": LocalTool("Move a ticket.", {"key": str, "transition_id": int}, tickets.transition),
            "vcs_get_project": LocalTool("Return a project.", where, code.project),
            "vcs_get_branch": LocalTool("Return a branch.", named, code.branch),
            "vcs_list_tree": LocalTool("List a folder.", {**where, "ref": str, "path": str}, code.tree),
            "vcs_read_file": LocalTool("Return a file.", {**where, "ref": str, "path": str}, code.file),
            "vcs_create_branch": LocalTool("Create a branch.", {**named, "ref": str}, code.create_branch),
            "vcs_push_files": LocalTool(
                "Commit files.", {**named, "message": str, "files": list[PushedFile]}, code.push_files
            ),
            "vcs_create_merge_request": LocalTool(
                "Open a merge request.",
                {**where, "source_branch": str, "target_branch": str, "title": str, "description": str},
                code.create_merge_request,
            ),
            "vcs_get_merge_request": LocalTool("Return a merge request.", request, code.merge_request),
            "vcs_list_merge_requests": LocalTool(
                "Return the merge requests of a branch.", {**where, "source_branch": str}, code.merge_requests
            ),
            "vcs_get_merge_request_diff": LocalTool("Return a diff.", request, code.diff),
            "vcs_list_notes": LocalTool("Return the notes of a merge request.", request, code.notes),
            "vcs_add_note": LocalTool(
                "Add a note.", {**request, "body": str, "path": str | None, "line": int | None}, code.add_note
            ),
            "vcs_approve_merge_request": LocalTool("Approve a merge request.", {**request, "sha": str}, code.approve),
            "docs_get_page": LocalTool("Return a page.", {"page_id": str}, pages.get),
            "docs_search": LocalTool("Find pages.", {"words": str}, pages.search),
        }


class _Request(Struct, frozen=True):
    method: str = ""
    id: int | str | None = None
    params: dict[str, Any] = {}


class LocalServer:
    """Serves the tools, one call at a time, without the SDK, whose import takes longer than a whole scaffold."""

    def __init__(self, tools: Mapping[str, LocalTool]) -> None:
        self._tools = tools
        self._shapes = {name: _shape(name, tool.takes) for name, tool in tools.items()}

    def serve(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        """Serve until the client closes our input."""
        for line in incoming:
            reply = self.reply(line)
            if reply is not None:
                outgoing.write(msgspec.json.encode({"jsonrpc": "2.0", **reply}) + b"\n")
                outgoing.flush()

    def reply(self, line: bytes) -> Mapping[str, Any] | None:
        """Return the answer to a message; a notification has none."""
        try:
            asked = msgspec.json.decode(line, type=_Request)
        except (msgspec.MsgspecError, RecursionError):
            return {"id": None, "error": {"code": UNREADABLE, "message": "This is not a request."}}
        if asked.id is None:
            return None
        match asked.method:
            case "initialize":
                result = _greeting(asked.params.get("protocolVersion"))
            case "tools/list":
                result = {"tools": self._tool_list()}
            case "tools/call":
                result = self._call(str(asked.params.get("name")), asked.params.get("arguments") or {})
            case "ping":
                result = {}
            case _:
                return {"id": asked.id, "error": {"code": UNKNOWN_METHOD, "message": "There is no such method."}}
        return {"id": asked.id, "result": result}

    def _tool_list(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "description": tool.summary, "inputSchema": schema_of(self._shapes[name])}
            for name, tool in self._tools.items()
        ]

    def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = self._answer(name, arguments)
        except LocalAnswer as error:
            return _result(str(error), is_error=True)
        except Fault:
            return _result("500: LOCAL broke", is_error=True)
        return _result(msgspec.json.encode(answer).decode(), is_error=False)

    def _answer(self, name: str, arguments: Mapping[str, Any]) -> Json:
        if name not in self._tools:
            raise LocalAnswer(400, f"there is no tool `{name}`")
        try:
            given = msgspec.convert(dict(arguments), type=self._shapes[name])
        except msgspec.ValidationError as error:
            raise LocalAnswer(400, str(error)) from error
        return self._tools[name].do(**{field: getattr(given, field) for field in self._tools[name].takes})


def _shape(name: str, takes: Mapping[str, Any]) -> type[Struct]:
    return msgspec.defstruct(name, [*takes.items()], frozen=True, kw_only=True, forbid_unknown_fields=True)


def _greeting(wanted: object) -> dict[str, Any]:
    return {
        "protocolVersion": wanted if wanted in PROTOCOLS else PROTOCOLS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "aop-local", "version": VERSION},
    }


def _result(text: str, *, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def main() -> None:
    """Serve a folder."""
    local = Local(Path(sys.argv[1]), os.environ)
    with local.database.held_open():
        LocalServer(local.tools()).serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()

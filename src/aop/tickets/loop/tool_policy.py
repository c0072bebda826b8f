"""Tool policy: the operations that a model may use, and their server tools.

A server's tool is offered only if the port maps it to one of these operations and the agent may use that operation. The
server's own descriptions are never shown, since they may be instructions. A tool whose name says delete, merge, approve
or force is always refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aop.brains.conversation import Offer
from aop.brains.shapes import schema_of
from aop.core.errors import Fault
from aop.tickets.ports import KnownTool
from aop.tickets.scaffold_plan import MOST_FILES, PlannedFile

_MERGE_REQUEST = re.compile(r"merge_?requests?|pull_?requests?", re.IGNORECASE)
_DESTRUCTIVE = re.compile(
    r"(?:\A|_)(?:accept|approve|archive|close|delete|destroy|drop|force|merge|move|overwrite|purge|rebase|remove|reset"
    r"|revert|transfer|unapprove|unprotect|wipe)(?:d|s)?(?:\Z|_)",
    re.IGNORECASE,
)

Text = Annotated[str, Meta(min_length=1, max_length=10_000)]
Short = Annotated[str, Meta(max_length=1_000)]


class NoArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments, except those that the mission fixes."""


class Place(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file or a folder of a branch."""

    ref: Short
    path: Short = ""


class Words(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words to search for."""

    words: Short


class Page(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the documentation."""

    page: Short


class Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text for people."""

    text: Text


class CommitFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files of a commit."""

    files: Annotated[tuple[PlannedFile, ...], Meta(min_length=1, max_length=MOST_FILES)]


class TicketTool(Struct, frozen=True):
    """An operation as it is offered to a model."""

    operation: str
    side: str
    held: tuple[str, ...]
    """Arguments that the mission fixes; a call with another value is refused."""
    says: str
    takes: type[Struct] = NoArguments
    writes: bool = False


IDENTIFYING = frozenset(["key", "project", "branch", "number"])
"""The fixed arguments that bind a call to its mission; others only narrow it."""

_VCS, _TRACKER, _DOCS = "vcs", "tracker", "docs"
_BRANCH, _FROM_BASE, _REQUEST = ("project", "branch"), ("project", "branch", "base"), ("project", "number")
_LIST_OF_BRANCH = ("project", "branch", "state", "whose")
_COMMITS = "Commit all files of the scaffold, once, to the mission's branch; Python writes the message."
_OPENS = "Open the merge request of the mission's branch; `text` says in a few sentences what was made."
_APPENDS = "Append a paragraph to the ticket's description. Python appends the block for the review itself."
_MOVES = "Move the ticket to the state that follows a success."
TOOLS = (
    TicketTool("get_ticket", _TRACKER, ("key",), "Return the ticket."),
    TicketTool("get_project", _VCS, ("project",), "Return the project."),
    TicketTool("get_branch", _VCS, _BRANCH, "Return the mission's branch."),
    TicketTool("list_tree", _VCS, ("project",), "List a folder at a branch.", Place),
    TicketTool("read_file", _VCS, ("project",), "Return a file at a branch.", Place),
    TicketTool("list_merge_requests", _VCS, _LIST_OF_BRANCH, "List the branch's merge requests."),
    TicketTool("get_merge_request", _VCS, _REQUEST, "Return the merge request."),
    TicketTool("list_notes", _VCS, _REQUEST, "Return the merge request's notes."),
    TicketTool("search_pages", _DOCS, (), "Find pages of the documentation.", Words),
    TicketTool("get_page", _DOCS, (), "Return a page of the documentation.", Page),
    TicketTool("create_branch", _VCS, _FROM_BASE, "Make the mission's branch at the head of its base.", writes=True),
    TicketTool("commit", _VCS, _BRANCH, _COMMITS, CommitFiles, writes=True),
    TicketTool("create_merge_request", _VCS, _FROM_BASE, _OPENS, Message, writes=True),
    TicketTool("add_comment", _TRACKER, ("key",), "Comment on the ticket.", Message, writes=True),
    TicketTool("update_description", _TRACKER, ("key",), _APPENDS, Message, writes=True),
    TicketTool("do_transition", _TRACKER, ("key", "transition"), _MOVES, writes=True),
)
READS = frozenset(tool.operation for tool in TOOLS if not tool.writes)
SCAFFOLDER_MAY = (READS - {"get_merge_request", "list_notes"}) | {
    "create_branch", "commit", "create_merge_request", "add_comment", "update_description", "do_transition",
}  # fmt: skip
REVIEWER_MAY = READS
"""A reviewer's model only reads; Python checks and publishes its findings."""


class ServerTool(Struct, frozen=True, kw_only=True):
    """A tool that the server of a port lists."""

    side: str
    tool: str
    numbers: tuple[str, ...] = ()
    """Arguments that must be numbers."""


class AllowedTool(Struct, frozen=True, kw_only=True):
    """A tool that the policy allows."""

    name: str
    """`side.tool`, since two servers may use the same name."""
    side: str
    tool: str
    operation: str
    arguments: Mapping[str, str]
    numbers: tuple[str, ...] = ()

    @property
    def meaning(self) -> TicketTool:
        """Return its operation."""
        return next(tool for tool in TOOLS if tool.operation == self.operation)


def server_tools(side: str, offers: Sequence[Offer]) -> Iterator[ServerTool]:
    """Return the tools of a server with their number arguments, and without descriptions."""
    names = [offer.name for offer in offers]
    if len(set(names)) != len(names):
        raise Fault(f"The server of the {side} lists a tool twice.")
    for offer in offers:
        takes = offer.schema.get("properties", {})
        numbers = tuple(name for name, about in takes.items() if "integer" in _types(about))
        yield ServerTool(side=side, tool=offer.name, numbers=numbers)


def allowed_tools(
    tools: Sequence[ServerTool], known: Mapping[str, Mapping[str, KnownTool]], may: Collection[str]
) -> tuple[AllowedTool, ...]:
    """Return the tools that a model may use, in a fixed order."""
    there = {(tool.side, tool.tool): tool for tool in tools}
    passed: dict[str, AllowedTool] = {}
    for wanted in TOOLS:
        row = known[wanted.side].get(wanted.operation) if wanted.operation in may else None
        found = there.get((wanted.side, row.tool)) if row else None
        if row is None or found is None or is_destructive(row.tool) or not _takes_all_arguments(wanted, row):
            continue
        allowed = AllowedTool(
            name=f"{wanted.side}.{row.tool}",
            side=wanted.side,
            tool=row.tool,
            operation=wanted.operation,
            arguments=row.arguments,
            numbers=found.numbers,
        )
        passed.setdefault(allowed.name, allowed)
    return tuple(passed.values())


def _takes_all_arguments(wanted: TicketTool, row: KnownTool) -> bool:
    """Tell whether a server's tool takes all arguments of a read; a port carries out writes."""
    needed = {*wanted.takes.__struct_fields__, *IDENTIFYING.intersection(wanted.held)}
    return wanted.writes or needed <= set(row.arguments)


def is_destructive(tool: str) -> bool:
    """Tell whether the name of a tool says that it undoes, overwrites or decides something."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]+", "_", tool)
    return _DESTRUCTIVE.search(_MERGE_REQUEST.sub("request", words)) is not None


def offer_of(tool: AllowedTool, held: Mapping[str, str]) -> Offer:
    """Return a tool as it is offered to the model, with the values that the mission fixes."""
    schema: dict[str, Any] = schema_of(tool.meaning.takes)
    fixed = {name: {"const": held[name]} for name in tool.meaning.held if name in held}
    schema["properties"] = {**schema.get("properties", {}), **fixed}
    schema["additionalProperties"] = False
    return Offer(name=tool.name, description=tool.meaning.says, schema=_without_prose(schema))


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_prose(part) for key, part in schema.items() if key not in ("title", "description")}
    return [_without_prose(part) for part in schema] if isinstance(schema, list) else schema


def _types(about: Any) -> Collection[str]:
    """Return the JSON types that an argument accepts."""
    if not isinstance(about, Mapping):
        return ()
    named = about.get("type", ())
    own = [named] if isinstance(named, str) else [str(each) for each in named]
    return [*own, *(each for part in about.get("anyOf", ()) for each in _types(part))]


def free_arguments(tool: TicketTool, arguments: Mapping[str, Any]) -> Struct:
    """Parse the arguments that the model chooses. Raises: msgspec.ValidationError."""
    free = {name: value for name, value in arguments.items() if name not in tool.held}
    return msgspec.convert(free, type=tool.takes)

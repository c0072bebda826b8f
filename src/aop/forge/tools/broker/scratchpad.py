"""Scratchpad tool: notes of a build that outlive a conversation."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from aop.core.errors import InvalidArguments, NoBuildInSession, UnknownNote
from aop.core.roles import Role
from aop.core.text.suggestions import did_you_mean
from aop.forge.broker.fetches import contracts_read, has_fetches
from aop.forge.broker.sessions import scope_of
from aop.forge.projects.documents import ForgeBuild, ScratchNote
from aop.forge.tools.broker.broker_answers import ScratchpadAnswer
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot, Transaction

CONTRACTS_READ = "contracts_read"
"""A key that AOP writes itself: the contracts that were read in this build (FORGE-069)."""

LONGEST_NOTE = 50_000
MOST_NOTES = 200

EVERY_FORGE_ROLE = frozenset({Role.FORGE_BUILDER, Role.SCOUT, Role.CODER, Role.AUDITOR, Role.FIXER})


class Scratchpad(Arguments, frozen=True, kw_only=True):
    """Arguments of `forge_scratchpad`."""

    operation: Literal["read", "write", "append", "list"]
    """What to do."""
    key: Annotated[str, Meta(pattern="^[A-Za-z0-9_.:-]{1,120}$")] | None = None
    """Not for `list`. `contracts_read` has the contracts that were read so far."""
    value: Annotated[str, Meta(max_length=LONGEST_NOTE)] | None = None
    """For `write` and `append`."""


def scratchpad(call: Call, arguments: Scratchpad, tx: Transaction) -> Outcome:
    """Read, write, append to or list the notes of the session's build."""
    build = scope_of(tx, call.principal).build
    if build is None:
        raise NoBuildInSession("A scratchpad belongs to a build, and the session of your token has none.")
    if arguments.operation == "list":
        return _answer(build, keys=_keys(tx, build))
    if arguments.key is None:
        raise InvalidArguments(f"`{arguments.operation}` needs a `key`.")
    if arguments.operation == "read":
        return _answer(build, key=arguments.key, value=_value(tx, build, arguments.key))
    return _answer(build, key=arguments.key, value=_write(call, arguments, tx, build, arguments.key))


def _answer(build: ForgeBuild, **facts: str | tuple[str, ...]) -> ScratchpadAnswer:
    return ScratchpadAnswer(project_id=build.project_id, build_id=build.build_id, **facts)  # type: ignore[arg-type]


def _note_key(build: ForgeBuild, key: str) -> str:
    return f"{build.build_id}/{key}"


def _keys(view: Snapshot, build: ForgeBuild) -> tuple[str, ...]:
    own = [note.name for note in view.all(ScratchNote, f"{build.build_id}/")]
    return tuple(sorted([*own, *([CONTRACTS_READ] if has_fetches(view, build.build_id) else [])]))


def _value(view: Snapshot, build: ForgeBuild, key: str) -> str:
    if key == CONTRACTS_READ:
        return "\n".join(contracts_read(view, build.build_id))
    note = view.get(ScratchNote, _note_key(build, key))
    if note is None:
        raise UnknownNote(f"The scratchpad has no `{key}`.{did_you_mean(key, _keys(view, build))}", key=key)
    return note.value


def _write(call: Call, arguments: Scratchpad, tx: Transaction, build: ForgeBuild, key: str) -> str:
    """Store a note, and return what it holds now."""
    if arguments.value is None:
        raise InvalidArguments(f"`{arguments.operation}` needs a `value`.")
    if key == CONTRACTS_READ:
        raise InvalidArguments(f"`{CONTRACTS_READ}` is written by AOP: choose another key.")
    known = tx.get(ScratchNote, _note_key(build, key))
    before = known.value if known is not None and arguments.operation == "append" else ""
    # As a whole: a secret may be written in two parts.
    value = call.kernel.redact.mask_secrets(before + arguments.value)
    _check_size(tx, build, value, is_new=known is None)
    now = call.kernel.now()
    note = (
        ScratchNote(version=1, build_id=build.build_id, name=key, value=value, updated_at=now)
        if known is None
        else revise(known, value=value, updated_at=now)
    )
    tx.put(note, _note_key(build, key))
    if tx.get(FeatureState, build.build_id) is not None:
        # The worktree of a build that has begun shows its notes.
        tx.mark_unshown("workflow", build.build_id)
    tx.append(call.event("scratchpad_written", None, build_id=build.build_id, key=key, characters=len(value)))
    return value


def _check_size(view: Snapshot, build: ForgeBuild, value: str, *, is_new: bool) -> None:
    if len(value) > LONGEST_NOTE:
        raise InvalidArguments(f"A note has at most {LONGEST_NOTE:,} characters: write a shorter one.")
    if is_new and len(_keys(view, build)) >= MOST_NOTES:
        raise InvalidArguments(f"A scratchpad has at most {MOST_NOTES} notes: write to one that exists.")


TOOLS = (
    Tool(
        name="forge_scratchpad",
        summary="Keep notes of your build: read, write, append, list. They outlive this conversation.",
        arguments=Scratchpad,
        output=ScratchpadAnswer,
        roles=EVERY_FORGE_ROLE,
        run=committed(scratchpad),
        lean=True,
        mutates=True,
        brief=True,
        in_turn=True,
    ),
)

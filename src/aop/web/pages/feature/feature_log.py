"""Log of a feature: words and calls of its agents, and logs of its gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from aop.core.errors import Json
from aop.kernel.ports.call_log import LoggedCall
from aop.kernel.tools.gates.log import LARGEST_PART
from aop.web.pages.feature.turn_parts import ToldLine, part_of_log, roles_with_logs, told_line
from aop.web.pages.frame import Visit
from aop.wiring.build import CALL_LOG

PART_BYTES = 128 * 1024
"""So much of a turn's log is read at a time."""
MOST_LINES = 300
MOST_CALLS = 200
CALL_BYTES = 512 * 1024
LONGEST_LINE = 2000
KINDS = ("says", "calls", "answers", "prints")


class LogLine(Struct, frozen=True, kw_only=True):
    """One line of an agent's log."""

    at: int
    """The byte at which it begins."""
    kind: str
    text: str


class RoleLog(Struct, frozen=True, kw_only=True):
    """A part of the log of the newest turn of a role."""

    role: str
    lines: tuple[LogLine, ...]
    older: str
    """The address of the part before it; empty if there is none."""
    newest: str
    """The address of the end of the log; empty if it is shown."""
    size: int


def log_facts(visit: Visit, feature_id: str) -> dict[str, Any]:
    """Return the logs of a feature's agents, or a part of the log of a gate."""
    if run := visit.query.get("run", ""):
        return {"gate_log": _gate_log(visit, feature_id, run), "roles": ()}
    filters = {name: visit.query.get(name, "") for name in ("role", "kind", "text")}
    address = f"/features/{quote(feature_id)}/log"
    roles = roles_with_logs(visit.door.kernel.files, feature_id)
    shown = [role for role in roles if filters["role"] in ("", role)]
    is_following = visit.query.get("follow") == "1"
    follow = {} if is_following else {"follow": "1"}
    return {
        "gate_log": None,
        "roles": roles,
        "kinds": KINDS,
        "filters": filters,
        "is_following": is_following,
        "follow_address": _link(address, {**filters, **follow}),
        "logs": [_role_log(visit, feature_id, role, address, filters) for role in shown],
        "calls": _calls(visit, feature_id, filters),
    }


def _role_log(visit: Visit, feature_id: str, role: str, address: str, filters: Mapping[str, str]) -> RoleLog:
    before = _number(visit.query.get("before", "")) if filters["role"] == role else None
    part = part_of_log(visit.door.kernel.files, feature_id, role, before=before, limit=PART_BYTES)
    redact = visit.door.kernel.redact
    found = [(at, told_line(redact(line))) for at, line in part.lines[-MOST_LINES * 4 :] if line.strip()]
    lines = [(at, told) for at, told in found if _fits(told, filters)][-MOST_LINES:]
    begin = lines[0][0] if len(lines) == MOST_LINES else part.begin
    return RoleLog(
        role=role,
        lines=tuple(LogLine(at=at, kind=told.kind, text=told.text[:LONGEST_LINE]) for at, told in lines),
        older=_link(address, {**filters, "role": role, "before": str(begin)}) if begin else "",
        newest=_link(address, {**filters, "role": role}) if before is not None else "",
        size=part.size,
    )


def _fits(told: ToldLine, filters: Mapping[str, str]) -> bool:
    return filters["kind"] in ("", told.kind) and filters["text"].casefold() in told.text.casefold()


def _calls(visit: Visit, feature_id: str, filters: Mapping[str, str]) -> list[LoggedCall]:
    """Return the newest calls of the feature, the newest last."""
    newest = visit.door.kernel.files.read_part(CALL_LOG, offset=None, limit=CALL_BYTES)
    found = [
        call
        for call in _logged(newest.content)
        if call.feature_id == feature_id
        and filters["role"] in ("", call.role)
        and filters["text"].casefold() in f"{call.tool} {call.outcome}".casefold()
    ]
    return found[-MOST_CALLS:]


def _logged(content: bytes) -> Iterator[LoggedCall]:
    for line in content.splitlines():
        # The first line may be read in part, and a full disk may have cut another.
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=LoggedCall)


def _gate_log(visit: Visit, feature_id: str, run: str) -> dict[str, Any]:
    """Return a part of the log of a gate, and the addresses of the parts around it. Raises: ToolRefused."""
    step, at = _number(visit.query.get("step", "")) or 0, _number(visit.query.get("at", ""))
    wanted: dict[str, Json] = {"feature_id": feature_id, "run": run, "step": min(step, 1000), "offset": at}
    part: dict[str, Any] = visit.ask("gates.log", wanted)
    address = f"/features/{quote(feature_id)}/log"
    same = {"run": part["run_id"], "step": str(part["step"])}
    return {**part, "links": list(_parts(address, same, part))}


def _parts(address: str, same: Mapping[str, str], part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if part["offset"]:
        yield "Beginning", _link(address, {**same, "at": "0"})
        yield "Before", _link(address, {**same, "at": str(max(0, part["offset"] - LARGEST_PART))})
    if part["end"] < part["size"]:
        yield "Next", _link(address, {**same, "at": str(part["end"])})
        yield "End", _link(address, same)


def _link(address: str, wishes: Mapping[str, str]) -> str:
    return f"{address}?{urlencode({name: value for name, value in wishes.items() if value})}"


def _number(text: str) -> int | None:
    return int(text[:15]) if text.isascii() and text.isdigit() else None

"""Recordings of model exchanges: without secrets, keyed by request."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from aop.brains.conversation import Reply, Request
from aop.core.errors import Json
from aop.core.redaction.redactor import mask_json
from aop.core.text.json import canonical_json

NOT_ASKED = ("timeout_seconds", "max_output_tokens", "fence")
"""Fields that differ between runs although the request is the same."""


class Exchange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a recording."""

    key: str
    asked: Any
    """The request, for people to read."""
    reply: Reply


def recorded_exchange(request: Request, reply: Reply, redact: Callable[[str], str]) -> Exchange:
    """Return an exchange as it is stored."""
    kept: Json = mask_json(msgspec.to_builtins(msgspec.structs.replace(reply, kept="")), redact)
    return Exchange(
        key=request_key(request, redact),
        asked=_comparable(request, redact),
        reply=msgspec.convert(kept, type=Reply),
    )


def request_key(request: Request, redact: Callable[[str], str]) -> str:
    """Return the key of a request, equal for equal requests."""
    return sha256(canonical_json(_comparable(request, redact))).hexdigest()


def _comparable(request: Request, redact: Callable[[str], str]) -> Json:
    turns = tuple(msgspec.structs.replace(turn, kept="") if isinstance(turn, Reply) else turn for turn in request.turns)
    built = msgspec.to_builtins(msgspec.structs.replace(request, turns=turns))
    compared = {name: value for name, value in built.items() if name not in NOT_ASKED}
    return mask_json(compared, lambda text: redact(text.replace(request.fence, "FENCE") if request.fence else text))

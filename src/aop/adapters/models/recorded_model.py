"""Recorded model: exchanges stored as JSON lines, and replayed by request."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from aop.brains.conversation import Model, Reply, Request
from aop.brains.recordings import Exchange, recorded_exchange, request_key
from aop.core.errors import InputPathNotFound, ReplayDiverged


class RecordingModel:
    """Implements `aop.brains.conversation.Model`: asks another model, and stores each exchange."""

    def __init__(self, model: Model, path: Path, redact: Callable[[str], str]) -> None:
        self._model = model
        self._path = path
        self._redact = redact
        # Fails here, before a request is paid for, if the file cannot be written.
        self._append(b"")

    @property
    def names(self) -> tuple[str, ...]:
        return self._model.names

    async def reply(self, request: Request) -> Reply:
        reply = await self._model.reply(request)
        self._append(msgspec.json.encode(recorded_exchange(request, reply, self._redact)) + b"\n")
        return reply

    def _append(self, line: bytes) -> None:
        try:
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as recording:
                recording.write(line)
                recording.flush()
                os.fsync(recording.fileno())
        except OSError as error:
            name = self._path.name
            raise InputPathNotFound(f"The recording `{name}` cannot be written: {error.strerror}.") from error


class RecordedModel:
    """Implements `aop.brains.conversation.Model`: replays the recorded replies."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self._replies = {exchange.key: exchange.reply for exchange in _read(path)}
        self._redact = redact

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(reply.model for reply in self._replies.values()))

    async def reply(self, request: Request) -> Reply:
        key = request_key(request, self._redact)
        if key not in self._replies:
            raise ReplayDiverged(
                f"The recording has no reply to this request (`{key[:12]}`).",
                hint="The request has changed since the recording; record it again.",
                key=key,
                recorded=len(self._replies),
            )
        return self._replies[key]


def _read(path: Path) -> list[Exchange]:
    try:
        decoder = msgspec.json.Decoder(Exchange)
        return decoder.decode_lines(path.read_bytes())
    except OSError as error:
        raise InputPathNotFound(f"The recording `{path.name}` cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise InputPathNotFound(f"`{path.name}` is not a recording: {error}.") from error

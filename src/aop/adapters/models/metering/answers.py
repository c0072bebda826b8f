"""Answers of providers: token usage, read from a passing stream or JSON text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from aop.adapters.models.metering.dialects import ReportedTokens
from aop.brains.conversation import TokenCounts

LARGEST_TEXT = 64 * 1024 * 1024
"""Longer texts are passed on but not parsed."""
_BYTES_IN_A_TOKEN = 4


class AnswerReader:
    """Reads the usage from the bytes of one answer."""

    def __init__(
        self, read: Callable[[Mapping[str, Any], TokenCounts], ReportedTokens | None], *, in_events: bool
    ) -> None:
        self._read = read
        self._in_events = in_events
        self._rest = bytearray()
        self._reported: ReportedTokens | None = None
        self._length = 0

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes."""
        self._length += len(chunk)
        self._rest += chunk
        if self._in_events and b"\n" in chunk:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                # Most events are text; only those with usage are parsed.
                if line.startswith(b"data:") and b'"usage' in line:
                    self._parse(line[5:])
        if len(self._rest) > LARGEST_TEXT:
            self._rest.clear()

    def end(self) -> None:
        """Read the rest at the end of the answer."""
        self._parse(self._rest.removeprefix(b"data:"))
        self._rest.clear()

    @property
    def is_complete(self) -> bool:
        """Tell whether the provider has reported the final usage."""
        reported = self._reported
        return reported is not None and reported.is_final and reported.usage.total_tokens is not None

    def usage(self, request_length: int) -> TokenCounts:
        """Return the reported tokens; without a final report, at least an estimate from the bytes."""
        known = TokenCounts() if self._reported is None else self._reported.usage
        if self.is_complete:
            return known
        return TokenCounts(
            input_tokens=known.input_tokens or request_length // _BYTES_IN_A_TOKEN,
            output_tokens=max(known.output_tokens or 0, self._length // _BYTES_IN_A_TOKEN),
            cache_read_tokens=known.cache_read_tokens,
            cache_write_tokens=known.cache_write_tokens,
        )

    def _parse(self, text: bytearray) -> None:
        try:
            said = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return
        for event in said if isinstance(said, list) else [said]:
            before = TokenCounts() if self._reported is None else self._reported.usage
            self._reported = (self._read(event, before) if isinstance(event, dict) else None) or self._reported

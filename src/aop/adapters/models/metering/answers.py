"""Answers of providers: usage, trouble and end, read from the passing bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from aop.adapters.models.metering.dialects import ReportedTokens
from aop.adapters.models.metering.troubles import begins_with, trouble_in_event, trouble_named
from aop.brains.conversation import TokenCounts
from aop.core.errors import ProviderAnswerCutOff, ProviderAnswerMalformed
from aop.kernel.record.documents.usage import Trouble

_ENDS = re.compile(
    rb'\[DONE\]|"message_stop"|"response\.(?:completed|incomplete|failed)"|"finish(?:_r|R)eason"\s*:\s*"'
)
"""The last events of a stream; inside a text of the model, the quotation marks would have a backslash."""
LARGEST_TEXT = 64 * 1024 * 1024
"""Longer texts are passed on but not parsed."""
_BYTES_IN_A_TOKEN = 4
_SHOWN_BYTES = 4096


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
        self._beginning = b""
        self._has_begun = False
        self._has_ended = False
        self._event_trouble: Trouble | None = None

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes."""
        if self._length < _SHOWN_BYTES:
            self._beginning += chunk[: _SHOWN_BYTES - self._length]
        self._length += len(chunk)
        self._rest += chunk
        if self._in_events and b"\n" in chunk:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    self._read_event(line[5:])
        if len(self._rest) > LARGEST_TEXT:
            self._rest.clear()

    def end(self) -> None:
        """Read the rest at the end of the answer."""
        if self._in_events:
            self._read_event(self._rest.removeprefix(b"data:"))
        else:
            self._has_begun = self._has_ended = self._parse(self._rest)
        self._rest.clear()

    def trouble(self) -> Trouble | None:
        """Return the trouble of an answer that came to its end; None if it is that of a model."""
        if self._event_trouble is not None:
            return self._event_trouble
        if not self._has_begun:
            words = begins_with(self._beginning) or "It is empty."
            return trouble_named(ProviderAnswerMalformed.code, words)
        return None if self._has_ended or self.is_complete else trouble_named(ProviderAnswerCutOff.code)

    def _read_event(self, data: bytearray) -> None:
        self._has_begun = self._has_begun or b"{" in data
        self._has_ended = self._has_ended or _ENDS.search(data) is not None
        # Most events are text; only those with usage or an error are parsed.
        if b'"usage' in data or b'"error' in data:
            self._parse(data)

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

    def _parse(self, text: bytearray) -> bool:
        """Read a JSON text; tell whether it is one."""
        try:
            said = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return False
        self._event_trouble = self._event_trouble or trouble_in_event(said)
        for event in said if isinstance(said, list) else [said]:
            before = TokenCounts() if self._reported is None else self._reported.usage
            self._reported = (self._read(event, before) if isinstance(event, dict) else None) or self._reported
        return isinstance(said, dict | list)

"""Sent tokens: the size of every request of a loop, counted by a tokenizer."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.brains.conversation import Observation, Request, UserText
from aop.core.errors import ForgeSupportMissing
from aop.kernel.ports.tokenizer import Tokenizer


class SentTokens(Struct, frozen=True, kw_only=True):
    """The tokens of all requests of a loop; what is sent again counts again."""

    requests: int = 0
    sent: int | None = 0
    """None: this installation cannot count tokens."""
    cached: int | None = 0
    """The part of `sent` that the request before had in the same place, which a provider may read from its cache."""


class RequestMeter:
    """Counts requests; equal pieces are counted once by the tokenizer and each time by the meter."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, int] = {}
        self._before: tuple[str, ...] = ()
        self.total = SentTokens()

    def watch(self, request: Request) -> None:
        """Count one request."""
        pieces = pieces_of(request)
        sizes = self._sizes(pieces)
        if sizes is None:
            self.total = SentTokens(requests=self.total.requests + 1, sent=None, cached=None)
            return
        same = next(
            (at for at, (new, old) in enumerate(zip(pieces, self._before, strict=False)) if new != old),
            min(len(pieces), len(self._before)),
        )
        self._before = pieces
        self.total = SentTokens(
            requests=self.total.requests + 1,
            sent=(self.total.sent or 0) + sum(sizes),
            cached=(self.total.cached or 0) + sum(sizes[:same]),
        )

    def _sizes(self, pieces: tuple[str, ...]) -> list[int] | None:
        if self._tokenizer is None:
            return None
        try:
            return [self._known.setdefault(piece, self._count(self._tokenizer, piece)) for piece in pieces]
        except ForgeSupportMissing:
            self._tokenizer = None
            return None

    def _count(self, tokenizer: Tokenizer, piece: str) -> int:
        return self._known[piece] if piece in self._known else tokenizer.count(piece)


def pieces_of(request: Request) -> tuple[str, ...]:
    """Return the texts that a request sends, in their order: tools, instructions, turns."""
    offers = [*request.tools, *(() if request.answer is None else (request.answer,))]
    tools = tuple(msgspec.json.encode(offer).decode() for offer in offers)
    turns = []
    for turn in request.turns:
        if isinstance(turn, UserText | Observation):
            turns.append(turn.text)
        else:
            turns.append("\n".join([turn.text, *(f"{call.name} {call.arguments}" for call in turn.calls)]))
    return (*tools, request.instructions, *turns)

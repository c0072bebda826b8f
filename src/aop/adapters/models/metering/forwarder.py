"""Forwarder: passes requests to a provider and streams its answers back, counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

import httpx2
import msgspec
from msgspec import Struct

from aop.adapters.models.endpoints import host_of, unconnected_words
from aop.adapters.models.metering.answers import AnswerReader
from aop.adapters.models.metering.dialects import Dialect
from aop.adapters.models.metering.requests import (
    LARGEST_BODY,
    AdmittedRequest,
    IncomingRequest,
    RejectedRequest,
    SessionTerms,
    admit,
    has_key,
)
from aop.adapters.models.metering.tallies import CountedExchange, Outcome, Tally
from aop.adapters.models.metering.troubles import trouble_named, trouble_of_refusal
from aop.brains.conversation import NO_TOKENS, TokenCounts
from aop.core.errors import ProviderAnswerCutOff, ProviderAnswerMalformed, ProviderTimedOut, ProviderUnreachable
from aop.kernel.record.documents.usage import Trouble

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

AT_ONCE = 8
"""The concurrent requests of a session; others wait. Only these can exceed a cap."""
SILENCE_SECONDS = 300
_LAST_SECONDS = 2.0
"""The time that an answer has to end when nobody waits for it any more."""
_LARGEST_ERROR = 1024 * 1024
_ERROR_SECONDS = 10.0
"""The time for the text of a refusal; its status is known before."""
_ERROR = 400
_REDIRECT = 300
_NOTED_CHARS = 200
_MAY_COST = (Outcome.ANSWERED, Outcome.CUT_OFF, Outcome.TIMED_OUT, Outcome.AGENT_LEFT)
_NOT_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL, httpx2.UnsupportedProtocol)
_PASSED_HEADERS = ("content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry")
_PASSED_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-")


class ProviderEndpoint(Struct, frozen=True, kw_only=True):
    """The provider's own endpoint and the key for it."""

    provider: str
    base_url: str
    key: str = ""

    @property
    def host(self) -> str:
        """Return the host, as a person is told of it."""
        return host_of(self.base_url)

    def __repr__(self) -> str:
        return f"ProviderEndpoint({self.provider!r})"


class RequestTimeouts(Struct, frozen=True, kw_only=True):
    """The timeouts of a request."""

    seconds: float = 1800.0
    """For the whole request."""
    connect_seconds: float = 10.0
    silence_seconds: float = SILENCE_SECONDS
    """Without data from the provider."""


class MeteredSession(Struct, frozen=True, kw_only=True):
    """One session: the provider, the terms, the tally and the timeouts."""

    upstream: ProviderEndpoint
    terms: SessionTerms
    tally: Tally
    timeouts: RequestTimeouts
    clock: Callable[[], float]

    @property
    def dialect(self) -> Dialect:
        return self.terms.dialect

    @property
    def placeholder(self) -> str:
        return self.terms.key

    def lateness(self, error: BaseException) -> str:
        """Return the limit that a request exceeded, for a person to read."""
        if isinstance(error, httpx2.TimeoutException):
            return f"{self.upstream.host} was silent for {self.timeouts.silence_seconds:g} seconds"
        return f"no whole answer from {self.upstream.host} within {self.timeouts.seconds:g} seconds"

    def __repr__(self) -> str:
        return f"MeteredSession({self.upstream!r})"


class Forwarder:
    """The ASGI application: forwards each request, and counts the exchange."""

    def __init__(self, session: MeteredSession, client: httpx2.AsyncClient) -> None:
        self._session = session
        self._client = client
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._open: set[asyncio.Task[None]] = set()
        self._is_ending = False

    async def end_all(self) -> None:
        """Let open requests end for a moment, cancel those that do not, and count them all."""
        if self._open and not self._is_ending:
            await asyncio.wait(self._open, timeout=_LAST_SECONDS)
        self._is_ending = True
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request until the client disconnects."""
        serving = asyncio.create_task(self._serve(scope, receive, send))
        self._open.add(serving)
        try:
            await serving
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
        finally:
            self._open.discard(serving)

    async def _serve(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        request = _incoming(scope)
        # The body is not read without the session's key.
        if has_key(request, self._session.placeholder):
            request = msgspec.structs.replace(request, body=await _body(receive))
        answer = _PassedAnswer(self._session, request.path[:_NOTED_CHARS], send)
        answering = asyncio.create_task(self._answer(answer, request))
        leaving = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if answer.sent is not None and not answering.done():
                # The agent left, and the answer is paid for: what it cost is known at its end.
                await asyncio.wait((answering,), timeout=_LAST_SECONDS)
        finally:
            answering.cancel()
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await answering

    async def _answer(self, answer: _PassedAnswer, request: IncomingRequest) -> None:
        session = self._session
        try:
            admitted = admit(request, session.terms)
            if isinstance(admitted, RejectedRequest):
                await answer.refuse(admitted.outcome, admitted.status, admitted.why)
                return
            async with asyncio.timeout(session.timeouts.seconds), self._slots:
                await self._pass_on(answer, admitted)
        except _NOT_CONNECTED as error:
            answer.trouble = trouble_named(ProviderUnreachable.code, unconnected_words(session.upstream.host, error))
            await answer.refuse(Outcome.UNREACHABLE, 502, "The provider cannot be reached.")
        except (TimeoutError, httpx2.TimeoutException) as error:
            answer.trouble = trouble_named(ProviderTimedOut.code, session.lateness(error))
            await answer.refuse(Outcome.TIMED_OUT, 504, "The provider did not answer in time.")
        except (httpx2.TransportError, httpx2.DecodingError):
            answer.trouble = trouble_named(ProviderAnswerCutOff.code)
            await answer.refuse(Outcome.CUT_OFF, 502, "The connection to the provider broke.")
        finally:
            answer.count()

    async def _pass_on(self, answer: _PassedAnswer, admitted: AdmittedRequest) -> None:
        reason = self._session.tally.refusal_reason(admitted.model)
        if reason:
            await answer.refuse(Outcome.OVER_CAP, 402, reason)
            return
        answer.sent = admitted
        if admitted.model:
            self._session.tally.begin()
        async with self._client.stream(
            admitted.method, self._url(admitted), headers=self._headers(admitted), content=admitted.body
        ) as response:
            if response.status_code >= _ERROR:
                await self._pass_refusal(answer, response)
            elif response.status_code >= _REDIRECT:
                said = "The provider answered with a redirect, which is not followed."
                answer.trouble = trouble_named(ProviderAnswerMalformed.code, said, response.status_code)
                await answer.refuse(Outcome.PROVIDER_REFUSED, 502, said)
            else:
                await self._pass_answer(answer, response)

    async def _pass_refusal(self, answer: _PassedAnswer, response: httpx2.Response) -> None:
        """Pass on a provider's refusal, with the key replaced."""
        body = await _refusal_body(response)
        key = self._session.upstream.key.encode()
        if key:
            body = body.replace(key, self._session.placeholder.encode())
        answer.trouble = trouble_of_refusal(response.status_code, response.headers, bytes(body))
        # Counted first: whether the turn ends is known then, and the program need not try again.
        answer.count_as(Outcome.PROVIDER_REFUSED, response.status_code)
        headers = _passed_headers(response)
        if self._session.tally.ending_trouble() is not None:
            headers["x-should-retry"] = "false"
        await answer.begin(response.status_code, headers)
        await answer.end(Outcome.PROVIDER_REFUSED, bytes(body))

    async def _pass_answer(self, answer: _PassedAnswer, response: httpx2.Response) -> None:
        in_events = response.headers.get("content-type", "").startswith("text/event-stream")
        answer.reader = reader = AnswerReader(self._session.dialect.read, in_events=in_events)
        await answer.begin(response.status_code, _passed_headers(response))
        async for chunk in response.aiter_bytes():
            reader.feed(chunk)
            await answer.send_chunk(chunk)
        reader.end()
        answer.trouble = None if answer.is_free else reader.trouble()
        await answer.end(Outcome.ANSWERED if reader.is_complete or answer.is_free else Outcome.CUT_OFF)

    def _url(self, admitted: AdmittedRequest) -> str:
        base = self._session.upstream.base_url.rstrip("/")
        return f"{base}{admitted.path}{'?' if admitted.query else ''}{admitted.query}"

    def _headers(self, admitted: AdmittedRequest) -> list[tuple[str, str]]:
        # Not compressed, so that usage can be read from the passing bytes.
        headers = [*admitted.headers, ("accept-encoding", "identity")]
        key, dialect = self._session.upstream.key, self._session.dialect
        return [*headers, (dialect.key_header, dialect.key_form.format(key))] if key else headers


class _PassedAnswer:
    """One answer on its way to the agent, and its counts."""

    def __init__(self, session: MeteredSession, path: str, send: Send) -> None:
        self._session = session
        self._path = path
        self._send = send
        self._began = session.clock()
        self._first_byte: float | None = None
        self._status = 0
        self._outcome = Outcome.AGENT_LEFT
        self._is_counted = False
        self.sent: AdmittedRequest | None = None
        self.reader: AnswerReader | None = None
        self.trouble: Trouble | None = None
        self._said = ""

    @property
    def is_free(self) -> bool:
        return self.sent is None or not self.sent.model

    async def refuse(self, outcome: Outcome, status: int, why: str) -> None:
        """Answer with an error in the provider's format, unless an answer has already started."""
        self._outcome, self._said = outcome, why
        if self._status:
            return
        retry = str(status >= 500).lower()
        await self.begin(status, {"content-type": "application/json", "x-should-retry": retry})
        await self.end(outcome, msgspec.json.encode(self._session.dialect.error(status, why)))

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        self._first_byte = self._session.clock() - self._began
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def send_chunk(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, outcome: Outcome, chunk: bytes = b"") -> None:
        self._outcome = outcome
        # Counted first, so that the client's next request sees it.
        self.count()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    def count_as(self, outcome: Outcome, status: int) -> None:
        """Add the exchange to the tally before its answer is passed on."""
        self._outcome, self._status = outcome, status
        self.count()

    def count(self) -> None:
        """Add the exchange to the tally, once."""
        if self._is_counted:
            return
        self._is_counted = True
        usage, is_estimated = self._usage()
        self._session.tally.add(
            CountedExchange(
                path=self._path,
                model=self.sent.model if self.sent else "",
                status=self._status,
                outcome=self._outcome,
                usage=usage,
                is_estimated=is_estimated,
                first_byte_seconds=self._first_byte,
                seconds=self._session.clock() - self._began,
                removed=self.sent.removed if self.sent else (),
                trouble=self.trouble,
                said=self._said,
            )
        )

    def _usage(self) -> tuple[TokenCounts, bool]:
        if self.sent is None or self.is_free or self._outcome not in _MAY_COST:
            return NO_TOKENS, False
        reader = self.reader or AnswerReader(self._session.dialect.read, in_events=False)
        return reader.usage(len(self.sent.body)), not reader.is_complete


def _incoming(scope: Mapping[str, Any]) -> IncomingRequest:
    return IncomingRequest(
        method=scope["method"],
        # The raw path: one with escapes matches no route.
        path=scope["raw_path"].decode("latin-1"),
        query=scope["query_string"].decode("latin-1"),
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]),
    )


async def _body(receive: Receive) -> bytes | None:
    """Return the body, or None if it is too large or incomplete."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY or message["type"] == "http.disconnect":
            return None
        if not message.get("more_body"):
            return bytes(body)


async def _refusal_body(response: httpx2.Response) -> bytearray:
    """Return the text of a refusal, or as much as comes within its limits."""
    body = bytearray()
    with suppress(TimeoutError, httpx2.TransportError, httpx2.DecodingError):
        async with asyncio.timeout(_ERROR_SECONDS):
            async for chunk in response.aiter_bytes():
                body += chunk[: _LARGEST_ERROR - len(body)]
                if len(body) >= _LARGEST_ERROR:
                    break
    return body


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _passed_headers(response: httpx2.Response) -> dict[str, str]:
    """Return the headers that the agent may see, without account names and cookies."""
    return {
        name: value
        for name, value in response.headers.items()
        if name in _PASSED_HEADERS or name.startswith(_PASSED_PREFIXES)
    }

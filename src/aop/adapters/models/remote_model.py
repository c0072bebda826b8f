"""Remote model: one HTTP request per reply, through `pydantic-ai`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import import_module
from typing import Any

import httpx2
from msgspec import Struct
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.settings import ModelSettings

from aop.adapters.models.endpoints import Endpoint, host_of
from aop.adapters.models.failures import refusal_for, timeout_refusal
from aop.adapters.models.translation import messages, parameters, reply_of
from aop.brains.conversation import Reply, Request
from aop.core.errors import ModelReplyUnreadable, ModelRequestRejected

CONNECT_SECONDS = 10.0
LARGEST_REPLY = 64 * 1024 * 1024
NO_REPLY = (
    *(AssertionError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError),
    httpx2.DecodingError,
)
"""Errors of the library for a body that is malformed or not a reply."""


class Library(Struct, frozen=True, kw_only=True):
    """The classes for a provider; imported for its first request, since importing all takes seconds."""

    model: tuple[str, str]
    provider: tuple[str, str]
    names_itself: bool = False
    """Whether the provider's class takes a name."""
    native: bool = False
    """Whether the endpoint follows a response schema better than a forced tool call."""
    settings: Mapping[str, Any] = {}


_CHAT = ("pydantic_ai.models.openai", "OpenAIChatModel")
_COMPATIBLE = Library(
    model=_CHAT, provider=("pydantic_ai.providers.openai_compatible", "OpenAICompatibleProvider"), names_itself=True
)

LIBRARIES: Mapping[str, Library] = {
    "anthropic": Library(
        model=("pydantic_ai.models.anthropic", "AnthropicModel"),
        provider=("pydantic_ai.providers.anthropic", "AnthropicProvider"),
    ),
    "openai": Library(
        model=("pydantic_ai.models.openai", "OpenAIResponsesModel"),
        provider=("pydantic_ai.providers.openai", "OpenAIProvider"),
        settings={"openai_store": False},
    ),
    "google": Library(
        model=("pydantic_ai.models.google", "GoogleModel"),
        provider=("pydantic_ai.providers.google", "GoogleProvider"),
    ),
    "ollama": Library(
        model=("pydantic_ai.models.ollama", "OllamaModel"),
        provider=("pydantic_ai.providers.ollama", "OllamaProvider"),
        native=True,
    ),
    "vllm": Library(model=_CHAT, provider=("pydantic_ai.providers.vllm", "VLLMProvider"), native=True),
    "compatible": _COMPATIBLE,
    "openrouter": _COMPATIBLE,
    # Both have an endpoint like OpenAI's; their own libraries would bring a hundred megabytes along.
    "azure": _COMPATIBLE,
    "bedrock": _COMPATIBLE,
    "vertex": Library(
        model=("pydantic_ai.models.google", "GoogleModel"),
        provider=("pydantic_ai.providers.google_cloud", "GoogleCloudProvider"),
    ),
}


class RemoteModel:
    """Implements `aop.brains.conversation.Model`."""

    def __init__(
        self, place: Endpoint, environ: Mapping[str, str], redact: Callable[[str], str], *, retries: int
    ) -> None:
        self._endpoint = place
        self._library = LIBRARIES[place.name.provider]
        self._environ = environ
        self._redact = redact
        self._retries = retries
        self._host = host_of(place.base_url)

    def __repr__(self) -> str:
        return f"RemoteModel({str(self._endpoint.name)!r})"

    @property
    def names(self) -> tuple[str, ...]:
        return (str(self._endpoint.name),)

    def load(self) -> None:
        """Import the provider's classes now instead of with the first request."""
        for place in (self._library.provider, self._library.model):
            _import_class(place)

    async def reply(self, request: Request) -> Reply:
        name = str(self._endpoint.name)
        # One client for each request: it belongs to the current event loop and is closed here.
        timeout = httpx2.Timeout(request.timeout_seconds, connect=min(CONNECT_SECONDS, request.timeout_seconds))
        client = httpx2.AsyncClient(timeout=timeout, follow_redirects=False, event_hooks={"response": [_limit]})
        async with client:
            model = self._model(client)
            try:
                # The client's own timeout restarts with every byte.
                async with asyncio.timeout(request.timeout_seconds * (1 + self._retries)):
                    return await self._reply(model, request)
            except TimeoutError:
                raise timeout_refusal(name, self._host) from None

    async def _reply(self, model: PydanticModel, request: Request) -> Reply:
        name, native = str(self._endpoint.name), self._is_native(model, request)
        try:
            response = await self._response(model, request, native=native)
            if response.finish_reason == "content_filter":
                raise ModelRequestRejected(f"`{name}` refuses to answer this request.", model=name)
            return reply_of(response, request, name, native=native)
        except NO_REPLY:
            raise ModelReplyUnreadable(f"The response from `{name}` is not a model's reply.", model=name) from None

    async def _response(self, model: PydanticModel, request: Request, *, native: bool) -> ModelResponse:
        name, history = str(self._endpoint.name), messages(request, native=native)
        allowed, settings = parameters(request, native=native), self._settings(request)
        try:
            return await model_request(model, history, model_settings=settings, model_request_parameters=allowed)
        except UserError as error:
            raise ModelRequestRejected(f"`{name}` does not support this request: {error}", model=name) from error
        except AgentRunError as error:
            # Not `from error`: the provider's text may contain the key.
            raise refusal_for(error, name, self._redact, host=self._host) from None

    def _is_native(self, model: PydanticModel, request: Request) -> bool:
        held = bool(model.profile.get("supports_json_schema_output"))
        return self._library.native and held and request.answer is not None and not request.tools

    def _model(self, client: httpx2.AsyncClient) -> PydanticModel:
        # Without a key, the library would look for one in the environment.
        key = self._environ.get(self._endpoint.key_variable or "") or "none"
        words: dict[str, Any] = {"base_url": self._endpoint.base_url, "http_client": client, "api_key": key}
        if self._library.names_itself:
            words["name"] = self._endpoint.name.provider
        provider = _import_class(self._library.provider)(**words)
        model: PydanticModel = _import_class(self._library.model)(self._endpoint.name.model, provider=provider)
        return model

    def _settings(self, request: Request) -> ModelSettings:
        settings = ModelSettings(
            max_tokens=request.max_output_tokens,
            timeout=request.timeout_seconds,
            request_timeout=request.timeout_seconds,
            max_retries=self._retries,
            cache=True,
        )
        if request.thinking is not None:
            settings["thinking"] = False if request.thinking == "off" else request.thinking
        # Settings of this provider beside the common ones.
        settings.update(self._library.settings)  # type: ignore[typeddict-item]
        return settings


async def _limit(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _LimitedBody(response.stream)


class _LimitedBody(httpx2.AsyncByteStream):
    """A body that fails when it is larger than any reply."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LARGEST_REPLY
        async for chunk in self._body:
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError(f"The reply is larger than {LARGEST_REPLY} bytes.")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


def _import_class(place: tuple[str, str]) -> Any:
    return getattr(import_module(place[0]), place[1])

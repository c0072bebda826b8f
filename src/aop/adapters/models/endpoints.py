"""Endpoints of model providers: their addresses and the variables of their keys."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from aop.brains.names import ModelName
from aop.core.errors import ModelKeyMissing, ModelNotConfigured


class ModelProvider(Struct, frozen=True, kw_only=True):
    """The environment variables and the default address of a provider."""

    key_variables: tuple[str, ...]
    """The first one that is set is used."""
    needs_key: bool = True
    url_variable: str
    url: str | None
    """None: there is no default, so the variable must be set."""


PROVIDERS: Mapping[str, ModelProvider] = {
    "anthropic": ModelProvider(
        key_variables=("ANTHROPIC_API_KEY",), url_variable="ANTHROPIC_BASE_URL", url="https://api.anthropic.com"
    ),
    "openai": ModelProvider(
        key_variables=("OPENAI_API_KEY",), url_variable="OPENAI_BASE_URL", url="https://api.openai.com/v1"
    ),
    "google": ModelProvider(
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        url_variable="GOOGLE_GEMINI_BASE_URL",
        url="https://generativelanguage.googleapis.com",
    ),
    "openrouter": ModelProvider(
        key_variables=("OPENROUTER_API_KEY",), url_variable="OPENROUTER_BASE_URL", url="https://openrouter.ai/api/v1"
    ),
    "azure": ModelProvider(key_variables=("AZURE_OPENAI_API_KEY",), url_variable="AZURE_OPENAI_BASE_URL", url=None),
    "bedrock": ModelProvider(key_variables=("AWS_BEARER_TOKEN_BEDROCK",), url_variable="BEDROCK_BASE_URL", url=None),
    "vertex": ModelProvider(
        key_variables=("VERTEX_API_KEY",), url_variable="VERTEX_BASE_URL", url="https://aiplatform.googleapis.com"
    ),
    "ollama": ModelProvider(
        key_variables=("OLLAMA_API_KEY",),
        needs_key=False,
        url_variable="OLLAMA_BASE_URL",
        url="http://127.0.0.1:11434/v1",
    ),
    "vllm": ModelProvider(
        key_variables=("VLLM_API_KEY",),
        needs_key=False,
        url_variable="VLLM_BASE_URL",
        url="http://127.0.0.1:8000/v1",
    ),
    "compatible": ModelProvider(
        key_variables=("AOP_COMPATIBLE_API_KEY",), needs_key=False, url_variable="AOP_COMPATIBLE_BASE_URL", url=None
    ),
}


class Endpoint(Struct, frozen=True, kw_only=True):
    """A model and its address; the key stays in the environment until a request is sent."""

    name: ModelName
    base_url: str
    key_variable: str | None


def endpoint_of(name: ModelName, environ: Mapping[str, str]) -> Endpoint:
    """Return the endpoint of a model. Raises: ModelKeyMissing, ModelNotConfigured."""
    provider = PROVIDERS[name.provider]
    url = environ.get(provider.url_variable) or provider.url
    if url is None:
        raise ModelNotConfigured(
            f"The address of `{name}` is not set.",
            hint=f"Set `{provider.url_variable}` to the base URL of the endpoint.",
            model=str(name),
            variable=provider.url_variable,
        )
    _refuse_unusable_url(url, provider.url_variable)
    variable = next((variable for variable in provider.key_variables if environ.get(variable)), None)
    if variable is None and provider.needs_key:
        raise ModelKeyMissing(
            f"The key for `{name}` is missing: `{provider.key_variables[0]}` is not set.",
            hint=f"Set `{provider.key_variables[0]}` to your key, and try again.",
            model=str(name),
            variable=provider.key_variables[0],
        )
    return Endpoint(name=name, base_url=url, key_variable=variable)


def _refuse_unusable_url(url: str, variable: str) -> None:
    """Refuse a URL with a password, which would be printed, or one without a host."""
    try:
        parts = urlsplit(url)
        odd = parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or bool(parts.query)
    except ValueError:
        odd = True
    if odd:
        raise ModelNotConfigured(
            f"`{variable}` is not a base URL.",
            hint="Write `https://HOST/PATH` without user, password or query; the key has its own variable.",
            variable=variable,
        )


def host_of(base_url: str) -> str:
    """Return the host of an address, with its port if it names one; never a password in it."""
    try:
        parts = urlsplit(base_url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.hostname or 'an address without a host'}{port}"


def unconnected_words(host: str, error: BaseException) -> str:
    """Return why there is no connection to a host, for a person to read."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    if any(isinstance(each, TimeoutError) for each in causes):
        return f"{host} accepts no connection in time"
    if any(isinstance(each, socket.gaierror) for each in causes):
        return f"the name {host} is not known"
    if any(isinstance(each, ConnectionRefusedError) for each in causes):
        return f"{host} refuses the connection"
    return f"no connection to {host}"

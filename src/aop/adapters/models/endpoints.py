"""Where each provider is found, and which variable of the environment holds its key. No key is kept here."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from aop.brains.names import ModelName
from aop.core.errors import ModelKeyMissing, ModelNotConfigured


class ModelProvider(Struct, frozen=True, kw_only=True):
    """What the environment may say about a provider."""

    key_variables: tuple[str, ...]
    """The first that is set counts."""
    needs_key: bool = True
    url_variable: str
    url: str | None
    """None: there is no usual place, and the variable must name one."""


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
    """One model and where it is; the key stays in the environment until a request is made."""

    name: ModelName
    base_url: str
    key_variable: str | None


def endpoint_of(name: ModelName, environ: Mapping[str, str]) -> Endpoint:
    """Return where a model is.

    Raises: ModelKeyMissing, ModelNotConfigured.
    """
    provider = PROVIDERS[name.provider]
    url = environ.get(provider.url_variable) or provider.url
    if url is None:
        raise ModelNotConfigured(
            f"Nothing says where `{name}` is.",
            hint=f"Set `{provider.url_variable}` to the base URL of the endpoint.",
            model=str(name),
            variable=provider.url_variable,
        )
    _refuse_unusable_url(url, provider.url_variable)
    variable = next((variable for variable in provider.key_variables if environ.get(variable)), None)
    if variable is None and provider.needs_key:
        raise ModelKeyMissing(
            f"There is no key for `{name}`: `{provider.key_variables[0]}` is not set.",
            hint=f"Set `{provider.key_variables[0]}` in the environment, and try again.",
            model=str(name),
            variable=provider.key_variables[0],
        )
    return Endpoint(name=name, base_url=url, key_variable=variable)


def _refuse_unusable_url(url: str, variable: str) -> None:
    """Refuse what is no plain address; one with a password in it would be printed with it somewhere."""
    try:
        parts = urlsplit(url)
        odd = parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or bool(parts.query)
    except ValueError:
        odd = True
    if odd:
        raise ModelNotConfigured(
            f"`{variable}` is no base URL.",
            hint="Write `https://HOST/PATH`, without user, password and query; the key has its own variable.",
            variable=variable,
        )

"""Names of models, `provider:model`, and lists of them."""

from __future__ import annotations

import re

from msgspec import Struct

from aop.core.errors import ModelNotConfigured
from aop.core.text.json import MalformedText, parse_json
from aop.core.text.suggestions import did_you_mean

PROVIDERS = (
    *("anthropic", "openai", "google", "openrouter", "azure", "bedrock", "vertex"),
    *("ollama", "vllm", "compatible"),
)

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")


class ModelName(Struct, frozen=True):
    """A model of a provider."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def model_name(text: str) -> ModelName:
    """Parse one name. Raises: ModelNotConfigured."""
    provider, colon, model = text.strip().partition(":")
    if not colon or provider not in PROVIDERS or not _MODEL.fullmatch(model):
        raise ModelNotConfigured(
            f"`{text.strip()[:80]}` is not a model name.{did_you_mean(provider, PROVIDERS)}",
            hint=f"Write `provider:model`; the provider is one of: {', '.join(PROVIDERS)}.",
            model=text.strip()[:80],
        )
    return ModelName(provider, model)


def model_priority(text: str) -> tuple[ModelName, ...]:
    """Parse an ordered list of names: a JSON array, or names separated by commas. Raises: ModelNotConfigured."""
    names = _texts(text) if text.lstrip().startswith("[") else text.split(",")
    models = tuple(dict.fromkeys(model_name(name) for name in names if name.strip()))
    if not models:
        raise ModelNotConfigured("The list of models is empty.")
    return models


def _texts(text: str) -> list[str]:
    try:
        value = parse_json(text)
    except MalformedText as problem:
        raise ModelNotConfigured(f"The list of models is not a JSON array of names: {problem}.") from problem
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ModelNotConfigured("The list of models is not a JSON array of names.")
    return [str(name) for name in value]

"""Model settings from the environment: models, limits, recordings and prices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast, get_args

import msgspec
from msgspec import Struct

from aop.adapters.files.user_files import put_file
from aop.brains.budgets import CallLimits
from aop.brains.conversation import Thinking
from aop.brains.names import ModelName, model_priority
from aop.brains.prices import Prices, PriceTable, read_prices
from aop.core.errors import InputPathNotFound, ModelNotConfigured

MODELS = "AOP_MODELS"
PRICES = "AOP_MODEL_PRICES"
PRODUCTS: Mapping[str, str] = {
    "scaffolding": "SCAFFOLDING_LLM_MODEL_PRIORITY",
    "code-review": "CODE_REVIEW_LLM_MODEL_PRIORITY",
    "forge": "FORGE_LLM_MODEL_PRIORITY",
    "forge-scout": "FORGE_SCOUT_LLM_MODEL_PRIORITY",
    "forge-coder": "FORGE_CODER_LLM_MODEL_PRIORITY",
    "forge-auditor": "FORGE_AUDITOR_LLM_MODEL_PRIORITY",
    "forge-fixer": "FORGE_FIXER_LLM_MODEL_PRIORITY",
}
"""The products with their own list of models, and the variable that holds it.

A role of a product (`forge-coder`) falls back to the product.
"""
WITH_OPTION = ("forge",)
"""The products whose command has an option `--model`."""


class BrainSettings(Struct, frozen=True, kw_only=True):
    """The settings of one brain."""

    models: tuple[ModelName, ...]
    limits: CallLimits
    retries: int
    """How often the last model of the list is retried; the others are passed over at once."""
    record: Path | None
    replay: Path | None
    prices: Prices

    @classmethod
    def from_env(cls, environ: Mapping[str, str], *, chosen: str | None, product: str | None) -> BrainSettings:
        """Read the settings: the command line first, then the product's variable, then `AOP_MODELS`.

        Raises: ModelNotConfigured, InputPathNotFound, InvalidConfiguration.
        """
        replay = _path(environ, "AOP_MODEL_REPLAY")
        text = chosen or next((text for name in _variables(product) if (text := environ.get(name))), None)
        if not text and replay is None:
            raise _no_model(product)
        return cls(
            models=model_priority(text) if text else (),
            limits=CallLimits(
                max_output_tokens=_number(environ, "AOP_MODEL_MAX_OUTPUT_TOKENS", 16_384, least=1),
                timeout_seconds=timeout_seconds(environ, 120),
                thinking=_thinking(environ),
            ),
            retries=_number(environ, "AOP_MODEL_RETRIES", 2, least=0),
            record=_path(environ, "AOP_MODEL_RECORD"),
            replay=replay,
            prices=known_prices(environ),
        )


def timeout_seconds(environ: Mapping[str, str], default: int) -> int:
    """Return how long a provider may take for an answer. Raises: ModelNotConfigured."""
    return _number(environ, "AOP_MODEL_TIMEOUT_SECONDS", default, least=1)


def _no_model(product: str | None) -> ModelNotConfigured:
    variables = _variables(product)
    names = " or ".join(f"`{each}`" for each in variables)
    has_option = product is not None and product.partition("-")[0] in WITH_OPTION
    how = f"Name one with `--model PROVIDER:MODEL`, or set {names}" if has_option else f"Set {names}"
    return ModelNotConfigured(
        "No model is chosen.",
        hint=f"{how} to one or more names such as `anthropic:MODEL`; `aop brain test` asks it a question.",
        variable=variables[0],
    )


def _variables(product: str | None) -> list[str]:
    """Return the variables that may name the models of a product, the first that is set counts."""
    if product is None:
        return [MODELS]
    whole = product.partition("-")[0]
    return [PRODUCTS[product], *([PRODUCTS[whole]] if whole != product and whole in PRODUCTS else []), MODELS]


def known_prices(environ: Mapping[str, str]) -> Prices:
    """Return AOP's prices, overlaid by the user's. Raises: InputPathNotFound, InvalidConfiguration."""
    return Prices(price_table().prices).overlaid_by(own_prices(environ))


def own_prices(environ: Mapping[str, str]) -> Prices:
    """Return the user's prices: the kept ones, overlaid by those of a file that a variable names."""
    kept, named = kept_prices_file(environ), _path(environ, PRICES)
    own = prices_in(kept, f"`{kept}`") if kept.exists() else Prices({})
    return own if named is None else own.overlaid_by(prices_in(named, f"`{PRICES}`"))


def kept_prices_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the prices that `aop models prices --file` keeps; it may not exist."""
    config = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "/", ".config"))
    return Path(config) / "aop" / "prices.json"


def keep_prices(prices: Prices, environ: Mapping[str, str]) -> Path:
    """Lay prices over those that are kept for all later commands; return their file."""
    file = kept_prices_file(environ)
    before = prices_in(file, f"`{file}`") if file.exists() else Prices({})
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = msgspec.to_builtins(before.overlaid_by(prices).table)
    put_file(file, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n", replace=True)
    return file


def price_table() -> PriceTable:
    """Return AOP's own prices, with their date."""
    return msgspec.json.decode(Path(__file__).with_name("prices.json").read_bytes(), type=PriceTable)


def prices_in(file: Path, source: str) -> Prices:
    """Return the prices of a file, which a source named. Raises: InputPathNotFound, InvalidConfiguration."""
    try:
        return read_prices(file.read_bytes(), file.name)
    except OSError as error:
        raise InputPathNotFound(f"{source} cannot be read: {error.strerror}.") from error


def _thinking(environ: Mapping[str, str]) -> Thinking | None:
    text = environ.get("AOP_MODEL_THINKING") or None
    if text not in (None, *get_args(Thinking)):
        raise ModelNotConfigured(
            "`AOP_MODEL_THINKING` has an unknown value.",
            hint=f"Set it to one of: {', '.join(get_args(Thinking))}; or leave it unset.",
        )
    return cast("Thinking | None", text)


def _path(environ: Mapping[str, str], variable: str) -> Path | None:
    text = environ.get(variable)
    return Path(text) if text else None


def _number(environ: Mapping[str, str], variable: str, default: int, *, least: int) -> int:
    text = environ.get(variable) or str(default)
    if not (text.isascii() and text.isdecimal() and least <= int(text[:10]) == int(text)):
        raise ModelNotConfigured(
            f"`{variable}` is not a whole number of at least {least}.",
            hint=f"Set it to such a number, or leave `{variable}` unset.",
        )
    return int(text)

"""Subjects of the conformance suite: every implementation of the model port."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from aop.adapters.machine.clock import SystemClock
from aop.adapters.models.endpoints import PROVIDERS, endpoint_of
from aop.adapters.models.recorded_model import RecordedModel, RecordingModel
from aop.adapters.models.remote_model import RemoteModel
from aop.brains.budgets import CallLimits
from aop.brains.conversation import Model, TokenCounts
from aop.brains.model_brain import ModelBrain
from aop.brains.names import model_name
from aop.brains.ports import Brain
from aop.brains.prices import Price, Prices
from aop.brains.prompts import Prompt, build_prompt
from aop.core.redaction.redactor import Redactor
from aop.testing.scripted_model import ScriptedModel, calls
from aop.testing.scripted_model import Step as ScriptedStep
from tests.brains.endpoints import Endpoint, Step, serving

T = TypeVar("T")

KEY = "key-of-the-test-7f3a9c"
FENCE = "fence-4b1f0c2a9d8e"
MODELS = {
    "anthropic": "anthropic:claude-sonnet-5",
    "openai": "openai:gpt-5.5",
    "google": "google:gemini-3.8-flash",
    "openrouter": "openrouter:anthropic/claude-sonnet-5",
    "vertex": "vertex:gemini-3.8-flash",
    "ollama": "ollama:qwen3",
    "vllm": "vllm:Qwen/Qwen3-8B",
    "compatible": "compatible:any",
}
SUBJECTS = (*MODELS, "scripted", "recorded")
USAGE = TokenCounts(input_tokens=100, output_tokens=20, cache_read_tokens=40)
COST = 0.000104
PRICES = Prices(
    dict.fromkeys([*MODELS.values(), "scripted:model"], Price(input=1.0, output=2.0, cache_read=0.1))
)  # (60 * 1 + 40 * 0.1 + 20 * 2) / 1,000,000
QUESTION = build_prompt("You add numbers.", "Add 2 and 3.", (), FENCE)


class Sum(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sum, as a number and as a word."""

    total: int
    word: str


FIVE = Sum(total=5, word="five")
FIVE_GIVEN: Mapping[str, Any] = {"total": 5, "word": "five"}


def waited(doing: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and give it a minute at most."""
    return asyncio.run(asyncio.wait_for(doing, 60))


def brain_on(model: Model, *, prices: Prices = PRICES, timeout: float = 60.0, secrets: tuple[str, ...] = ()) -> Brain:
    limits = CallLimits(max_output_tokens=1000, timeout_seconds=timeout)
    return ModelBrain(model, prices, SystemClock(), Redactor(secrets), limits)


def remote(family: str, server: Endpoint, *, retries: int = 0, redact: Redactor | None = None) -> RemoteModel:
    """Return the model behind a local endpoint, as settings would name it."""
    provider = PROVIDERS[family]
    environ = {provider.key_variables[0]: KEY, provider.url_variable: server.url}
    place = endpoint_of(model_name(MODELS[family]), environ)
    return RemoteModel(place, environ, redact or Redactor([KEY]), retries=retries)


def scripted(*steps: Step) -> ScriptedModel:
    return ScriptedModel([_scripted(step) for step in steps])


def asked_with(question: Prompt, model: Model, **words: Any) -> Any:
    return waited(brain_on(model, **words).generate_structured(question, Sum))


@contextmanager
def playing(subject: str, tmp_path: Path, *steps: Step) -> Iterator[Model]:
    """Open an implementation that plays a script; the recorded one has the script recorded while it is asked."""
    if subject == "scripted":
        yield scripted(*steps)
    elif subject == "recorded":
        yield _RecordedOnTheWay(scripted(*steps), tmp_path / "recording.jsonl")
    else:
        with serving(subject, *steps) as server:
            yield remote(subject, server)


class _RecordedOnTheWay:
    """Records each exchange and answers from the recording, so that what is tested is what was kept."""

    def __init__(self, model: Model, path: Path) -> None:
        self._model = model
        self._path = path

    @property
    def names(self) -> tuple[str, ...]:
        return self._model.names

    async def reply(self, request: Any) -> Any:
        await RecordingModel(self._model, self._path, Redactor()).reply(request)
        return await RecordedModel(self._path, Redactor()).reply(request)


def _scripted(step: Step) -> ScriptedStep:
    return calls(*step.calls, text=step.text, usage=USAGE if step.usage else TokenCounts())

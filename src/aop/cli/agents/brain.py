"""`aop brain test`: asks a model one question that must be answered in a shape, and says what it took."""

from __future__ import annotations

import argparse
import asyncio
import os

import msgspec
from msgspec import Struct

from aop.adapters.machine.clock import new_id
from aop.adapters.models.settings import PRODUCTS
from aop.brains.ports import Answer
from aop.brains.prompts import Data, build_prompt
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import ModelAnswerInvalid
from aop.wiring.build import Settings, build_brain

NUMBERS = (17, 25)


class Sum(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sum of two numbers."""

    total: int


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("what", metavar="test", choices=["test"], help="`test`: one real round trip")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="ask this one, or these (default: `AOP_MODELS`)")
    parser.add_argument("--for", dest="product", choices=PRODUCTS, help="ask the models that this product would ask")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask, and print who answered, the tokens, the cost and the time."""
    brain = build_brain(Settings.from_env(os.environ), chosen=arguments.model, product=arguments.product)
    question = build_prompt(
        "You add numbers.",
        "Add the two numbers of the data.",
        [Data(source="aop brain test", text=" ".join(map(str, NUMBERS)))],
        new_id("data"),
    )
    answer = asyncio.run(brain.generate_structured(question, Sum))
    if answer.value.total != sum(NUMBERS):
        raise ModelAnswerInvalid(
            f"`{answer.model}` keeps to the schema, and says that {NUMBERS[0]} and {NUMBERS[1]} are"
            f" {answer.value.total}.",
            model=answer.model,
        )
    if terminal.json:
        terminal.object({"ok": True, "data": msgspec.to_builtins(answer)})
    else:
        terminal.text(_summary(answer))
    return Exit.OK


def _summary(answer: Answer[Sum]) -> str:
    used = answer.usage
    known = used.input_tokens is not None
    tokens = f"{used.input_tokens} read ({used.cache_read_tokens} cached), {used.output_tokens} written"
    cost = "not known" if answer.cost_usd is None else f"{answer.cost_usd:.6f} USD"
    lines = [
        f"{answer.model} answered as it was asked to, in {answer.seconds:.1f} s.",
        f"  tokens: {tokens if known else 'not reported'}",
        f"  cost: {cost}",
        *(f"  passed over: {other.model} ({other.code})" for other in answer.passed_over),
    ]
    return "\n".join(lines)

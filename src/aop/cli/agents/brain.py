"""`aop brain test`: ask a model one question, and report tokens, cost and time."""

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
from aop.cli.shell.terminal import Terminal
from aop.core.errors import ModelAnswerInvalid
from aop.wiring.build import Settings
from aop.wiring.models import build_brain

NUMBERS = (17, 25)


class Sum(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sum of two numbers."""

    total: int


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", metavar="test", choices=["test"], help="ask one question")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="one model, or a list (default: `AOP_MODELS`)")
    parser.add_argument(
        "--for",
        dest="product",
        metavar="PRODUCT",
        choices=PRODUCTS,
        help=f"the models of this product: {', '.join(PRODUCTS)}",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask, and print the model, the tokens, the cost and the time."""
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
            f"`{answer.model}` followed the schema, but added {NUMBERS[0]} and {NUMBERS[1]} to {answer.value.total}.",
            model=answer.model,
        )
    return terminal.result(msgspec.to_builtins(answer), _summary(answer))


def _summary(answer: Answer[Sum]) -> str:
    used = answer.usage
    known = used.input_tokens is not None
    tokens = f"{used.input_tokens} in ({used.cache_read_tokens} cached), {used.output_tokens} out"
    cost = "unknown" if answer.cost_usd is None else f"{answer.cost_usd:.6f} USD"
    lines = [
        f"{answer.model} answered correctly, in {answer.seconds:.1f} s.",
        f"  tokens: {tokens if known else 'not reported'}",
        f"  cost: {cost}",
        *(f"  failed before: {other.model} ({other.code})" for other in answer.passed_over),
    ]
    return "\n".join(lines)

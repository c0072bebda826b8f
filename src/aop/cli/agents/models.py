"""`aop models prices`: the prices that costs are computed with, and their date."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from aop.adapters.machine.agent_signs import sign_of_agent
from aop.adapters.models.settings import PRICES, keep_prices, known_prices, own_prices, price_table, prices_in
from aop.brains.prices import Price
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import NotARepository, PersonRequired
from aop.kernel.record.documents.questions import PRICED, Question
from aop.kernel.record.spending import PRICE_OF
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", metavar="prices", choices=["prices"], help="list the price of each model")
    parser.add_argument(
        "--file",
        metavar="F",
        help=f"keep the prices of this file, for all later commands; `{PRICES}` names one for a while",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the table."""
    kept, answered = _keep(arguments, terminal) if arguments.file else (None, ())
    shipped, own = price_table(), own_prices(os.environ).table
    prices = dict(sorted({**shipped.prices, **own}.items()))
    rows = [{"model": name, "own": name in own, **msgspec.to_builtins(price)} for name, price in prices.items()]
    width = max(map(len, prices))
    lines = [
        f"US dollars for a million tokens, as of {shipped.date}.",
        f"{'model':<{width}}  input  output  cached  written",
    ]
    lines += [
        f"{name:<{width}}  {_figures(price)}{'  (yours)' if name in own else ''}" for name, price in prices.items()
    ]
    lines.append(
        f"Kept in {kept} for all later commands."
        if kept
        else f"Set your own: write a file, and hand it over with --file, or name it in {PRICES}."
    )
    lines += [f"Answered {each}." for each in answered]
    data = {"date": shipped.date, "file": kept, "answered": list(answered), "prices": rows}
    return terminal.result(data, "\n".join(lines))


def _keep(arguments: argparse.Namespace, terminal: Terminal) -> tuple[str, tuple[str, ...]]:
    """Keep the prices of a file; return where, and the questions that they answer here."""
    sign = sign_of_agent(os.environ)
    if sign:
        raise PersonRequired(f"Only a person sets prices, which caps of cost are kept with, and {sign}.")
    kept = keep_prices(prices_in(Path(arguments.file), f"`{arguments.file}`"), os.environ)
    try:
        with open_app(arguments) as app:
            return str(kept), tuple(_answer(app, question) for question in _priced_questions(app))
    except NotARepository:
        return str(kept), ()


def _priced_questions(app: App) -> list[Question]:
    """Return the open questions about models that have a price now."""
    prices = known_prices(os.environ)
    with app.record.read() as view:
        asked = [each for each in view.all(Question) if each.is_open and each.about.startswith(PRICE_OF)]
    return [each for each in asked if prices.of(each.about.removeprefix(PRICE_OF)) is not None]


def _answer(app: App, question: Question) -> str:
    given = {"feature_id": question.feature_id, "question_id": question.question_id, "answer": PRICED}
    call_tool(app, "inbox.answer", given)
    return question.question_id


def _figures(price: Price) -> str:
    cached = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    figures = f"{price.input:>5g}  {price.output:>6g}  {cached:>6g}  {written:>7g}"
    if price.long is None:
        return figures
    return f"{figures}  above {price.above}: {price.long.input:g}, {price.long.output:g}"

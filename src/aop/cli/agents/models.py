"""`aop models prices`: the prices that costs are computed with, and their date."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from aop.adapters.models.settings import PRICES, price_table, prices_in
from aop.brains.prices import Price
from aop.cli.shell.terminal import Terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", metavar="prices", choices=["prices"], help="list the price of each model")
    parser.add_argument(
        "--file", metavar="F", help=f"lay this file over AOP's prices, as `{PRICES}` does for every command"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the table."""
    file = arguments.file or os.environ.get(PRICES) or None
    shipped = price_table()
    own = prices_in(Path(file), f"`{file}`").table if file else {}
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
        f"Yours are those of {file}."
        if file
        else f"Set your own: write a file, check it with --file, and name it in {PRICES}."
    )
    return terminal.result({"date": shipped.date, "file": file, "prices": rows}, "\n".join(lines))


def _figures(price: Price) -> str:
    cached = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    figures = f"{price.input:>5g}  {price.output:>6g}  {cached:>6g}  {written:>7g}"
    if price.long is None:
        return figures
    return f"{figures}  above {price.above}: {price.long.input:g}, {price.long.output:g}"

"""Styles: colours of a terminal, where it has them and the person wants them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from msgspec import Struct

from aop.cli.screens.tables import UNLIMITED, Paint
from aop.cli.shell.terminal import Terminal

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "escape": "1;35;7"}


class Painter:
    """Colours text, or leaves it as it is."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def __call__(self, style: str, text: str) -> str:
        """Return the text in a style; an empty style changes nothing."""
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self._colour and style and text else text


def add_colour_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--color` to a command that shows a screen."""
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="(default: auto)")


def painter_for(choice: str, environ: Mapping[str, str], *, is_screen: bool) -> Painter:
    """Return the painter for a choice: `auto` colours a screen, unless `NO_COLOR` or a dumb terminal forbids it."""
    if choice == "auto":
        return Painter(colour=is_screen and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb")
    return Painter(colour=choice == "always")


class Screen(Struct, frozen=True, kw_only=True):
    """The width and the colours of an output."""

    width: int
    paint: Paint


def screen_of(terminal: Terminal, choice: str, environ: Mapping[str, str]) -> Screen:
    """Return the screen that a command prints on; a pipe has no width, so its rows stay on one line each."""
    columns = environ.get("COLUMNS", "")
    width = (
        int(columns) if columns.isdecimal() and int(columns) else terminal.columns if terminal.is_screen else UNLIMITED
    )
    return Screen(width=width, paint=painter_for(choice, environ, is_screen=terminal.is_screen))

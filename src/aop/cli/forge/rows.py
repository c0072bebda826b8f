"""Rows: a list of projects, contracts or builds as lines of a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

from aop.cli.screens.styles import screen_of
from aop.cli.screens.tables import Cell, Column, table
from aop.cli.shell.terminal import Terminal
from aop.core.text.visible import visible


def lines_of(titles: Sequence[str], rows: Sequence[Sequence[str]], terminal: Terminal) -> list[str]:
    """Lay out rows of texts below their titles."""
    screen = screen_of(terminal, "auto", os.environ)
    columns = [Column(title=title) for title in titles]
    return table(columns, [[Cell(visible(text)) for text in row] for row in rows], screen.width, screen.paint)


def print_text(text: str, terminal: Terminal) -> None:
    """Print a contract or a difference: unchanged into a pipe, and so that it cannot steer a screen."""
    if terminal.is_screen:
        terminal.text("\n".join(map(visible, text.removesuffix("\n").split("\n"))))
    else:
        terminal.exact(text)

"""Redrawn screen: lines of a terminal that are written over in place."""

from __future__ import annotations

from collections.abc import Sequence

from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count

CLEAR_ALL = "\x1b[H\x1b[2J"
CLEAR_LINE_END = "\x1b[K"
CLEAR_BELOW = "\x1b[J"


class RedrawnScreen:
    """Keeps what it drew last, and writes each new picture over it in one piece."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._drawn: list[str] = []
        self._size = terminal.size

    def is_resized(self) -> bool:
        """Tell whether the terminal has another size than at the last picture."""
        return self._size != self._terminal.size

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, as far as the terminal has room for them."""
        size, fitting = self._terminal.size, list(lines)
        room = size.lines - 1
        if len(fitting) > room:
            left_out = len(fitting) - room + 1
            fitting = [*fitting[: room - 1], f"… and {count(left_out, 'more line')}: aop status"]
        if self._size != size:
            # The terminal has wrapped or cut the old lines: their number is not known any longer.
            self._write(CLEAR_ALL, fitting)
        elif fitting != self._drawn:
            self._write(f"\x1b[{len(self._drawn)}A\r" if self._drawn else "", fitting)
        self._drawn, self._size = fitting, size

    def _write(self, begin: str, lines: Sequence[str]) -> None:
        # Each line is overwritten and only its rest cleared: an emptied screen would flicker.
        self._terminal.raw(begin + "".join(f"{line}{CLEAR_LINE_END}\n" for line in lines) + CLEAR_BELOW)

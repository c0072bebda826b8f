"""Progress: each step of a run as a line, with its time and its feature."""

from __future__ import annotations

import time
from collections.abc import Collection

from aop.cli.screens.tables import shorten, wrap_beside
from aop.cli.shell.terminal import Terminal
from aop.core.ids import FeatureId
from aop.core.text.visible import visible

WIDEST_NAME = 24
_TIME = "{:7.1f} s  "


class Progress:
    """Prints steps below each other: time, feature, and what happened, wrapped beside them on a terminal."""

    def __init__(self, terminal: Terminal, features: Collection[str]) -> None:
        self._terminal = terminal
        self._began = time.monotonic()
        self._width = min(max(map(len, features), default=0), WIDEST_NAME) + 1

    def __call__(self, feature_id: FeatureId, line: str) -> None:
        """Print one step of a feature; its words may be an agent's."""
        name = f"{shorten(feature_id, WIDEST_NAME)}:"
        begin = f"{_TIME.format(self.seconds())}{name:<{self._width}} "
        text, width = visible(" ".join(line.split())), self._terminal.message_width
        self._terminal.say("\n".join(wrap_beside(begin, text, width, narrowest=WIDEST_NAME)))

    def seconds(self) -> float:
        """Return how long the run has taken so far."""
        return time.monotonic() - self._began

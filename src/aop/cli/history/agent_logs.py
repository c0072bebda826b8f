"""Agent logs: the output of a feature's agents, without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from aop.adapters.agents.turn_logs import AGENT_LOGS, TurnLogReader
from aop.cli.shell.terminal import Terminal
from aop.core.clock import Clock
from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.core.text.visible import visible
from aop.kernel.tools.report.turn_lines import turn_line_text
from aop.wiring.build import App

LOOK_AGAIN_SECONDS = 0.2


def show_agent(app: App, feature: FeatureId, terminal: Terminal, *, follow: bool) -> None:
    """Print the output of each role's newest turn, and follow new output if wanted."""
    is_empty = True
    with closing(TurnLogReader(app.root / AGENT_LOGS, feature)) as reader:
        for role, line in _lines(reader, app.gateway.kernel.clock, follow=follow):
            is_empty = False
            clean = app.gateway.kernel.redact(line)
            entry: Json = {"type": "agent", "feature_id": feature, "role": role, "line": clean}
            terminal.line(entry, f"{role:<8} {visible(turn_line_text(clean))}")
    if is_empty:
        terminal.say(f"No output of an agent for `{feature}` yet.")


def _lines(reader: TurnLogReader, clock: Clock, *, follow: bool) -> Iterator[tuple[str, str]]:
    yield from reader.new_lines(with_unended=not follow)
    while follow:
        clock.pause(LOOK_AGAIN_SECONDS)
        yield from reader.new_lines(with_unended=False)

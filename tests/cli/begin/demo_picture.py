"""The picture of the demo in README: lines that `aop demo` prints, drawn as a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path

PICTURE = Path(__file__).parents[3] / "docs" / "demo.svg"
SHOWN = (
    *("made a small shop", "found Python and its tests", "volume_discount: planner: plan.submit", "collides with"),
    *("gift_wrap: asks:", "did not pass: it ended", "the log says", "volume_discount: qa: gates.run full"),
    *("the demo answers q1", "gift_wrap: qa: gates.run full", "gift_wrap: the demo approves", "gift_wrap: merged"),
    *("volume_discount: merged into", "`main` is now"),
)
"""What the chosen lines contain, in the order of the picture."""
WIDTH, LINE, LEFT, TOP = 1060, 19, 18, 48
COLOURS = (
    ("did not pass", "#f47067"),
    ("the log says", "#f47067"),
    ("merged into", "#8ddb8c"),
    ("collides", "#f0b429"),
)
PLAIN = "#d1d7e0"
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


def steady(line: str) -> str:
    """Return a line without what differs from run to run and from machine to machine."""
    line = re.sub(r"^ *\d+\.\d+ s  ", "", line)
    line = re.sub(r"\b[0-9a-f]{12}\b", "4f1c0de9a2b7", line)
    line = re.sub(r"\bsandbox [a-z]+", "sandbox bubblewrap", line)
    line = re.sub(r"Done in \d+\.\d+ s", "Done in 4.73 s", line)
    return re.sub(r": /\S+/shop$", "", line)


def chosen(printed: str) -> list[str]:
    """Return the lines of the picture; each has to be among what the demo printed."""
    lines = [steady(line) for line in printed.splitlines()]
    return [next(line for line in lines if part in line) for part in SHOWN]


def drawn(lines: Sequence[str]) -> str:
    """Return the picture of a terminal with these lines."""
    rows = ["$ aop demo", *lines]
    texts = "".join(
        f'  <text x="{LEFT}" y="{TOP + number * LINE}" fill="{_colour(row)}">{escape(row)}</text>\n'
        for number, row in enumerate(rows)
    )
    height = TOP + len(rows) * LINE
    dots = "".join(
        f'<circle cx="{LEFT + 4 + 18 * number}" cy="18" r="5.5" fill="{colour}"/>'
        for number, colour in enumerate(("#f47067", "#f0b429", "#8ddb8c"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' role="img" aria-label="The output of aop demo">\n'
        f'  <rect width="{WIDTH}" height="{height}" rx="9" fill="#1c2128"/>\n  {dots}\n'
        f'  <g font-family="{FONTS}" font-size="13" xml:space="preserve">\n'
        f"{texts}  </g>\n</svg>\n"
    )


def shown_lines(picture: str) -> list[str]:
    """Return the lines of a picture, without the command."""
    return [unescape(text) for text in re.findall(r"<text [^>]*>(.*?)</text>", picture)][1:]


def _colour(row: str) -> str:
    return next((colour for part, colour in COLOURS if part in row), PLAIN)

"""Plots: lines and bars of figures, as the coordinates of a drawing."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

WIDTH, HEIGHT = 640, 180
LEFT, BOTTOM, TOP = 44, 24, 10
BAR_HEIGHT, BAR_GAP = 18, 8
MOST_BARS = 20
NAME_WIDTH = 190


class Series(Struct, frozen=True, kw_only=True):
    """One line of a plot."""

    name: str
    points: str
    """The coordinates, as `polyline` takes them."""
    tone: int
    dots: tuple[tuple[float, float], ...]


class LinePlot(Struct, frozen=True, kw_only=True):
    """Figures over days."""

    width: int
    height: int
    base: float
    left: float
    series: tuple[Series, ...]
    top: str
    """The figure at the top of the scale."""
    first: str
    last: str


class Bar(Struct, frozen=True, kw_only=True):
    """One bar with its name and figure."""

    name: str
    y: float
    text_y: float
    width: float
    figure: str


class BarPlot(Struct, frozen=True, kw_only=True):
    """Figures beside each other."""

    width: int
    height: int
    left: float
    bars: tuple[Bar, ...]


def line_plot(days: Sequence[str], lines: Sequence[tuple[str, Sequence[float]]]) -> LinePlot:
    """Return the drawing of figures by day; all lines share one scale."""
    top = max([1e-9, *(figure for _, figures in lines for figure in figures)])
    base, high = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP
    step = (WIDTH - LEFT - TOP) / max(1, len(days) - 1)

    def dots(figures: Sequence[float]) -> tuple[tuple[float, float], ...]:
        return tuple(
            (round(LEFT + at * step, 1), round(base - high * each / top, 1)) for at, each in enumerate(figures)
        )

    series = tuple(
        Series(name=name, points=" ".join(f"{x},{y}" for x, y in dots(figures)), tone=tone, dots=dots(figures))
        for tone, (name, figures) in enumerate(lines)
    )
    return LinePlot(
        width=WIDTH,
        height=HEIGHT,
        base=base,
        left=LEFT,
        series=series,
        top=f"{top:.4g}" if top > 1e-9 else "0",
        first=days[0] if days else "",
        last=days[-1] if days else "",
    )


def bar_plot(rows: Sequence[tuple[str, float, str]]) -> BarPlot:
    """Return the drawing of names with figures, the largest first; the figure's text stands beside its bar."""
    shown = sorted(rows, key=lambda row: (-row[1], row[0]))[:MOST_BARS]
    largest = max([1e-9, *(figure for _, figure, _ in shown)])
    room = WIDTH - NAME_WIDTH - 110
    bars = tuple(
        Bar(
            name=name if len(name) <= 28 else f"{name[:27]}…",
            y=at * (BAR_HEIGHT + BAR_GAP) + BAR_GAP,
            text_y=at * (BAR_HEIGHT + BAR_GAP) + BAR_GAP + 13,
            width=round(max(1.0, room * figure / largest), 1),
            figure=text,
        )
        for at, (name, figure, text) in enumerate(shown)
    )
    return BarPlot(width=WIDTH, height=len(bars) * (BAR_HEIGHT + BAR_GAP) + BAR_GAP, left=NAME_WIDTH, bars=bars)

"""The results of one run: as a table for people, as JSON for the next run, and two of them side by side."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.measurements import Measurement

FOLDER = Path(__file__).with_name("results")


class Results(Struct, frozen=True, kw_only=True):
    """What one run of the bench found."""

    commit: str
    """With `-dirty` where the working tree differs from it."""
    machine: str
    is_quick: bool
    is_partial: bool
    measurements: tuple[Measurement, ...]
    load: tuple[float, float] = (0.0, 0.0)
    """The load of the machine before and after: what is far over its cores makes every time longer."""


def commit_here() -> str:
    """Return the commit that is measured."""
    described = _output(
        "git", "-C", str(FOLDER.parent), "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"
    )
    return described.strip()


def machine_here() -> str:
    """Return what the figures depend on, in a line."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {_output('git', '--version').strip()}"


def load_here() -> float:
    """Return how many processes wanted a core in the last minute."""
    return round(os.getloadavg()[0], 1)


def kept(results: Results) -> Path:
    """Write the results to the folder that git ignores; return the file. Less than a full run has a name of its own."""
    FOLDER.mkdir(exist_ok=True)
    less = "-quick" * results.is_quick + "-partial" * results.is_partial
    path = FOLDER / f"{results.commit}{less}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    return path


def read(path: Path) -> Results:
    """Read the results of an earlier run."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def table(measurements: Sequence[Measurement]) -> str:
    """Return the measurements as a Markdown table."""
    head = ("measurement", "ours", "floor", "the floor is", "result", "budget", "")
    return _table(head, [_row(each) for each in measurements])


def comparison(old: Results, new: Results) -> str:
    """Return what became of each measurement that both runs have."""
    before = {each.name: each for each in old.measurements}
    both = [(before[each.name], each) for each in new.measurements if each.name in before]
    head = ("measurement", old.commit, new.commit, "ours", "result", "result")
    return _table(head, [_change(earlier, later) for earlier, later in both])


def _row(each: Measurement) -> tuple[str, ...]:
    verdict = {None: "", True: "kept", False: "MISSED"}[each.is_within]
    budget = each.budget
    unit = "" if budget is None or budget.kind in ("times", "share") else f" {each.unit}"
    limit = "" if budget is None else f"{budget.kind} {budget.limit:g}{unit}"
    floor = "" if each.floor is None else _amount(each.floor, each.unit)
    return (each.name, _amount(each.ours, each.unit), floor, each.floor_name, _result(each), limit, verdict)


def _change(earlier: Measurement, later: Measurement) -> tuple[str, ...]:
    change = f"{(later.ours / earlier.ours - 1) * 100:+.0f} %" if earlier.ours else ""
    ours = (_amount(earlier.ours, earlier.unit), _amount(later.ours, later.unit))
    return (later.name, *ours, change, _result(earlier), _result(later))


def _result(each: Measurement) -> str:
    kind = each.budget.kind if each.budget else ""
    times = f"{each.result:.2f} x"
    return {"times": times, "share": times, "over": f"{each.result:+.1f} {each.unit}"}.get(kind, "")


def _amount(value: float, unit: str) -> str:
    return f"{value:.1f} {unit}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"{line}\n" for line in _drawn(lines, widths))


def _drawn(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for line in lines:
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"


def _output(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

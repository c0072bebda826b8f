"""What the pages cost the server: the board as HTML beside the same answer as JSON, its bytes, and idle memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from msgspec import Struct

from bench.agents import megabytes
from bench.effort import Effort
from bench.mcp import AOP, HERE, serving
from bench.measurements import Budget, Measurement, in_turns
from bench.scenes import Scene
from bench.throughput import ToolClient

FEATURES = 200
SPEC = "# Discount number {0} for large orders\n\n- an order of more than {0} pieces costs less\n"


class Entered(Struct, frozen=True, kw_only=True):
    """A server of the pages, and a session at it."""

    port: int
    pid: int
    headers: dict[str, str]

    def fetch(self, connection: HTTPConnection, path: str, **headers: str) -> bytes:
        """Return what a browser would get of a page, as it is sent."""
        connection.request("GET", path, headers={**self.headers, "Accept-Encoding": "gzip", **headers})
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path} was refused: {response.status}")
        return body


def pages(effort: Effort) -> Iterator[Measurement]:
    """Measure the first view of a board of 200 features, and the memory of a server that nobody asks anything."""
    with closing(crowded(effort.folder)) as scene:
        yield from _board(scene, effort)
        yield from _idle(scene, effort)


def crowded(folder: Path) -> Scene:
    """Return a repository with 200 features, each with a plan and a spec whose title a card shows."""
    scene = Scene(folder, files=20)
    names = [f"placed_{number}" for number in range(FEATURES - 1)]
    scene.place(names, planned=True)
    for number, name in enumerate(names):
        spec = scene.root / "agentic/features" / name / "spec.md"
        spec.parent.mkdir(parents=True, exist_ok=True)
        spec.write_text(SPEC.format(number))
    return scene


def serve_words(root: Path) -> tuple[str, ...]:
    """Return the command that serves a repository."""
    return (*AOP, "serve", "--port", "0", "--json", "--repo", str(root))


def _board(scene: Scene, effort: Effort) -> Iterator[Measurement]:
    with serving(serve_words(scene.root)) as url:
        at = entered(scene.root)
        dashboard = ToolClient(url, scene.token(), "report.dashboard", {})
        with (
            closing(HTTPConnection("127.0.0.1", at.port)) as ours,
            closing(HTTPConnection("127.0.0.1", at.port)) as raw,
        ):
            clock = in_turns(lambda _: at.fetch(ours, "/board"), lambda _: dashboard.call(raw), turns=effort.turns)
            on_core = (
                _on_core(at.pid, lambda: at.fetch(ours, "/board"), times=effort.turns * 4),
                _on_core(at.pid, lambda: dashboard.call(raw), times=effort.turns * 4),
            )
        for name, (took, floor) in (("", clock), (", on a core", on_core)):
            yield Measurement(
                name=f"board of {FEATURES} features as HTML{name}",
                ours=took,
                floor=floor,
                floor_name="report.dashboard as JSON",
                budget=Budget("times", 3.0),
            )


def _on_core(pid: int, act: Callable[[], object], *, times: int) -> float:
    """Return the milliseconds that a process has a core for each of so many calls."""
    before = core_ms(pid)
    for _ in range(times):
        act()
    return (core_ms(pid) - before) / times


def core_ms(pid: int) -> float:
    """Return the milliseconds that all threads of a process have had a core, to ten."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def _idle(scene: Scene, effort: Effort) -> Iterator[Measurement]:
    """Measure a server that has drawn the board, beside one that has no pages."""
    with_pages, without = [], []
    for _turn in range(effort.slow_turns):
        with serving(serve_words(scene.root)):
            at = entered(scene.root)
            with closing(HTTPConnection("127.0.0.1", at.port)) as browser:
                at.fetch(browser, "/board")
            with_pages.append(megabytes(at.pid))
        words = (sys.executable, "-m", "bench.pageless", str(scene.root))
        with subprocess.Popen(words, cwd=HERE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            without.append(megabytes(process.pid))
            process.terminate()
    yield Measurement(
        name="memory of an idle aop serve, after the board was shown",
        unit="MB",
        ours=median(with_pages),
        floor=median(without),
        floor_name="without pages",
        budget=Budget("over", 10.0),
    )


def entered(root: Path) -> Entered:
    """Follow the link of `aop web` to the server that runs."""
    ran = subprocess.run(
        [*AOP, "web", "--print", "--json", "--repo", str(root)], cwd=HERE, capture_output=True, check=True
    )
    found = json.loads(ran.stdout)["data"]
    link = urlsplit(found["url"])
    assert link.port is not None
    with closing(HTTPConnection("127.0.0.1", link.port)) as connection:
        connection.request("GET", f"{link.path}?{link.query}", headers={"Host": link.netloc})
        cookie = connection.getresponse().headers["set-cookie"].partition(";")[0]
    return Entered(port=link.port, pid=found["pid"], headers={"Host": link.netloc, "Cookie": cookie})

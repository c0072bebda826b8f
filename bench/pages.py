"""What the pages cost the server, and what a person at them waits for in a real Chromium."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from msgspec import Struct
from playwright.sync_api import Browser, Page, Request

from aop.core.roles import Role
from aop.kernel.record.port import newest_seq
from bench.agents import megabytes
from bench.effort import Effort
from bench.mcp import AOP, HERE, serving
from bench.measurements import Budget, Measurement, Skipped, in_turns
from bench.scenes import Scene, plan_for
from bench.throughput import ToolClient
from tests.web.browser.windows import Window, chromium, launched, window

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
    """Measure the first view of a board of many features, and the memory of a server that nobody asks anything."""
    with closing(crowded(effort.folder, effort.features_listed)) as scene:
        yield from _board(scene, effort)
        yield from _idle(scene, effort)


def crowded(folder: Path, features: int) -> Scene:
    """Return a repository with features, each with a plan and a spec whose title a card shows."""
    scene = Scene(folder, files=20)
    names = [f"placed_{number}" for number in range(features - 1)]
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
                name=f"board of {effort.features_listed} features as HTML{name}",
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


WATCH = """\
() => {
  const shown = (window.shown = {});
  new MutationObserver(() => {
    const seq = document.getElementById("main").dataset.seq;
    // After the next frame: what was put in place is on the screen then.
    requestAnimationFrame(() => setTimeout(() => { shown[seq] ??= Date.now(); }));
  }).observe(document.getElementById("main"), { attributes: true, attributeFilter: ["data-seq"] });
}
"""
TASKS = """\
() => {
  window.tasks = [];
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => each.duration)))
    .observe({ type: "longtask" });
}
"""
SCROLL = """\
async () => {
  const end = document.documentElement;
  for (let at = 0; at < end.scrollHeight; at += 600) {
    scrollTo(0, at);
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
  }
  return end.scrollHeight;
}
"""
# The page may be live before Chromium has drawn it for the first time.
PAINT = """\
() => new Promise((painted, missed) => {
  setTimeout(() => missed(new Error("nothing was painted in 30 s")), 30000);
  const found = (list) => list.getEntriesByName("first-contentful-paint").forEach((each) => painted(each.startTime));
  new PerformanceObserver(found).observe({ type: "paint", buffered: true });
})
"""


def page_windows(effort: Effort) -> Iterator[Measurement | Skipped]:
    """Measure what Chromium sees; without one, say so."""
    if chromium() is None:
        yield Skipped("There is no Chromium on this machine.")
        return
    with launched() as browser:
        with (
            closing(crowded(effort.folder / "crowded", effort.features_listed)) as scene,
            serving(serve_words(scene.root)),
        ):
            yield from _first_view(scene, browser, effort)
            yield from _changes(scene, browser, effort)
        with (
            closing(_with_long_diff(effort.folder / "long", effort.diff_lines)) as scene,
            serving(serve_words(scene.root)),
        ):
            yield from _long_diff(scene, browser, effort)


def _first_view(scene: Scene, browser: Browser, effort: Effort) -> Iterator[Measurement]:
    asked: list[Request] = []

    def note(request: Request) -> None:
        asked.append(request)

    with window(browser, scene.root) as opened:
        # A browser that has the session and nothing else.
        context = browser.new_context(storage_state=opened.page.context.storage_state())
        page = context.new_page()
        page.on("requestfinished", note)
        page.goto(f"{opened.origin}/board")
        page.wait_for_selector("#live.on")
        sizes = [each.sizes() for each in asked]
        context.close()
    size = sum(each["responseBodySize"] + each["responseHeadersSize"] for each in sizes)
    name = f"first view of the board of {effort.features_listed} features"
    yield Measurement(name=f"{name}, compressed", unit="kB", ours=size / 1000, budget=Budget("at most", 60.0))
    # And the stream of events, which never finishes.
    yield Measurement(name=name, unit="requests", ours=len(asked) + 1, budget=Budget("at most", 8.0))


def _changes(scene: Scene, browser: Browser, effort: Effort) -> Iterator[Measurement]:
    with window(browser, scene.root) as opened:
        front = _watched(opened.go("/board"))
        yield _until_shown(scene, front, "a change until it is on the board", 250.0, turns=effort.turns)
        for _tab in range(effort.tabs - 1):
            _open_behind(opened)
        # Chromium draws a tab that another one covers once a second.
        front.bring_to_front()
        name = f"a change until it is on the board, {effort.tabs} tabs"
        yield _until_shown(scene, front, name, 500.0, turns=effort.turns)


def _open_behind(opened: Window) -> None:
    """Open a tab behind the one in front. Chromium without a screen calls every tab visible, so a script says it."""
    tab = opened.page.context.new_page()
    tab.goto(f"{opened.origin}/board")
    _watched(tab)
    tab.evaluate("() => { Object.defineProperty(document, 'hidden', { get: () => true }); }")


def _watched(page: Page) -> Page:
    page.wait_for_selector("#live.on")
    page.evaluate(WATCH)
    return page


def _until_shown(scene: Scene, tab: Page, name: str, limit: float, *, turns: int) -> Measurement:
    """Measure from the call that changes the record to the frame after the tab was drawn."""
    taken = []
    for turn in range(turns + 1):
        began = time.time()
        scene.call("feature.log_append", role=Role.BUILDER, feature_id="placed_1", note=f"Turn {turn}")
        with scene.app.record.read() as view:
            seq = newest_seq(view)
        tab.wait_for_function("seq => Object.keys(window.shown).some((each) => Number(each) >= seq)", arg=seq)
        shown = "seq => Math.min(...Object.entries(window.shown).filter(([n]) => Number(n) >= seq).map(([, at]) => at))"
        taken.append(tab.evaluate(shown, seq) - began * 1000)
    return Measurement(name=name, ours=median(taken[1:]), budget=Budget("at most", limit))


def _with_long_diff(root: Path, count: int) -> Scene:
    scene = Scene(root, files=20)
    path = "src/long.py"
    plan = plan_for("long", path)
    scene.call("feature.init", feature_id="long")
    scene.call(
        "plan.submit", feature_id="long", plan_json={**plan, "files": {**plan["files"], "create": [path], "modify": []}}
    )
    lines = "".join(
        f"+def function_{number}(order: int) -> str: return f'line {{order}} of {number}'\n" for number in range(count)
    )
    diff = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{count} @@\n{lines}"
    scene.call("repo.apply_patch", role=Role.BUILDER, feature_id="long", unified_diff=diff)
    return scene


def _long_diff(scene: Scene, browser: Browser, effort: Effort) -> Iterator[Measurement]:
    paints, tasks = [], []
    with window(browser, scene.root) as opened:
        for _turn in range(effort.slow_turns + 1):
            page = opened.go("/features/long")
            opened.live()
            paints.append(page.evaluate(PAINT))
            page.evaluate(TASKS)
            page.evaluate(SCROLL)
            tasks.append(page.evaluate("() => Math.max(0, ...window.tasks)"))
    name = f"review of a diff of {effort.diff_lines} lines"
    yield Measurement(name=f"{name}, first paint", ours=median(paints[1:]), budget=Budget("at most", 1000.0))
    yield Measurement(
        name=f"{name}, longest task while scrolling", ours=median(tasks[1:]), budget=Budget("at most", 50.0)
    )

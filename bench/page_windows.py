"""What a person at the pages waits for, in a real Chromium: the first view, a change, a long diff."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Page, Request

from aop.core.roles import Role
from aop.kernel.record.port import newest_seq
from bench.effort import Effort
from bench.mcp import serving
from bench.measurements import Budget, Measurement
from bench.pages import FEATURES, crowded, serve_words
from bench.scenes import Scene, plan_for
from tests.web.browser.windows import Window, chromium, launched, window

TABS = 20
DIFF_LINES = 5000

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
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


def page_windows(effort: Effort) -> Iterator[Measurement]:
    """Measure what Chromium sees; without one, say so."""
    if chromium() is None:
        print("pages.windows: SKIPPED: there is no Chromium on this machine.", file=sys.stderr)
        return
    with launched() as browser:
        with closing(crowded(effort.folder / "crowded")) as scene, serving(serve_words(scene.root)):
            yield from _first_view(scene, browser)
            yield from _changes(scene, browser, effort)
        with closing(_with_long_diff(effort.folder / "long")) as scene, serving(serve_words(scene.root)):
            yield from _long_diff(scene, browser, effort)


def _first_view(scene: Scene, browser: Browser) -> Iterator[Measurement]:
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
    name = f"first view of the board of {FEATURES} features"
    yield Measurement(name=f"{name}, compressed", unit="kB", ours=size / 1000, budget=Budget("at most", 60.0))
    # And the stream of events, which never finishes.
    yield Measurement(name=name, unit="requests", ours=len(asked) + 1, budget=Budget("at most", 8.0))


def _changes(scene: Scene, browser: Browser, effort: Effort) -> Iterator[Measurement]:
    with window(browser, scene.root) as opened:
        front = _watched(opened.go("/board"))
        yield _until_shown(scene, front, "a change until it is on the board", 250.0, turns=effort.turns)
        for _tab in range(TABS - 1):
            _open_behind(opened)
        # Chromium draws a tab that another one covers once a second.
        front.bring_to_front()
        name = f"a change until it is on the board, {TABS} tabs"
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


def _with_long_diff(root: Path) -> Scene:
    scene = Scene(root, files=20)
    path = "src/long.py"
    plan = plan_for("long", path)
    scene.call("feature.init", feature_id="long")
    scene.call(
        "plan.submit", feature_id="long", plan_json={**plan, "files": {**plan["files"], "create": [path], "modify": []}}
    )
    lines = "".join(
        f"+def function_{number}(order: int) -> str: return f'line {{order}} of {number}'\n"
        for number in range(DIFF_LINES)
    )
    diff = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{DIFF_LINES} @@\n{lines}"
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
    name = f"review of a diff of {DIFF_LINES} lines"
    yield Measurement(name=f"{name}, first paint", ours=median(paints[1:]), budget=Budget("at most", 1000.0))
    yield Measurement(
        name=f"{name}, longest task while scrolling", ours=median(tasks[1:]), budget=Budget("at most", 50.0)
    )

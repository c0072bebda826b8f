"""`aop run`: bring every spec to `ready_to_merge`, or to a question; in the background, or while you wait."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.background import in_background
from aop.adapters.orphans import end_children
from aop.adapters.spec_files import one_spec, specs_below, text_of
from aop.adapters.supervisor_lease import Holder, SupervisorLease, held_lease
from aop.cli.exits import Exit
from aop.cli.run_report import exit_code, report, show
from aop.cli.stopping import stop_on_signals
from aop.cli.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json, NoSpecsFound, SpecIngestFailed
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.calls import Envelope
from aop.supervisor.life import Limits, limits_of
from aop.supervisor.providers import Wish, choices
from aop.supervisor.specs import WantedFeature, is_written_by_aop, wanted_features
from aop.supervisor.workers import ProviderChoice
from aop.wiring import App, Settings, build, build_supervision, command_staff


class Order(Struct, frozen=True, kw_only=True):
    """What a person wants done, checked as far as it can be before anything is changed."""

    features: tuple[WantedFeature, ...]
    files: Mapping[str, Path]
    choices: Mapping[Role, ProviderChoice]
    limits: Limits


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("-fi", metavar="FILE", help="one spec")
    parser.add_argument("-fl", metavar="FOLDER", help="every `*.md` below a folder is a spec")
    parser.add_argument("--agent-provider", metavar="P", help="which coding agent does the work")
    parser.add_argument("--agent-model", metavar="M", help="which model it uses")
    parser.add_argument("--provider-config-env", metavar="V", help="the variable that holds the provider's settings")
    parser.add_argument("--max-active", type=int, metavar="N", help="how many features are worked on at once")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument("--wait", action="store_true", help="return when nothing can move without a person")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check everything, take the lease, put the specs in their place, and supervise."""
    settings = Settings.from_env(os.environ)
    app = build(Path(arguments.repo), settings)
    try:
        order = _order(app, settings, arguments)
        command_staff(app, settings, order.choices)
        if arguments.dry_run:
            return _told(order, terminal)
        with held_lease(app.root / ".aop" / "supervisor.lock") as lease:
            _ingest(app, order)
            if arguments.wait:
                return _supervise(app, settings, order, lease, terminal)
            app.close()
            return in_background(
                app.root / ".aop" / "supervisor.log",
                lambda ready: _in_child(arguments, order, lease, ready),
                lambda pid: _left_running(order, pid, terminal),
            )
    finally:
        app.close()


# --- what is wanted --------------------------------------------------------------------------------


def _order(app: App, settings: Settings, arguments: argparse.Namespace) -> Order:
    if arguments.fi is not None and arguments.fl is not None:
        raise InvalidCliArgs("`-fi` and `-fl` cannot be used together.", hint="Name one file, or one folder.")
    if arguments.max_active is not None and arguments.max_active < 1:
        raise InvalidCliArgs("`--max-active` must be at least 1.", max_active=arguments.max_active)
    files = _files(app, arguments)
    if not files:
        raise NoSpecsFound("There is no spec to work on.", searched=arguments.fl or "agentic/features/*/spec.md")
    features = wanted_features(files)
    wish = Wish(
        provider=arguments.agent_provider, model=arguments.agent_model, config_env=arguments.provider_config_env
    )
    config = app.gateway.kernel.config()
    chosen = choices(wish, Wish.from_env(settings.environ), config.agents.runtime)
    return Order(
        features=features,
        files=files,
        choices=chosen,
        limits=limits_of(config.policy.supervisor, active_features=arguments.max_active),
    )


def _files(app: App, arguments: argparse.Namespace) -> Mapping[str, Path]:
    if arguments.fi is not None:
        return one_spec(Path(arguments.fi), app.root)
    if arguments.fl is not None:
        found = specs_below(Path(arguments.fl), app.root)
        return {name: path for name, path in found.items() if not is_written_by_aop(name)}
    specs = _data(app.gateway.call(app.person, "feature.discover_specs", {}))["specs"]
    return {spec["spec_path"]: app.root / spec["spec_path"] for spec in specs}


def _told(order: Order, terminal: Terminal) -> int:
    plan: dict[str, Json] = {
        "ok": True,
        "dry_run": True,
        "features": [msgspec.to_builtins(feature) for feature in order.features],
        "providers": msgspec.to_builtins(order.choices),
        "limits": msgspec.to_builtins(order.limits),
    }
    if terminal.json:
        terminal.object(plan)
    else:
        for feature in order.features:
            terminal.text(f"{feature.feature_id}  {feature.source}")
    return Exit.OK


def _ingest(app: App, order: Order) -> None:
    """Put every spec in its place; all are read before one is written.

    Raises: SpecIngestFailed.
    """
    texts = {feature: text_of(order.files[feature.source]) for feature in order.features}
    for feature, text in texts.items():
        if not feature.is_canonical:
            given = {"feature_id": feature.feature_id, "text": text, "source_path": feature.source}
            answer = app.gateway.call(app.person, "feature.ingest_spec", given)
            if answer.error is not None:
                raise SpecIngestFailed(str(answer.error["message"]), feature_id=feature.feature_id)


# --- working on it ---------------------------------------------------------------------------------


def _in_child(arguments: argparse.Namespace, order: Order, lease: SupervisorLease, ready: Any) -> int:
    settings = Settings.from_env(os.environ)
    app = build(Path(arguments.repo), settings)
    try:
        return _supervise(app, settings, order, lease, Terminal(json=False), ready=ready, until="ended")
    finally:
        app.close()


def _supervise(
    app: App,
    settings: Settings,
    order: Order,
    lease: SupervisorLease,
    terminal: Terminal,
    *,
    ready: Any = None,
    until: Any = "settled",
) -> int:
    began = time.monotonic()
    wanted = [feature.feature_id for feature in order.features]
    lease.sign(Holder(pid=os.getpid(), since=app.gateway.kernel.now(), features=tuple(wanted)))

    def tell(feature_id: FeatureId, line: str) -> None:
        terminal.say(f"{time.monotonic() - began:7.2f} s  {feature_id}: {line}")

    before = _newest(app)
    made = build_supervision(app, command_staff(app, settings, order.choices), order.limits, tell)
    with stop_on_signals() as stopping:
        made.engine.start(made.lives.kinds())
        made.supervisor.submit(_with_left_over(wanted, made.supervisor.left_over()))
        if ready is not None:
            ready()
        made.supervisor.go_on(until=until, stopped=stopping.asked)
        if stopping.asked():
            terminal.say("aop: stopped. The same `aop run` goes on where it was.")
            end_children()
            stopping.leave()
        made.engine.close()
    facts = report(app, made.board, changed=_newest(app) != before, seconds=time.monotonic() - began)
    show(facts, terminal)
    return exit_code(facts)


def _with_left_over(wanted: Sequence[FeatureId], left: Sequence[FeatureId]) -> list[FeatureId]:
    return list(dict.fromkeys([*left, *wanted]))


def _newest(app: App) -> int:
    with app.record.read() as view:
        return next((entry.seq for entry in view.journal(newest=1)), 0)


def _left_running(order: Order, pid: int, terminal: Terminal) -> int:
    features = [feature.feature_id for feature in order.features]
    if terminal.json:
        terminal.object({"ok": True, "pid": pid, "features": list(features)})
    else:
        terminal.say(f"{len(features)} feature(s) go on in the background, as process {pid}: aop status, aop inbox")
    return Exit.OK


def _data(answer: Envelope) -> Any:
    if answer.error is not None:
        raise InvalidCliArgs(str(answer.error["message"]))
    return answer.data

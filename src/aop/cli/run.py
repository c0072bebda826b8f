"""`aop run`: bring every spec to `ready_to_merge`, or to a question; in the background, or while you wait."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aop.adapters.spec_files import one_spec, specs_below, text_of
from aop.cli.exits import Exit
from aop.cli.supervised import Order, order_of, supervised, supervising_arguments
from aop.cli.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json, NoSpecsFound, SpecIngestFailed
from aop.core.ids import FeatureId
from aop.kernel.calls import Envelope
from aop.supervisor.dependencies import check_dependencies, dependencies_of
from aop.supervisor.specs import is_written_by_aop, wanted_features
from aop.wiring import App, Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("-fi", metavar="FILE", help="one spec")
    parser.add_argument("-fl", metavar="FOLDER", help="every `*.md` below a folder is a spec")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    supervising_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check everything, take the lease, put the specs in their place, and supervise."""
    settings = Settings.from_env(os.environ)
    app = build(Path(arguments.repo), settings)
    try:
        files = _files(app, arguments)
        features = wanted_features(files)
        texts = {feature.feature_id: text_of(files[feature.source]) for feature in features}
        order = order_of(app, settings, arguments, features, _dependencies(app, texts))
        if arguments.dry_run:
            return _told(order, terminal)
        return supervised(app, settings, order, arguments, terminal, before=lambda: _ingest(app, order, texts))
    finally:
        app.close()


# --- what is wanted --------------------------------------------------------------------------------


def _files(app: App, arguments: argparse.Namespace) -> Mapping[str, Path]:
    if arguments.fi is not None and arguments.fl is not None:
        raise InvalidCliArgs("`-fi` and `-fl` cannot be used together.", hint="Name one file, or one folder.")
    found = _found(app, arguments)
    if not found:
        raise NoSpecsFound("There is no spec to work on.", searched=arguments.fl or "agentic/features/*/spec.md")
    return found


def _found(app: App, arguments: argparse.Namespace) -> Mapping[str, Path]:
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
        "depends_on": {name: list(others) for name, others in order.depends_on.items() if others},
        "providers": msgspec.to_builtins(order.choices),
        "limits": msgspec.to_builtins(order.limits),
    }
    if terminal.json:
        terminal.object(plan)
    else:
        for feature in order.features:
            terminal.text(f"{feature.feature_id}  {feature.source}")
    return Exit.OK


def _dependencies(app: App, texts: Mapping[FeatureId, str]) -> dict[FeatureId, tuple[FeatureId, ...]]:
    """Return what each spec depends on.

    Raises: SpecIngestFailed.
    """
    depends_on = {name: dependencies_of(name, text) for name, text in texts.items()}
    if any(depends_on.values()):
        rows = _data(app.gateway.call(app.person, "report.dashboard", {}))["features"]
        check_dependencies(depends_on, frozenset(FeatureId(row["feature_id"]) for row in rows))
    return depends_on


def _ingest(app: App, order: Order, texts: Mapping[FeatureId, str]) -> None:
    """Put every spec in its place.

    Raises: SpecIngestFailed.
    """
    for feature in order.features:
        if not feature.is_canonical:
            text = texts[feature.feature_id]
            given = {"feature_id": feature.feature_id, "text": text, "source_path": feature.source}
            answer = app.gateway.call(app.person, "feature.ingest_spec", given)
            if answer.error is not None:
                raise SpecIngestFailed(str(answer.error["message"]), feature_id=feature.feature_id)


def _data(answer: Envelope) -> Any:
    if answer.error is not None:
        raise InvalidCliArgs(str(answer.error["message"]))
    return answer.data

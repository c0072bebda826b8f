"""`aop evidence`: proves the record, or packs everything on one feature for whoever must judge it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.core.ids import FeatureId
from aop.core.text.json import pretty_json
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("action", choices=("verify", "bundle"), help="prove the record, or pack a feature's evidence")
    parser.add_argument("feature", metavar="FEATURE", nargs="?", help="verify: only this one's proof; bundle: which")
    parser.add_argument("--anchor", metavar="SEQ:HASH", help="verify: the journal's end as it was once")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="bundle: a new folder or FILE.tar.gz (FEATURE-evidence.tar.gz)",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Verify or pack."""
    with open_app(arguments, to_read=True) as app:
        return _verify(app, arguments, terminal) if arguments.action == "verify" else _bundle(app, arguments, terminal)


def _verify(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    wish: dict[str, Json] = {} if arguments.feature is None else {"feature_id": arguments.feature}
    if arguments.anchor is not None:
        wish["anchor"] = _anchor(arguments.anchor)
    return terminal.answer(call_tool(app, "evidence.verify", wish), lambda found: _show_verified(found, terminal))


def _show_verified(found: Mapping[str, Any], terminal: Terminal) -> None:
    terminal.say(
        f"Intact: {found['entries']} journal entries, {found['gate_runs']} gate runs, {found['logs']} logs,"
        f" {found['approvals']} approvals."
    )
    if found["undigested"]:
        terminal.say(f"{found['undigested']} gate runs are from before digests were kept: only their being is proven.")
    terminal.say("The anchor below, kept elsewhere, shows later that nothing was cut off: --anchor SEQ:HASH")
    terminal.text(f"{found['head_seq']}:{found['head_hash']}")


def _anchor(text: str) -> dict[str, Json]:
    match = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", text)
    if match is None:
        raise InvalidCliArgs(f"`{ascii(text[:100])[1:-1]}` is not an anchor.", hint="It reads `SEQ:HASH`.")
    return {"seq": int(match[1]), "hash": match[2]}


def _bundle(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.adapters.files.archives import add_checksums, put_files

    if arguments.feature is None:
        raise InvalidCliArgs("`aop evidence bundle` needs a feature.", hint="`aop status` lists them.")
    files = add_checksums(_bundle_files(app, FeatureId(arguments.feature)))
    name = f"{arguments.feature}-evidence"
    path = arguments.output or Path(f"{name}.tar.gz")
    put_files(path, files, folder=name)
    if terminal.json:
        terminal.object({"ok": True, "data": {"path": str(path), "files": sorted(files)}})
    else:
        terminal.say(f"Packed {len(files)} files.")
        terminal.text(str(path))
    return Exit.OK


def _bundle_files(app: App, feature: FeatureId) -> dict[str, bytes]:
    from aop.cli.shell.feature_review import read_review
    from aop.kernel.gates.evidence_bundle import evidence_files

    review = read_review(app, feature)
    reports = {
        "summary.json": pretty_json(msgspec.to_builtins(review.summary)),
        "verified.json": pretty_json(call_tool(app, "evidence.verify", {"feature_id": feature}).data),
        "review.html": review.page(),
    }
    return evidence_files(app.gateway.kernel, feature, review.bundle.version, reports)

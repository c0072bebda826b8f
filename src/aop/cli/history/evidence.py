"""`aop evidence`: prove the record, or pack the evidence on one feature."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aop.cli.shell.repository import asking, call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.core.ids import FeatureId
from aop.core.text.counts import count
from aop.wiring.build import App

PROVEN = {
    "gate_runs": "gate run",
    "logs": "log",
    "approvals": "approval",
    "documents": "document",
    "operations": "operation",
}
PROVEN_CONTRACTS = {"contracts": ("contract version",), "batches": ("batch", "batches"), "builds": ("pinned build",)}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("verify", "bundle"), help="prove the record, or pack a feature's evidence")
    parser.add_argument("feature", metavar="FEATURE", nargs="?", help="the feature (verify: optional)")
    parser.add_argument("--anchor", metavar="SEQ:HASH", help="verify: an anchor that an earlier verify printed")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="bundle: a new folder, or FILE.tar.gz (default: FEATURE-evidence.tar.gz)",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Verify, or pack."""
    with open_app(arguments, to_read=True) as app:
        return _verify(app, arguments, terminal) if arguments.action == "verify" else _bundle(app, arguments, terminal)


def _verify(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    request: dict[str, Json] = {} if arguments.feature is None else {"feature_id": arguments.feature}
    if arguments.anchor is not None:
        request["anchor"] = _anchor(arguments.anchor)
    return terminal.answer(call_tool(app, "evidence.verify", request), lambda found: _show_verified(found, terminal))


def _show_verified(found: Mapping[str, Any], terminal: Terminal) -> None:
    entries = count(found["entries"], "journal entry", "journal entries")
    others = [count(found[name], noun) for name, noun in PROVEN.items()]
    others += [count(found[name], *noun) for name, noun in PROVEN_CONTRACTS.items() if found[name]]
    terminal.say(f"Intact: {', '.join([entries, *others])}.")
    if found["undigested"]:
        old = count(found["undigested"], "gate run")
        terminal.say(f"{old} from an older AOP, without digests: only their existence is proven.")
    if found["logs_elsewhere"]:
        terminal.say(f"{count(found['logs_elsewhere'], 'log')} on other machines: prove them there.")
    terminal.say("Keep this anchor elsewhere; it proves later that nothing was cut off: --anchor SEQ:HASH")
    terminal.text(f"{found['head_seq']}:{found['head_hash']}")


def _anchor(text: str) -> dict[str, Json]:
    match = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", text)
    if match is None:
        raise InvalidCliArgs(f"`{ascii(text[:100])[1:-1]}` is not an anchor.", hint="It has the form `SEQ:HASH`.")
    return {"seq": int(match[1]), "hash": match[2]}


def _bundle(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.adapters.files.archives import add_checksums, put_files
    from aop.web.pages.feature.feature_review import bundle_files

    if arguments.feature is None:
        raise InvalidCliArgs("`aop evidence bundle` needs a feature.", hint="List the features with `aop status`.")
    files = add_checksums(bundle_files(asking(app), app.gateway.kernel, FeatureId(arguments.feature)))
    name = f"{arguments.feature}-evidence"
    path = arguments.output or Path(f"{name}.tar.gz")
    put_files(path, files, folder=name)
    if not terminal.json:
        terminal.say(f"Packed {count(len(files), 'file')}.")
    return terminal.result({"path": str(path), "files": sorted(files)}, str(path))

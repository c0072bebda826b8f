"""`aop evidence`: proves the record, or packs everything on one feature for whoever must judge it."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.wiring.build import App, Settings, build


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
    app = build(Path(arguments.repo), Settings.from_env(os.environ), to_read=True)
    try:
        return _verify(app, arguments, terminal) if arguments.action == "verify" else _bundle(app, arguments, terminal)
    finally:
        app.close()


def _verify(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    wish: dict[str, Json] = {} if arguments.feature is None else {"feature_id": arguments.feature}
    if arguments.anchor is not None:
        wish["anchor"] = _anchor(arguments.anchor)
    answer = app.gateway.call(app.person, "evidence.verify", wish)
    if answer.error is not None:
        return terminal.refuse(answer.error, answer.evidence)
    if terminal.json:
        terminal.object(answer.as_json())
        return Exit.OK
    found = answer.data
    terminal.say(
        f"Intact: {found['entries']} journal entries, {found['gate_runs']} gate runs, {found['logs']} logs,"
        f" {found['approvals']} approvals."
    )
    if found["undigested"]:
        terminal.say(f"{found['undigested']} gate runs are from before digests were kept: only their being is proven.")
    terminal.say("The anchor below, kept elsewhere, shows later that nothing was cut off: --anchor SEQ:HASH")
    terminal.text(f"{found['head_seq']}:{found['head_hash']}")
    return Exit.OK


def _anchor(text: str) -> dict[str, Json]:
    match = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", text)
    if match is None:
        raise InvalidCliArgs(f"`{ascii(text[:100])[1:-1]}` is not an anchor.", hint="It reads `SEQ:HASH`.")
    return {"seq": int(match[1]), "hash": match[2]}


def _bundle(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.adapters.files.archives import put_files
    from aop.cli.history.evidence_bundle import bundle_of

    if arguments.feature is None:
        raise InvalidCliArgs("`aop evidence bundle` needs a feature.", hint="`aop status` lists them.")
    files = bundle_of(app, arguments.feature)
    if not isinstance(files, dict):
        return terminal.refuse(files.error or {}, files.evidence)
    name = f"{arguments.feature}-evidence"
    path = arguments.output or Path(f"{name}.tar.gz")
    put_files(path, files, folder=name)
    if terminal.json:
        terminal.object({"ok": True, "data": {"path": str(path), "files": sorted(files)}})
    else:
        terminal.say(f"Packed {len(files)} files.")
        terminal.text(str(path))
    return Exit.OK

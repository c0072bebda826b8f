"""`aop review`: what a person needs to judge a feature, as text or as one page."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from aop.adapters.files.user_files import put_file
from aop.adapters.machine.pager import page
from aop.cli.decide.review_text import review_text
from aop.cli.screens.styles import add_colour_argument, painter_for
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import asking, open_app
from aop.cli.shell.terminal import Terminal
from aop.web.pages.feature.feature_review import read_review


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained HTML page instead")
    parser.add_argument("--force", action="store_true", help="let --html replace an existing file")
    parser.add_argument("--no-pager", action="store_true", help="print directly, also to a terminal")
    add_colour_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show the feature; change nothing."""
    with open_app(arguments, to_read=True) as app:
        review = read_review(asking(app), arguments.feature)
    if arguments.html is not None:
        put_file(arguments.html, review.page(), replace=arguments.force)
    if terminal.json or arguments.html is not None:
        return terminal.result(msgspec.to_builtins(review), str(arguments.html))
    paint = painter_for(arguments.color, os.environ, is_screen=terminal.is_screen)
    _show(review_text(review.summary, review.bundle, paint), arguments, terminal)
    return Exit.OK


def _show(text: str, arguments: argparse.Namespace, terminal: Terminal) -> None:
    if arguments.no_pager or not sys.stdout.isatty() or not page(text, os.environ):
        encoding = sys.stdout.encoding
        terminal.text(text.rstrip("\n").encode(encoding, "backslashreplace").decode(encoding))

"""`aop redact`: prints a text as AOP would show it, without its secrets; or where they are, and never what they are."""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.redaction.redactor import Redactor
from aop.core.redaction.stream import SecretPlace, masked_parts
from aop.wiring.build import Settings

PIECE_BYTES = 256 * 1024


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the text; `-`, or nothing, reads stdin")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Mask, or list, what the rules find; the values of this environment's secrets are found too."""
    redactor = Redactor(Settings.from_env(os.environ).secrets)
    places: list[SecretPlace] = []
    with _opened(arguments.file) as source:
        for part in masked_parts(_pieces(source), redactor.find):
            places += part.places
            if not terminal.json:
                # What is no UTF-8 comes out as the bytes that went in.
                sys.stdout.buffer.write(part.text.encode("utf-8", "surrogateescape"))
    if terminal.json:
        terminal.object({"ok": True, "findings": msgspec.to_builtins(places)})
        return Exit.OK
    sys.stdout.buffer.flush()
    terminal.say(_summary(places))
    return Exit.OK


def _summary(places: list[SecretPlace]) -> str:
    counts = sorted(Counter(place.rule for place in places).items())
    return f"Masked: {', '.join(f'{rule} {count}' for rule, count in counts) or 'nothing'}."


def _opened(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise InvalidCliArgs(f"`{path}` cannot be read: {error.strerror}.") from error


def _pieces(source: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while data := source.read(PIECE_BYTES):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)

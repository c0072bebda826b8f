"""`aop redact`: print a text without its secrets, or list where they are."""

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
from aop.core.redaction.stream import SecretPlace, mask_parts
from aop.wiring.build import Settings

CHUNK_BYTES = 256 * 1024


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the text (default: `-`, standard input)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Mask or list what the rules find, and the values of this environment's secrets."""
    redactor = Redactor(Settings.from_env(os.environ).secrets)
    places: list[SecretPlace] = []
    with _open_input(arguments.file) as source:
        for part in mask_parts(_chunks(source), redactor.find):
            places += part.places
            if not terminal.json:
                # Bytes that are not UTF-8 are printed unchanged.
                sys.stdout.buffer.write(part.text.encode("utf-8", "surrogateescape"))
    if terminal.json:
        return terminal.result({"findings": msgspec.to_builtins(places)}, "")
    sys.stdout.buffer.flush()
    terminal.say(_summary(places))
    return Exit.OK


def _summary(places: list[SecretPlace]) -> str:
    counts = sorted(Counter(place.rule for place in places).items())
    return f"Masked: {', '.join(f'{rule} {number}' for rule, number in counts) or 'nothing'}."


def _open_input(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise InvalidCliArgs(f"`{path}` cannot be read: {error.strerror}.") from error


def _chunks(source: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while data := source.read(CHUNK_BYTES):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)

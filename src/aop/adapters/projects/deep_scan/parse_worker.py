"""Parse worker: a process for grammars, which may fail without the scan.

A grammar is a program in C, and some inputs make one run for hours or end the process. The worker reads `language size`
and the bytes from standard input, and answers `size` and the facts, one file after the other.
"""

from __future__ import annotations

import resource
import sys
from typing import cast

import msgspec

from aop.adapters.projects.deep_scan.source_reader import read_source
from aop.forge.scan.file_facts import Language

MEMORY = 1 << 30


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    encoder = msgspec.msgpack.Encoder()
    while line := questions.readline():
        language, _, size = line.decode("ascii").rstrip("\n").partition(" ")
        facts = encoder.encode(read_source(cast("Language", language), questions.read(int(size))))
        answers.write(b"%d\n%b" % (len(facts), facts))
        answers.flush()


if __name__ == "__main__":
    main()

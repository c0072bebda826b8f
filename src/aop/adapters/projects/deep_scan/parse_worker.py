"""Parse worker: a process for grammars, which may fail without the scan.

A grammar is a program in C, and some inputs make one run for hours or end the process. The worker reads a line with
`language:size` of each file of a batch, then all their bytes, and answers with the size of the facts and the facts, one
file after the other: the file that it fails on is the first without an answer.
"""

from __future__ import annotations

import gc
import resource
import sys
from typing import cast

import msgspec

from aop.adapters.projects.deep_scan.source_reader import read_source
from aop.forge.scan.file_facts import Language

MEMORY = 1 << 30


def main() -> None:
    """Say by an empty line that all is loaded; then answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # What a file leaves behind is small, and without cycles.
    gc.disable()
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    encoder = msgspec.msgpack.Encoder()
    answers.write(b"\n")
    answers.flush()
    while line := questions.readline():
        heads = [head.partition(":") for head in line.decode("ascii").split()]
        # All of them first: the sender reads no answer before it has sent all.
        contents = [questions.read(int(size)) for _, _, size in heads]
        for (language, _, _), content in zip(heads, contents, strict=True):
            facts = encoder.encode(read_source(cast("Language", language), content))
            answers.write(b"%d\n%b" % (len(facts), facts))
            answers.flush()


if __name__ == "__main__":
    main()

"""Tokens are counted offline, by the vocabulary that comes with the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aop.adapters.models.tokenizer import O200kTokenizer
from tests.world import World

TEXTS = {
    "nothing": ("", 0),
    "a sentence": ("Agents pull the part of a contract that they need.", 11),
    "a spelt control token is text": ("<|endoftext|>", 7),
    "half a surrogate pair": ("a\ud83d", 2),
    "other scripts": ("Привет, 世界 👋", 6),
}


@pytest.mark.parametrize(("text", "tokens"), TEXTS.values(), ids=TEXTS)
def test_tokens_are_counted_with_o200k(text: str, tokens: int) -> None:
    tokenizer = O200kTokenizer()
    assert (tokenizer.name, tokenizer.count(text)) == ("o200k", tokens)


def test_a_text_has_at_most_as_many_tokens_as_bytes() -> None:
    text = bytes(range(32, 127)).decode() * 20 + "\u0000\u200b\U0001f469\u200d\U0001f52c" * 50
    assert O200kTokenizer().count(text) <= len(text.encode())


def test_the_kernel_counts_tokens(world: World) -> None:
    tokenizer = world.app.gateway.kernel.tokenizer
    assert tokenizer is not None
    assert (tokenizer.name, tokenizer.count("one two three")) == ("o200k", 3)


def test_an_installation_without_the_extra_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['splintr'] = None\n"
        "from aop.core.errors import Refusal\n"
        "from aop.wiring.late_parts import late_tokenizer\n"
        "tokenizer = late_tokenizer()\n"
        "try: tokenizer.count('text')\n"
        "except Refusal as refusal: print(refusal.code, refusal.message, refusal.hint, sep='\\n')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout.splitlines() == [
        "forge_support_missing",
        "This installation of AOP cannot count tokens.",
        "Install AOP with its extra `forge`: `pip install 'aop[forge]'`.",
    ]

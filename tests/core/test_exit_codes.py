"""Exit codes in words."""

from __future__ import annotations

import pytest

from aop.core.exit_codes import exit_words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "exit code None"),
        (0, "exit code 0"),
        (1, "exit code 1"),
        (128, "exit code 128"),
        (137, "exit code 137 (SIGKILL)"),
        (139, "exit code 139 (SIGSEGV)"),
        (-15, "exit code -15 (SIGTERM)"),
        (161, "exit code 161 (signal 33)"),
        (255, "exit code 255"),
    ],
)
def test_a_signal_is_called_by_its_name(code: int | None, words: str) -> None:
    assert exit_words(code) == words

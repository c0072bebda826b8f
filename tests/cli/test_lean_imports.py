"""A stand-in for a module, while a command starts, does what the module does."""

from __future__ import annotations

import gettext
import platform
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote_from_bytes

from hypothesis import given
from hypothesis import strategies as st

from aop.cli.shell.lean_imports import _deferred, _singular_or_plural, _system, _untranslated

HELP = "import argparse, pathlib, uuid, msgspec; from aop.cli import main; print(main.main(['--help']))"


@given(text=st.text(), other=st.text(), count=st.integers(), content=st.binary())
def test_a_stand_in_answers_as_the_module_does(text: str, other: str, count: int, content: bytes) -> None:
    assert _untranslated(text) == gettext.NullTranslations().gettext(text)
    assert _singular_or_plural(text, other, count) == gettext.NullTranslations().ngettext(text, other, count)
    assert _deferred("urllib.parse", "quote_from_bytes")(content) == quote_from_bytes(content)
    assert _system() == platform.system()


def test_help_is_the_same_with_and_without_lean_imports(tmp_path: Path) -> None:
    plain, lean = (
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True, timeout=300).stdout
        for code in (HELP, HELP.partition("; ")[2])
    )
    assert plain == lean
    assert b"usage" in lean

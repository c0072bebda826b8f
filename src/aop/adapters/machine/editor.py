"""Editor: a person writes a text in the program of their choice."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from aop.core.errors import InvalidCliArgs

DEFAULT_EDITOR = "vi"


def written_text(name: str, draft: str, environ: Mapping[str, str]) -> str:
    """Return a text as a person leaves it in `$VISUAL` or `$EDITOR`. Raises: InvalidCliArgs."""
    words = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or DEFAULT_EDITOR)
    with tempfile.TemporaryDirectory(prefix="aop-") as folder:
        file = Path(folder, name)
        file.write_text(draft, encoding="utf-8")
        try:
            ended = subprocess.run([*words, str(file)], env=dict(environ), check=False).returncode
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidCliArgs(
                f"The editor `{' '.join(words)}` cannot be used: {error.strerror}.",
                hint="Name one in `EDITOR`, or pass the text as an argument.",
            ) from error
        except UnicodeDecodeError as error:
            raise InvalidCliArgs("The text is not UTF-8.") from error
    if ended:
        raise InvalidCliArgs(f"The editor `{words[0]}` failed with code {ended}; nothing was written.")
    return text


def kept_text(name: str, text: str) -> Path:
    """Keep a person's text in a private folder for temporary files, so that a refusal does not lose it."""
    path = Path(tempfile.mkdtemp(prefix="aop-kept-"), name)
    path.write_text(text, encoding="utf-8")
    return path

"""Authors and dates of commits, as git writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from aop.adapters.git.process.output import split_names
from aop.adapters.git.process.program import GitDir
from aop.core.errors import Fault
from aop.kernel.ports.git import Author

# Git itself strips these from a name.
_NOT_IN_A_NAME = dict.fromkeys(map(ord, "<>\n\0"))


def configured_author(git: GitDir) -> Author | None:
    """Return `user.name` and `user.email` of the repository's own config, or None."""
    out = git.run("config", "--local", "-z", "--get-regexp", r"^user\.(name|email)$", fine=(0, 1)).out
    values = dict(line.partition("\n")[::2] for line in split_names(out))
    name, email = (values.get(key, "").translate(_NOT_IN_A_NAME).strip() for key in ("user.name", "user.email"))
    return Author(name=name, email=email) if name and email else None


def git_date(when: datetime) -> str:
    """Return a time in the form that git reads."""
    if when.tzinfo is None:
        raise Fault("A commit needs a time with its zone.")
    return f"@{int(when.astimezone(UTC).timestamp())} +0000"

"""`aop forge key` as real processes: a key is shown once, listed by its prefix, and revoked."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from aop.core.errors import ForgeKeyInvalid
from aop.core.redaction.redactor import Redactor
from aop.forge.projects.documents import ForgeKey
from aop.forge.projects.keys import the_key
from tests.world import Ran, World, make_repository, run_aop


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def keys(root: Path, *words: str, stdin: str = "") -> Ran:
    return run_aop(root, "forge", "key", *words, stdin=stdin)


def stored_key(root: Path, prefix: str) -> ForgeKey:
    world = World(root)
    with world.app.record.read() as view:
        found = view.get(ForgeKey, prefix)
    world.close()
    assert found is not None
    return found


def is_valid(root: Path, text: str) -> bool:
    world = World(root)
    try:
        with world.app.record.read() as view:
            return the_key(view, text).prefix == text[:12]
    except ForgeKeyInvalid:
        return False
    finally:
        world.close()


def test_a_key_is_shown_once_and_only_its_digest_is_kept(repository: Path) -> None:
    made = keys(repository, "new", "--label", "build server", "--scope", "read", "--scope", "keys")
    text = made.out.strip()
    prefix = text[:12]
    assert (made.code, len(text), text[:3]) == (0, 46, "fg_")
    assert made.err == f"Store it now: it is not shown again. Revoke it with: aop forge key revoke {prefix}\n"
    key = stored_key(repository, prefix)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert (key.sha256, key.owner, key.label, key.scopes) == (digest, "local", "build server", ("read", "keys"))
    kept = b"".join(path.read_bytes() for path in repository.rglob("*") if path.is_file())
    assert text.encode() not in kept
    assert text[12:].encode() not in kept
    listed = keys(repository, "list")
    assert listed.out.splitlines()[1].split() == [prefix, "read,keys", "never", "valid", "build", "server"]
    assert text not in listed.out


def test_a_valid_key_is_found_by_its_whole_text_only(repository: Path) -> None:
    text = keys(repository, "new").out.strip()
    assert is_valid(repository, text)
    for other in (text[:12], text[:-1], text + "x", text[:-1] + "\N{SNOWMAN}", "", "fg_", text.swapcase()):
        assert not is_valid(repository, other)


def test_a_revoked_key_opens_nothing_and_stays_listed(repository: Path) -> None:
    text = keys(repository, "new").out.strip()
    assert keys(repository, "revoke", text[:12]) == Ran(0, "", f"Revoked the key `{text[:12]}`.\n")
    assert not is_valid(repository, text)
    (row,) = keys(repository, "list", "--json").json["data"]["keys"]
    assert (row["prefix"], bool(row["revoked_at"])) == (text[:12], True)
    again = keys(repository, "revoke", "-", "--json", stdin=f"{text}\n")
    assert (again.code, again.json["data"]) == (0, row)
    assert text not in again.out


def test_every_key_is_another_one(repository: Path) -> None:
    first, second = (keys(repository, "new", "--json").json["data"]["key"] for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("revoke", "fg_000000000"), "unknown_key"),
        (("revoke", "\n"), "unknown_key"),
        (("revoke",), "invalid_cli_args"),
        (("new", "--label", "x" * 101), "invalid_arguments"),
    ],
    ids=["unknown", "a line end", "none", "long label"],
)
def test_what_is_no_key_is_refused(repository: Path, words: tuple[str, ...], code: str) -> None:
    assert keys(repository, *words, "--json").json["error"]["code"] == code


def test_no_keys_are_called_so(repository: Path) -> None:
    assert keys(repository, "list") == Ran(0, "", "No keys yet. Make one with: aop forge key new\n")


def test_a_foreign_key_is_neither_listed_nor_revoked(repository: Path) -> None:
    prefix = keys(repository, "new").out[:12]
    world = World(repository)
    eve = msgspec.structs.replace(world.app.person, user="eve")
    assert world.app.gateway.call(eve, "forge.key_list", {}).data == {"keys": []}
    error = world.app.gateway.call(eve, "forge.key_revoke", {"prefix": prefix}).error
    world.close()
    assert error is not None
    assert error["code"] == "unknown_key"


def test_a_key_is_a_secret_in_every_text(repository: Path) -> None:
    text = keys(repository, "new").out.strip()
    assert Redactor()(f"The key is {text}.") == "The key is [redacted:forge-key]."


def test_a_missing_word_after_key_is_named(repository: Path) -> None:
    ran = run_aop(repository, "forge", "key")
    assert (ran.code, ran.err.splitlines()[-1]) == (
        2,
        "aop forge: error: the following arguments are required: new|list|revoke",
    )

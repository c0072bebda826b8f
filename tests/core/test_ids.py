"""Ids: the texts that may be one."""

from __future__ import annotations

import pytest

from aop.core.digests import sha256, sha256_hex
from aop.core.errors import InvalidArguments, InvalidFeatureSlug
from aop.core.ids import feature_id, is_feature_id, is_operation_id, operation_id


@pytest.mark.parametrize("text", ["greeting", "a", "_a-1", "0", "x" * 63])
def test_a_plain_name_is_a_feature_id(text: str) -> None:
    assert (feature_id(text), is_feature_id(text)) == (text, True)


@pytest.mark.parametrize("text", ["", "A", "a b", "-a", "a/b", "..", "x" * 64, "é", "a\n"])
def test_any_other_text_is_refused_with_the_form_of_an_id(text: str) -> None:
    with pytest.raises(InvalidFeatureSlug, match="it must match"):
        feature_id(text)


@pytest.mark.parametrize("text", ["main", "master", "head", "fetch_head", "con", "lpt9"])
def test_a_name_with_a_meaning_for_git_or_a_file_system_is_refused(text: str) -> None:
    with pytest.raises(InvalidFeatureSlug, match="another meaning"):
        feature_id(text)


def test_an_operation_id_has_its_own_form() -> None:
    assert (operation_id("run-1:a.b_C"), is_operation_id("run-1")) == ("run-1:a.b_C", True)
    with pytest.raises(InvalidArguments, match="An operation id must match"):
        operation_id("-x")


def test_the_digest_of_nothing_is_the_known_one() -> None:
    known = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert (sha256_hex(b""), sha256(b"")) == (known, bytes.fromhex(known))

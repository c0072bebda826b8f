"""`aop ticket new` in a real process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.tickets.test_ticket import Place
from tests.tickets.local_worlds import KEY
from tests.tickets.mission.test_blocks import BLOCK, fenced


def test_a_text_becomes_a_ticket_that_can_be_scaffolded(tmp_path: Path) -> None:
    place = Place(tmp_path)
    text = tmp_path / "ticket.md"
    text.write_text(f"# Orders, again\n\nPlease.\n\n{fenced(BLOCK)}\n")
    made = place.aop("new", "SHOP-13", "--file", str(text), "--json")
    assert (made.code, made.json["data"]) == (0, {"key": "SHOP-13", "summary": "Orders, again", "status": "To Do"})
    told = place.aop("scaffold", "SHOP-13", "--dry-run", "--json")
    # It is another question than the one that was recorded, so the work goes exactly as far as the model.
    assert [write["operation"] for write in told.json["evidence"]["writes"]] == [
        "add_comment", "add_comment", "update_status",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        ((KEY, "--file", "ticket.md"), "remote_rejected", 1),
        (("SHOP-14", "--file", "absent.md"), "input_path_not_found", 2),
        (("SHOP-14",), "invalid_cli_args", 2),
        (("shop/14", "--file", "ticket.md"), "ticket_key_invalid", 2),
        ((), "ticket_key_invalid", 2),
        (("SHOP-14", "--file", "empty.md"), "invalid_cli_args", 2),
    ],
)
def test_what_cannot_become_a_ticket_is_refused(
    words: tuple[str, ...], code: str, exit_code: int, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    (place.repo / "ticket.md").write_text("Orders\n\nPlease.\n")
    (place.repo / "empty.md").write_text("\n")
    ran = place.aop("new", *words, "--json")
    assert (ran.json["error"]["code"], ran.code) == (code, exit_code)


def test_without_a_folder_for_local_there_is_no_place_for_it(tmp_path: Path) -> None:
    ran = Place(tmp_path).aop("new", "SHOP-14", "--file", "-", "--json", AOP_LOCAL_FOLDER="")
    assert (ran.code, ran.json["error"]["code"]) == (2, "ticket_setting_missing")

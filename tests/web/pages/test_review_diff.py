"""The diff of the review: layouts, colours, changed words, and lines around a change."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.mcpserver.clients import served
from tests.web.pages.page_visits import Browser, Drawn, visit
from tests.world import FILES, World, files, make_repository, run_aop

OLD = "".join(f"line {number}\n" for number in range(1, 101))
NEW = OLD.replace("line 50\n", 'line "fifty" # said\n').replace("line 90\n", "")
CODE = 'def begin(names):\n    return len("names")  # the first\n'
WIDE = f"{'7' * (1 << 21)}\nbegin\nend\n"
NEAR = "--- a/src/one.json\n+++ b/src/one.json\n@@ -2,2 +2,2 @@\n begin\n-end\n+END\n"
"""A change two lines below a line of two megabytes, which git shows around it."""
NEW_CODE = "def begin(names):\n    return len(names) + 12  # the fir\u200bst \u0430nd last <b>\n"


def patch_of(changes: Mapping[str, tuple[str, str]]) -> str:
    """Return a patch from old to new texts, by path; an empty old text is a new file."""
    return "".join(
        line
        for path, (old, new) in changes.items()
        for line in difflib.unified_diff(
            old.splitlines(keepends=True),
            new.splitlines(keepends=True),
            f"a/{path}" if old else "/dev/null",
            f"b/{path}" if new else "/dev/null",
        )
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("diff") / "repo"
    made = World(make_repository(root, {**FILES, "src/long.txt": OLD, "src/code.py": CODE, "src/one.json": WIDE}))
    changes = {
        "src/long.txt": (OLD, NEW),
        "src/code.py": (CODE, NEW_CODE),
        "src/many.txt": ("", "".join(f"row {number}\n" for number in range(5000))),
        "src/wide.js": ("", f"let x = '{'x' * 5000}';\n"),
    }
    made.plan(
        "one",
        files=files(create=("src/many.txt", "src/wide.js"), modify=("src/long.txt", "src/code.py", "src/one.json")),
    )
    made.patch("one", patch_of(changes) + NEAR)
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[Browser]:
    with served(world.root) as server, visit(world.root, server) as inside:
        yield inside


def part(page: Drawn, path: str) -> str:
    """Return the HTML of one file of a review."""
    found = re.search(rf'<details[^>]*data-path="{re.escape(path)}".*?</details>', page.html, re.DOTALL)
    assert found, page.text
    return found[0]


def test_code_has_colours_and_changed_words_and_hides_nothing(browser: Browser) -> None:
    html = part(browser.get("/features/one"), "src/code.py")
    assert '<i class="k">def</i> begin' in html
    assert '<mark><i class="s">&#34;</i></mark>' in html
    assert '<mark><i class="d">12</i></mark>' in html
    # Characters that hide or imitate stand out inside of a comment as well, and HTML stays text.
    assert '<b class="esc">\\u{200b}</b>' in html
    assert '<b class="esc">\\u{430}</b>' in html
    assert "\u200b" not in html
    assert "&lt;b&gt;" in html


def test_lines_stand_side_by_side_and_each_row_names_its_place(browser: Browser) -> None:
    inline = part(browser.get("/features/one"), "src/code.py")
    anchor = re.search(r'id="file-([0-9a-f]{8})"', inline)
    assert anchor
    assert f'id="{anchor[1]}-o2"' in inline
    assert f'id="{anchor[1]}-n2"' in inline
    split = part(browser.get("/features/one?diff=split"), "src/code.py")
    assert split.count("<tr") == 2
    assert re.search(rf'<tr id="{anchor[1]}-n2">.*?class="t d".*?class="t a"', split)


def read(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_lines_around_a_change_come_from_the_tree(browser: Browser) -> None:
    first = part(browser.get("/features/one"), "src/long.txt")
    assert "line 40\n" not in first
    links = [link.replace("&amp;", "&") for link in re.findall(r'data-soft href="([^"]*)"', first)]
    more = part(browser.get(links[0]), "src/long.txt")
    assert ">line 30<" in more
    assert ">line 26<" not in more
    whole = part(browser.get(links[1]), "src/long.txt")
    assert ">line 1<" in whole
    assert "46 46 line 46" in read(whole)
    # After a line that is gone, the old and the new numbers differ.
    end = part(browser.get(links[-1]), "src/long.txt")
    assert "100 99 line 100" in read(end)
    assert "to the end of the file" not in end


@pytest.mark.parametrize("wish", ["context=x", "context=-:src/long.txt", "show=9:", "show=-1:a", "context=1-20:../x"])
def test_an_address_that_makes_no_sense_shows_the_plain_review(browser: Browser, wish: str) -> None:
    assert browser.get(f"/features/one?{wish}").text.count("line 47") == 1


def test_a_long_file_is_shown_in_parts_and_a_long_line_cut(browser: Browser) -> None:
    page = browser.get("/features/one")
    many = part(page, "src/many.txt")
    assert many.count("<tr") == 400
    more = re.search(r'href="([^"]*)">Show 1000 more rows', many)
    assert more
    assert part(browser.get(more[1].replace("&amp;", "&")), "src/many.txt").count("<tr") == 1400
    wide = part(page, "src/wide.js")
    assert "more characters" in wide
    assert len(wide) < 6000
    assert '<i class="k">' not in wide


def test_of_a_line_of_two_megabytes_the_beginning_is_shown_with_its_length_and_the_command(
    world: World, browser: Browser
) -> None:
    page = browser.get("/features/one")
    shown = part(page, "src/one.json")
    assert "7" * 2000 in shown
    assert "more characters" in shown
    assert "END" in re.sub(r"<[^>]*>", " ", shown).split()
    assert "A line of 2,097,153 characters is cut" in page.text
    assert "aop call repo.diff" in page.text
    assert "A line of src/one.json has 2,097,153 characters; its first 20,000 are shown." in page.text
    (file,) = [
        each for each in world.ok("repo.diff_bundle", feature_id="one")["files"] if each["path"] == "src/one.json"
    ]
    assert (file["left_out_lines"], [each["length"] for each in file["cut_lines"]]) == (0, [2097153])
    ran = run_aop(world.root, "review", "one", "--no-pager")
    assert "[a line of 2,097,153 characters is cut: aop call repo.diff" in ran.out


def test_a_part_that_the_page_still_has_is_not_sent_again(browser: Browser) -> None:
    page = browser.get("/features/one")
    digest = re.search(r'data-keep="([0-9a-f]{12})"', part(page, "src/code.py"))
    assert digest
    again = part(browser.get("/features/one", aop_part="main", aop_have=digest[1]), "src/code.py")
    assert f'data-keep="{digest[1]}"></div>' in again
    assert "data-keep" in part(browser.get("/features/one", aop_part="main"), "src/code.py")
    assert "<tr" in part(browser.get("/features/one", aop_have="ffffffffffff"), "src/code.py")

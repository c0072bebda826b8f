"""The list of pages: every page of the menu can be reached, and no key leads to two."""

from __future__ import annotations

from collections import Counter

from aop.web.pages.page_list import GROUPS, MENU, PAGES


def test_each_page_of_the_menu_is_in_one_group_and_no_letter_is_used_twice() -> None:
    listed = [page for _, _, pages in MENU for page in pages]
    assert sorted(page.path for page in listed) == sorted(page.path for page in PAGES if page.menu)
    assert {page.group for page in listed} <= set(GROUPS)
    letters = Counter(page.key for page in listed if page.key)
    assert [letter for letter, times in letters.items() if times > 1 or not letter.islower()] == []

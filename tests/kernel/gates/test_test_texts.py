"""Texts and names of tests, in the languages and reports that gates meet."""

from __future__ import annotations

import pytest

from aop.kernel.gates.base.test_texts import text_of_test
from aop.kernel.gates.reports.named_tests import lies_in, names_test

PYTHON = """\
class TestCart:
    @pytest.mark.slow
    def test_one(self):
        assert total([1]) == 1

    def test_two(self): pass
"""
JAVASCRIPT = """\
describe('cart', () => {
  it('adds up', () => {
    expect(total([1])).toBe(1)
  })
  it('is empty', () => {})
})
"""
RUST = """\
#[test]
fn adds_up() {
    assert_eq!(total(&[1]), 1);
}
"""
JAVA = """\
class CartTest {
    @Test
    void addsUp() {
        assertEquals(1, total(1));
    }
}
"""
GO = "func TestTotal(t *testing.T) {\n\tif Total() != 0 {\n\t\tt.Fail()\n\t}\n}\n"


@pytest.mark.parametrize(
    ("source", "test", "first", "lines"),
    [
        (PYTHON, "tests.test_cart.TestCart.test_one[a.b]", "    @pytest.mark.slow", 3),
        (PYTHON, "tests.test_cart.TestCart.test_two", "    def test_two(self): pass", 1),
        (JAVASCRIPT, "test/cart.test.ts.cart > adds up", "  it('adds up', () => {", 3),
        (JAVASCRIPT, "test.is empty", "  it('is empty', () => {})", 1),
        (RUST, "cart::cart.adds_up", "#[test]", 4),
        (JAVA, "org.cart.CartTest.addsUp", "    @Test", 4),
        (GO, "example.org/cart.TestTotal", "func TestTotal(t *testing.T) {", 5),
    ],
)
def test_a_test_is_cut_out_of_its_file(source: str, test: str, first: str, lines: int) -> None:
    text = text_of_test(source, test).split("\n")
    assert (text[0], len(text)) == (first, lines)


def test_a_test_that_is_not_in_the_file_has_no_text() -> None:
    assert text_of_test(PYTHON, "tests.test_cart.test_three") == ""


@pytest.mark.parametrize(
    ("test", "path", "expected"),
    [
        ("tests.test_cart.test_one", "tests/test_cart.py", True),
        ("test_cart.test_one", "backend/tests/test_cart.py", True),
        ("tests.test_cart.test_one", "tests/test_car.py", False),
        ("tests.test_cart.test_one", "tests/checks.py", False),
        ("test/cart.test.ts.cart > adds up", "test/cart.test.ts", True),
        ("org.cart.CartTest.addsUp", "src/test/java/org/cart/CartTest.java", True),
        ("org.cart.CartTest.addsUp", "src/test/java/org/cart/OtherTest.java", False),
        ("cart::integration.adds_up", "tests/integration.rs", True),
        ("example.org/shop/cart.TestTotal", "cart/cart_test.go", True),
        ("example.org/shop/cart.TestTotal", "price/price_test.go", False),
        ("example.org/shop.TestTotal/no_price", "shop_test.go", True),
        ("tests.test_cart.TestCart.test_one", "shop_test.go", False),
        ("test.adds up", "test/cart.test.js", False),
    ],
)
def test_a_test_lies_in_the_file_that_its_name_leads_to(test: str, path: str, *, expected: bool) -> None:
    assert lies_in(test, path) is expected


@pytest.mark.parametrize(
    ("named", "test", "expected"),
    [
        ("tests/test_cart.py::test_one", "tests.test_cart.test_one", True),
        ("tests/test_cart.py::test_one", "tests.test_cart.test_one[2-3]", True),
        ("tests/test_cart.py::test_one", "tests.test_cart.test_one_more", False),
        ("tests/test_cart.py::test_one", "tests.test_count.test_one", False),
        ("tests/test_cart.py", "tests.test_cart.test_one", True),
        ("tests/test_cart.py::TestCart", "tests.test_cart.TestCart.test_one", True),
        ("tests", "tests.test_cart.test_one", False),
        ("test", "test.adds up", False),
        ("adds up", "test.adds up", True),
        ("test/cart.test.ts::cart > adds up", "test/cart.test.ts.cart > adds up", True),
        ("src/test/java/org/cart/CartTest.java", "org.cart.CartTest.addsUp", True),
        ("cart/cart_test.go::TestTotal", "example.org/shop/cart.TestTotal", True),
        ("TestTotal", "example.org/shop/cart.TestTotal", True),
        ("any_test.go", "tests.test_cart.test_one", False),
    ],
)
def test_a_plan_names_a_test_a_class_or_a_file_and_nothing_larger(named: str, test: str, *, expected: bool) -> None:
    assert names_test(named, test) is expected

"""Test sources: whether a changed test file still has every test that it had."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TypeGuard

from aop.kernel.gates.base.python_sources import parse_python

NAMED_TESTS = frozenset(
    {".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".go", ".rs", ".java", ".kt", ".cs", ".rb", ".php"}
)
"""The endings of files whose tests have names, so that a test after the last one changes none before it."""
_SWITCHES_OFF = re.compile(rb"skip|xfail|disabled|\bonly\b|__test__", re.IGNORECASE)
_STEERS = re.compile(
    r"(?:pytest_\w+|pytestmark|__\w+__|load_tests|set_?up\w*|tear_?down\w*|collect_ignore\w*)\Z", re.IGNORECASE
)
_WORDS = re.compile(r"skip|xfail|autouse|exit", re.IGNORECASE)


def change_problem(path: str, old: bytes, new: bytes) -> str:
    """Return why a new version of a test file does more than add tests; empty if it only adds."""
    ending = PurePosixPath(path).suffix
    if ending == ".py":
        return _python_problem(old, new)
    if ending not in NAMED_TESTS:
        return "it is no file to which tests can be added"
    if not new.startswith(old) or (old and not old.endswith(b"\n")):
        return "tests can be added only after its end"
    return "an added line switches tests off" if _SWITCHES_OFF.search(new[len(old) :]) else ""


def _python_problem(old: bytes, new: bytes) -> str:
    try:
        before, after = parse_python(old), parse_python(new)
        return _addition_problem(before.body, after.body, _used_names(before), "")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"it cannot be read as Python: {str(error) or type(error).__name__}"


def _addition_problem(before: Sequence[ast.stmt], after: Sequence[ast.stmt], used: frozenset[str], owner: str) -> str:
    """Return why the statements after are not those before with new ones between them."""
    names = used | {name for statement in before for name in _bound(statement)}
    left = list(before)
    for statement in after:
        if left and _is_kept(left[0], statement, names):
            left.pop(0)
        elif left and _is_grown_class(statement, left[0]):
            problem = _addition_problem(_body(left.pop(0)), statement.body, used, statement.name)
            if problem:
                return problem
        elif left and _bound(statement) and _bound(statement) == _bound(left[0]):
            return f"`{_name_of(statement)}` is changed"
        else:
            problem = _new_statement_problem(statement, names, is_method=bool(owner))
            if problem:
                return problem
            names |= set(_bound(statement))
    return f"`{_name_of(left[0])}` is changed, moved or gone" if left else ""


def _is_kept(old: ast.stmt, new: ast.stmt, names: frozenset[str]) -> bool:
    """Tell whether a statement is the same, or an import of the same names and new ones."""
    if ast.dump(old) == ast.dump(new):
        return True
    if not isinstance(old, ast.ImportFrom) or not isinstance(new, ast.ImportFrom):
        return False
    kept, grown = ({(each.name, each.asname) for each in line.names} for line in (old, new))
    added = {asname or name for name, asname in grown - kept}
    return (old.module, old.level) == (new.module, new.level) and kept <= grown and not added & (names | {"*"})


def _is_grown_class(new: ast.stmt, old: ast.stmt) -> TypeGuard[ast.ClassDef]:
    if not isinstance(old, ast.ClassDef) or not isinstance(new, ast.ClassDef):
        return False
    return (old.name, _head(old)) == (new.name, _head(new))


def _head(statement: ast.ClassDef) -> list[str]:
    return [ast.dump(part) for part in (*statement.bases, *statement.keywords, *statement.decorator_list)]


def _new_statement_problem(statement: ast.stmt, names: frozenset[str], *, is_method: bool = False) -> str:
    """Return why a new statement may change what the tests before it do."""
    bound = _bound(statement)
    twice = [name for name in bound if name in names]
    if twice:
        return f"`{twice[0]}` is defined again, or in the place of what a test uses"
    steering = [name for name in bound if _STEERS.match(name) or (is_method and not name.startswith("test"))]
    if steering:
        return f"`{steering[0]}` may steer other tests"
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return _unneeded(statement) if any(each.name == "*" for each in statement.names) else ""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return _decorator_problem(statement)
    if isinstance(statement, ast.ClassDef):
        inside = (_new_statement_problem(each, frozenset()) for each in statement.body if not _is_docstring(each))
        return _decorator_problem(statement) or next(filter(None, inside), "")
    is_constant = isinstance(statement, ast.Assign | ast.AnnAssign) and _is_literal(statement.value)
    return "" if is_constant else _unneeded(statement)


def _decorator_problem(statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    words = " ".join(ast.unparse(part) for part in statement.decorator_list)
    return f"`{statement.name}` is switched off, or steers other tests" if _WORDS.search(words) else ""


def _unneeded(statement: ast.stmt) -> str:
    return f"line {statement.lineno} is neither a test nor a constant"


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _is_literal(value: ast.expr | None) -> bool:
    if value is None:
        return False
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError):
        return False
    return True


def _bound(statement: ast.stmt) -> tuple[str, ...]:
    """Return the names that a statement of a module or class defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (statement.name,)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return tuple(each.asname or each.name.partition(".")[0] for each in statement.names)
    return tuple(
        node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )


def _body(statement: ast.stmt) -> Sequence[ast.stmt]:
    return statement.body if isinstance(statement, ast.ClassDef) else ()


def _name_of(statement: ast.stmt) -> str:
    return next(iter(_bound(statement)), f"line {statement.lineno}")


def _used_names(module: ast.Module) -> frozenset[str]:
    """Return every name, attribute and parameter that a module uses: a new one of that name would replace it."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return frozenset(found)

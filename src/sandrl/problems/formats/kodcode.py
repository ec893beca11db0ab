"""Rows of KodCode (arXiv:2503.02951): a file of pytest that imports the answer from a module `solution`.

In sandrl an answer is not a module: the names that the tests import from it are defined already, so the import is
removed.
"""

from __future__ import annotations

import ast

from sandrl.errors import InputError
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.problem import Problem
from sandrl.syntax import parse

_MODULE = "solution"


class KodCodeRow(FormatRow):
    question: str
    test: str
    solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        try:
            test, names = without_solution_import(self.test)
            return Problem(
                task_id=name,
                prompt=self.question,
                tests=(test,),
                entry_point=names[0] if len(names) == 1 else None,
                reference=self.solution,
                prelude=self.prelude,
            )
        except InputError as error:
            field = error.field and error.field.replace("tests[0]", "test", 1)
            raise InputError(error.reason, field=field, hint=error.hint) from None


def without_solution_import(test: str) -> tuple[str, list[str]]:
    """Tests without their imports from the answer's module, and the names that they imported."""
    try:
        tree = parse(test)
    except SyntaxError as error:
        raise InputError(f"must be Python: {error.msg}", field="test") from error
    names: list[str] = []

    class Rewriting(ast.NodeTransformer):
        def visit_Import(self, node: ast.Import) -> ast.stmt:
            if any(alias.name.partition(".")[0] == _MODULE for alias in node.names):
                raise InputError("imports the module of the answer itself, not names from it", field="test")
            return node

        def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
            if node.module != _MODULE:
                return node
            imported = [alias for alias in node.names if alias.name != "*"]
            names.extend(alias.name for alias in imported if alias.name not in names)
            renamed = [f"{alias.asname} = {alias.name}" for alias in imported if alias.asname not in (None, alias.name)]
            return parse("\n".join(renamed) or "pass").body

    rewritten = ast.fix_missing_locations(Rewriting().visit(tree))
    if not names and "solution" not in test:
        return test, names
    return ast.unparse(rewritten) + "\n", names


KODCODE = Format(
    "KodCode",
    (("question",), ("test",), ("solution",)),
    KodCodeRow,
    ignored=frozenset({"test_info"}),
    accepts=lambda value: "entry_point" not in value,
)

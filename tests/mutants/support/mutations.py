"""The small wrong changes that can be made to a Python source, one at a time. Pure: reads no file, runs nothing.

Only bodies of functions are changed. Text is not (a wording is no rule), nor are assertions, annotations and defaults.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import chain, islice
from types import CodeType
from typing import cast

import attrs

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}
LEFT_ALONE = (ast.Assert, ast.JoinedStr, ast.arguments)
MAX_SHOWN = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen
class Mutation:
    """One change of one function."""

    function: str
    """The qualified name of the outermost function: ``Meter.left_s``."""
    line: int
    change: str
    """What is written in place of what: ``a < b -> a <= b``."""
    first_line: int
    """Where the changed statement begins, which may be above *line*."""
    last_line: int
    """Where it ends, or its head if it has a body."""
    number: int = 0
    """Which one of its source it is."""


def mutations(source: str) -> tuple[Mutation, ...]:
    """Return every change of *source*, in the order of its functions.

    >>> [(each.function, each.line, each.change) for each in mutations("def old(age):\\n return age >= 18")]
    [('old', 2, 'return age >= 18 -> return None'), ('old', 2, 'age >= 18 -> age > 18'), ('old', 2, '18 -> 19')]
    """
    return tuple(
        Mutation(name, old.lineno, f"{_shown(old)} -> {_shown(new)}", *_lines(statement), number)
        for number, (name, statement, old, new) in enumerate(_changes(ast.parse(source)))
    )


def mutated(source: str, filename: str, mutation: Mutation) -> CodeType | None:
    """Return the code of the changed function, as it is compiled in the module *filename*, whose text is *source*."""
    tree = ast.parse(source)
    _, _, old, new = next(islice(_changes(tree), mutation.number, None))
    changed = deepcopy(tree, {id(old): ast.copy_location(new, old)})
    return code_of(compile(ast.fix_missing_locations(changed), filename, "exec"), mutation.function)


def code_of(code: CodeType, name: str) -> CodeType | None:
    """Return the code of the function with this qualified name in *code*, which is a module's, or None.

    >>> code_of(compile("class A:\\n def b(self): ...", "a.py", "exec"), "A.b").co_name
    'b'
    """
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_qualname == name:
                return inner
            if name.startswith(f"{inner.co_qualname}."):
                return code_of(inner, name)
    return None


def _changes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, ast.stmt | ast.expr, ast.stmt | ast.expr]]:
    """Yield (function, statement, what is changed in it, what it becomes)."""
    for name, function in _functions(tree.body, ""):
        for statement, node in chain.from_iterable(_nodes(node, node) for node in function.body):
            for new in _variants(node):
                yield name, statement, node, new


def _lines(statement: ast.stmt) -> tuple[int, int]:
    body: list[ast.stmt] = getattr(statement, "body", [])
    last = body[0].lineno - 1 if body else statement.end_lineno
    return statement.lineno, max(statement.lineno, last or 0)


def _functions(body: Sequence[ast.stmt], place: str) -> Iterator[tuple[str, Function]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield place + node.name, node
            case ast.ClassDef():
                yield from _functions(node.body, f"{place}{node.name}.")
            case _:
                pass


def _nodes(node: ast.stmt | ast.expr, statement: ast.stmt) -> Iterator[tuple[ast.stmt, ast.stmt | ast.expr]]:
    """Yield *node* and what is below it, but for what is left alone, each with the statement that it is part of."""
    if isinstance(node, LEFT_ALONE):
        return
    yield statement, node
    for field, value in ast.iter_fields(node):
        if field not in {"annotation", "returns", "decorator_list"}:
            for child in cast("list[object]", value if isinstance(value, list) else [value]):
                yield from _below(child, statement)


def _below(child: object, statement: ast.stmt) -> Iterator[tuple[ast.stmt, ast.stmt | ast.expr]]:
    if isinstance(child, ast.stmt):
        yield from _nodes(child, child)
    elif isinstance(child, ast.expr):
        yield from _nodes(child, statement)
    elif isinstance(child, ast.AST) and not isinstance(child, LEFT_ALONE):  # keywords, comprehensions, cases
        for value in ast.iter_child_nodes(child):
            yield from _below(value, statement)


def _variants(node: ast.stmt | ast.expr) -> Iterator[ast.stmt | ast.expr]:
    """Yield what may stand in place of *node*."""
    yield from _other_operators(node)
    yield from _other_values(node)
    yield from _other_branches(node)
    yield from _without_statement(node)


def _other_operators(node: ast.stmt | ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, [operator], comparators):
            yield ast.Compare(left, [COMPARISONS[type(operator)]()], comparators)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS and not _is_type(left):
            yield ast.BinOp(left, OPERATORS[type(operator)](), right)
        case _:
            pass


def _other_values(node: ast.stmt | ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in FUNCTIONS:
            yield ast.Call(ast.Name(FUNCTIONS[name], ast.Load()), arguments, keywords)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            if any(part.ifs for part in node.generators):
                yield _without_filters(node)
        case _:
            pass


def _other_branches(node: ast.stmt | ast.expr) -> Iterator[ast.stmt]:
    match node:
        case ast.If(test, body, orelse) if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.While(test, body, orelse) if not isinstance(test, ast.Compare | ast.UnaryOp | ast.Constant):
            yield ast.While(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Match(subject, cases):
            for number, case in enumerate(cases):
                if case.guard is not None:
                    unguarded = ast.match_case(case.pattern, None, case.body)
                    yield ast.Match(subject, [*cases[:number], unguarded, *cases[number + 1 :]])
        case _:
            pass


def _without_statement(node: ast.stmt | ast.expr) -> Iterator[ast.stmt]:
    match node:
        case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and not value.value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Continue() | ast.Break():
            yield ast.Pass()
        case _:
            pass


def _is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id[:1].isupper()


def _without_filters(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> ast.expr:
    made = deepcopy(node)
    for part in made.generators:
        part.ifs = []
    return made


def _shown(node: ast.AST) -> str:
    """Return the start of *node* as source, in one line."""
    if isinstance(node, ast.If | ast.While | ast.Match):
        text = ast.unparse(node).partition("\n")[0]
    else:
        text = ast.unparse(node)
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"

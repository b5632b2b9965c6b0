"""Which names a function's statements assign and read, and which of their values are read later."""

from __future__ import annotations

import ast
from collections.abc import Iterable

Names = frozenset[str]

DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_SCOPES = (*DEFINES, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def walk(nodes: Iterable[ast.AST], inside: tuple[type, ...] = DEFINES) -> Iterable[ast.AST]:
    """The nodes and what is in them, but for the bodies of functions."""
    for node in nodes:
        yield node
        if not isinstance(node, inside):
            yield from walk(ast.iter_child_nodes(node), inside)


def assigned(nodes: Iterable[ast.AST]) -> Names:
    names = {n.id for n in walk(nodes, _SCOPES) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    named = [n for n in walk(nodes, ()) if isinstance(n, ast.NamedExpr)]
    defined = [n for n in walk(nodes) if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))]
    imported = [a for n in walk(nodes) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names]
    return frozenset(
        names
        | {n.target.id for n in named}
        | {n.name for n in defined}
        | {(a.asname or a.name).partition(".")[0] for a in imported}
    )


def loaded(nodes: Iterable[ast.AST | None]) -> Names:
    """All names that are read, also in functions that are defined there."""
    found = (n for node in nodes if node is not None for n in ast.walk(node))
    return frozenset(n.id for n in found if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store))


def before(statements: list[ast.stmt], after: Names, out: Names = frozenset()) -> Names:
    """The names whose values are read by the statements or behind them.

    after: those that are read behind the statements; out: behind a break or a continue in them.
    """
    for statement in reversed(statements):
        after = before_one(statement, after, out)
    return after


def before_one(s: ast.stmt, after: Names, out: Names = frozenset()) -> Names:
    if isinstance(s, ast.Assign) and all(isinstance(t, (ast.Name, ast.Tuple)) for t in s.targets):
        targets = [n for t in s.targets for n in ast.walk(t)]
        if all(isinstance(n, (ast.Name, ast.Tuple, ast.Starred, ast.expr_context)) for n in targets):
            return (after - assigned(s.targets)) | loaded([s.value]) | _named(s.value)
    if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name):
        return (after - {s.target.id}) | loaded([s.value]) if s.value else after
    if isinstance(s, ast.AugAssign):
        return after | loaded([s.value, s.target]) | assigned([s.target])
    if isinstance(s, ast.If):
        return before(s.body, after, out) | before(s.orelse, after, out) | loaded([s.test])
    if isinstance(s, (ast.For, ast.While)):
        end = around(s, after, out)
        target = assigned([s.target]) if isinstance(s, ast.For) else frozenset[str]()
        return after | before(s.orelse, after, out) | (before(s.body, end, end) - target) | _decides(s)
    if isinstance(s, (ast.Break, ast.Continue)):
        return out
    if isinstance(s, ast.Return):
        return loaded([s.value])
    if isinstance(s, (ast.With, ast.Try, ast.Match)):
        return after | out | loaded([s])
    return after | loaded([s])


def around(s: ast.For | ast.While, after: Names, out: Names = frozenset()) -> Names:
    """The names that are read after a step of the loop: by the next one, or behind the loop."""
    target = assigned([s.target]) if isinstance(s, ast.For) else frozenset[str]()
    end = after | before(s.orelse, after, out) | _decides(s)
    for _ in range(2):  # a step is followed by another one
        end |= before(s.body, end, end) - target
    return end


def _decides(s: ast.For | ast.While) -> Names:
    """go: the name by which exits.py lets the loop go on."""
    if isinstance(s, ast.While):
        return loaded([s.test])
    return loaded([s.iter]) | ({s.go} if hasattr(s, "go") else frozenset())


def _named(value: ast.expr) -> Names:
    """Names of x := .. are stored and may be read in the same expression."""
    return frozenset(n.target.id for n in ast.walk(value) if isinstance(n, ast.NamedExpr))

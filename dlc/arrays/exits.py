"""`break`, `continue`, `return` and `else` of loops as flags, in the syntax tree of a user's function.

    for i in range(n):              _dlc_go = True; _dlc_returns = False
        A                           for i in range(n):       # which goes on as long as _dlc_go is true
        if c:                           A
            return x                    if c:
        B                                   _dlc_go = False; _dlc_returns = True
    else:                               else:
        C                                   B
                                    if _dlc_returns:
                                        return x
                                    if _dlc_go:
                                        C

The loop ends where it is left. So what is returned is the same behind the loop, and needs no value before.
Where a statement may leave the loop in one of its parts, what follows it in the step is done if a further
flag says that it has not.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .live import walk

_LEAVES = (ast.Break, ast.Continue, ast.Return)


class _Cannot(Exception):
    """It leaves the loop from within a statement that is left as it is."""


def leaving(body: list[ast.stmt], *, inner: bool = False) -> Iterator[ast.stmt]:
    """The statements that leave the loop whose body it is. inner: it is that of a loop in it."""
    for s in body:
        if isinstance(s, ast.Return) or (isinstance(s, (ast.Break, ast.Continue)) and not inner):
            yield s
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        loop = isinstance(s, (ast.For, ast.AsyncFor, ast.While))
        parts = [getattr(s, "body", []), *(h.body for h in getattr(s, "handlers", []))]
        parts += [case.body for case in getattr(s, "cases", [])]
        for part in parts:
            yield from leaving(part, inner=inner or loop)
        for part in (getattr(s, "orelse", []), getattr(s, "finalbody", [])):
            yield from leaving(part, inner=inner)


def _own(body: list[ast.stmt]) -> bool:
    """Do the statements leave the loop whose body they are?"""
    return next(leaving(body), None) is not None


def _assign(like: ast.AST, name: str, value: ast.expr | bool) -> ast.stmt:
    to = ast.Name(id=name, ctx=ast.Store())
    made = ast.Assign(targets=[to], value=ast.Constant(value) if isinstance(value, bool) else value)
    return _placed(like, made)


def _placed(like: ast.AST, made: ast.stmt) -> ast.stmt:
    for node in ast.walk(made):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, like)
    return made


def _if(like: ast.AST, name: str, body: list[ast.stmt]) -> ast.stmt:
    return _placed(like, ast.If(test=ast.Name(id=name, ctx=ast.Load()), body=body, orelse=[]))


class _Done(NamedTuple):
    """Statements without exits. never, always: where the step goes on behind them, it has not been left."""

    body: list[ast.stmt]
    never: bool
    always: bool


class _Step:
    """The body of one loop."""

    def __init__(self, number: int) -> None:
        self.go, self.stays = f"_dlc_go_{number}", f"_dlc_stays_{number}"
        self.number = number
        self.flagged = False  # is `stays` read?
        self.returns: list[tuple[str, ast.stmt, list[ast.stmt]]] = []

    def leave(self, s: ast.stmt, returned: list[ast.stmt]) -> _Done:
        made = [_assign(s, self.stays, False)]
        if not isinstance(s, ast.Continue):
            made.append(_assign(s, self.go, False))
        if isinstance(s, ast.Return):
            name = f"_dlc_returns_{self.number}_{len(self.returns)}"
            self.returns.append((name, s, returned))
            made.append(_assign(s, name, True))
        return _Done(made, never=False, always=True)

    def way(self, body: list[ast.stmt]) -> _Done:
        """One way of a branch: one that ends with a return is done behind the loop."""
        if body and isinstance(body[-1], ast.Return) and not _own(body[:-1]):
            return self.leave(body[-1], body)
        return self.block(body)

    def block(self, body: list[ast.stmt]) -> _Done:
        made: list[ast.stmt] = []
        for at, s in enumerate(body):
            if isinstance(s, _LEAVES):
                return _Done([*made, *self.leave(s, [s]).body], never=False, always=True)
            if not _own([s]):
                made.append(s)
                continue
            if not isinstance(s, ast.If):
                raise _Cannot
            return self.branch(s, made, body[at + 1 :])
        return _Done(made, never=True, always=False)

    def branch(self, s: ast.If, made: list[ast.stmt], rest: list[ast.stmt]) -> _Done:
        ways = [self.way(s.body), self.way(s.orelse)]
        end = self.block(rest)
        if all(way.always for way in ways):
            end = _Done([], never=True, always=True)
        elif all(way.always or way.never for way in ways):
            ways = [way if way.always else way._replace(body=[*way.body, *end.body]) for way in ways]
        elif end.body:
            self.flagged = True
            end = end._replace(body=[_if(s, self.stays, end.body)])
            made = [*made, self.decided(s, ways), *end.body]
            return _Done(made, never=False, always=end.always)
        return _Done([*made, self.decided(s, ways)], never=False, always=end.always)

    @staticmethod
    def decided(s: ast.If, ways: list[_Done]) -> ast.stmt:
        body = ways[0].body or [_placed(s, ast.Pass())]
        return ast.copy_location(ast.If(test=s.test, body=body, orelse=ways[1].body), s)


class _Unread(ast.NodeTransformer):
    """Takes out what is assigned to a flag that nothing reads."""

    def __init__(self, flag: str) -> None:
        self.flag = flag

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        (first, *_) = node.targets
        return None if isinstance(first, ast.Name) and first.id == self.flag else node

    def visit_If(self, node: ast.If) -> ast.stmt:
        self.generic_visit(node)
        node.body = node.body or [_placed(node, ast.Pass())]
        return node


class Exits(ast.NodeTransformer):
    """Rewrites the loops of a function, inner ones first.

    why_not(body): why the statements are no body of a loop of the program; such a loop is left as it is.
    """

    def __init__(self, why_not: Callable[[list[ast.stmt]], str]) -> None:
        self.why_not = why_not
        self.count = 0

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        self.generic_visit(node)
        return self.loop(node)

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        return self.loop(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    def loop(self, s: ast.For | ast.While) -> list[ast.stmt]:
        if not _own(s.body):
            behind, s.orelse = s.orelse, []
            return [s, *behind]
        self.count += 1
        step = _Step(self.count)
        try:
            body = step.block(s.body).body
        except _Cannot:
            return [s]
        if step.flagged:
            body = [_assign(s, step.stays, True), *body]
        else:
            body = [kept for b in body if (kept := _Unread(step.stays).visit(b)) is not None]
        body = body or [_placed(s, ast.Pass())]
        if self.why_not(body):
            return [s]
        leaves = any(isinstance(n, ast.Name) and n.id == step.go for n in walk(body))
        behind = s.orelse
        s.body, s.orelse = body, []
        if not leaves:  # `continue` alone
            return [s, *behind]
        if isinstance(s, ast.For):
            s.go = step.go  # type: ignore[attr-defined]
        else:
            go = ast.Name(id=step.go, ctx=ast.Load())
            always = isinstance(s.test, ast.Constant) and bool(s.test.value)
            s.test = go if always else ast.BoolOp(op=ast.And(), values=[go, s.test])
            _placed(s, s)
        flags = [step.go, *(name for name, _, _ in step.returns)]
        return [
            *(_assign(s, flag, flag == step.go) for flag in flags),
            s,
            *(_if(at, name, returned) for name, at, returned in step.returns),
            *([_if(s, step.go, behind)] if behind else []),
        ]

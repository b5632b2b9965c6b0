"""The loops and branches of a user's function as calls that a capture can take as a whole.

``for i in range(n)``, ``while`` and ``if`` are statements of Python's: a capture would run the steps of a
loop one after another, and cannot branch on values. So the function's syntax tree is read, and

    for i in range(n):          def step(i, x):
        x = x * 0.5                 x = x * 0.5
                                    return (x,)
                                i, x = _dlc_for(_dlc_items(range, n), step, ..)

The names that a step assigns and that are read later are its parameters and its results; all others are those
of the function around it. flow.py decides whether such a call is a loop of the program or runs step by step.
What is left as it is, and why, is noted with its line (`Steps.reason`).
"""

from __future__ import annotations

import ast
import textwrap
import types
from typing import Any

from .effects import Effects, Guards
from .exits import Exits, leaving
from .live import DEFINES, Names, around, assigned, before, before_one, loaded, walk
from .source import compiled, tree_of

_OPEN = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete, ast.Try)

# -- what may be taken as a whole ----------------------------------------------------------------------


def _why_not(body: list[ast.stmt], effects: Effects, *tests: ast.expr) -> str:
    """Why the statements are no function of values: "" if they are one."""
    for node in walk(body):
        at = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, _OPEN):
            return f"it has a {type(node).__name__.lower()} ({at})"
        if isinstance(
            node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
        ):
            return f"it defines a name ({at})"
        if isinstance(node, (ast.With, ast.AsyncWith, ast.AsyncFor, ast.Match)):
            return f"it has a {type(node).__name__.lower()} statement ({at})"
    for node in leaving(body):
        return f"it has a {type(node).__name__.lower()} (line {node.lineno})"
    return effects.why([*tests, *body])


# -- the new tree --------------------------------------------------------------------------------------


def _at(like: ast.AST, text: str) -> list[ast.stmt]:
    """Statements from their text, at the line of another node."""
    made = ast.parse(textwrap.dedent(text)).body
    for statement in made:
        for node in ast.walk(statement):
            ast.copy_location(node, like)
    return made


def _expression(like: ast.AST, text: str) -> ast.expr:
    (made,) = _at(like, text)
    assert isinstance(made, ast.Expr)
    return made.value


def _called(like: ast.AST, text: str, *more: ast.expr) -> ast.Call:
    """A call, and more arguments of it."""
    call = _expression(like, text)
    assert isinstance(call, ast.Call)
    call.args += more
    return call


def _decided(test: ast.expr, why: str) -> ast.expr:
    """The condition of a branch that is left as it is, which cannot be a value."""
    return _called(test, f"_dlc_decided({why!r})", test)


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _define(like: ast.stmt, name: str, parameters: list[str], body: list[ast.stmt], results: str) -> ast.stmt:
    (made,) = _at(like, f"def {name}({', '.join(parameters)}):\n    return {results}")
    assert isinstance(made, ast.FunctionDef)
    made.body = [*body, *made.body]
    return made


def _initial(names: list[str]) -> str:
    """The values of names, some of which may have none yet."""
    return f"_dlc_values({', '.join(f'lambda: {name}' for name in names)})"


class _Conditions(ast.NodeTransformer):
    """`a and b`, `not a` and `a < b < c` of values, in what a branch or a loop decides by."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        word = "_dlc_and" if isinstance(node.op, ast.And) else "_dlc_or"
        if any(isinstance(n, (ast.Subscript, ast.Call)) for v in node.values[1:] for n in ast.walk(v)):
            word += "_then"
        return self.call(node, word, node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self.call(node, "_dlc_not", [node.operand]) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        names = (ast.Name, ast.Constant)
        if len(node.ops) == 1 or not all(isinstance(c, names) for c in node.comparators[:-1]):
            return node
        sides = [node.left, *node.comparators]
        pairs: list[ast.expr] = [
            ast.copy_location(ast.Compare(left=a, ops=[op], comparators=[b]), node)
            for a, op, b in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return self.call(node, "_dlc_and", pairs)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    @staticmethod
    def call(node: ast.expr, function: str, values: list[ast.expr]) -> ast.expr:
        (made,) = _at(node, f"{function}()")
        assert isinstance(made, ast.Expr) and isinstance(made.value, ast.Call)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        made.value.args = [ast.copy_location(ast.Lambda(args=nothing, body=v), node) for v in values]
        return made.value


class _Choices(ast.NodeTransformer):
    """`a if c else b`, whose condition may be a value."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if any(isinstance(n, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)) for n in ast.walk(node)):
            return node
        parts = [node.test, node.body, node.orelse]
        if why := self.effects.why(parts):
            node.test = _decided(node.test, why)
            return node
        reads = _initial(self.effects.reads(parts))
        made = _Conditions.call(node, "_dlc_either", [node.body, node.orelse])
        assert isinstance(made, ast.Call)
        made.args.insert(0, _Conditions().visit(node.test))
        made.args.append(_expression(node, reads))
        return made

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node


def _returns(body: list[ast.stmt]) -> bool:
    """Does it end the function, at its end?"""
    if not body or isinstance(body[-1], ast.Return):
        return bool(body)
    last = body[-1]
    return isinstance(last, ast.If) and _returns(last.body) and _returns(last.orelse)


class _Rewriter:
    """Rewrites the statements of one function, from the last one to the first."""

    def __init__(self, body: list[ast.stmt], effects: Effects) -> None:
        self.effects = effects
        everything = [n for statement in body for n in ast.walk(statement)]
        declared = [n.names for n in everything if isinstance(n, (ast.Global, ast.Nonlocal))]
        self.free = frozenset(name for names in declared for name in names)  # names that others assign, too
        self.inner = [n for n in everything if isinstance(n, DEFINES)]  # functions that it defines
        self.count = 0
        self.out: Names = frozenset()  # names that are read behind a break of the loop around

    def foreign(self, stored: Names, *bodies: list[ast.stmt]) -> str:
        """Why names that the bodies assign are not theirs alone: "" if they are."""
        if stored & self.free:
            return f"it assigns {min(stored & self.free)!r}, which is not the function's own"
        own = {id(n) for body in bodies for statement in body for n in ast.walk(statement)}
        read = stored & frozenset[str]().union(*(loaded([n]) for n in self.inner if id(n) not in own))
        return f"it assigns {min(read)!r}, which a function defined elsewhere reads" if read else ""

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of the function itself, or those that end it."""
        for at, s in enumerate(body):
            if isinstance(s, ast.If) and (_returns(s.body) or _returns(s.orelse)):
                made = self.ending(s, body[at + 1 :])
                if made is not None:
                    return [
                        *self.statements(body[:at], before_one(s, before(body[at + 1 :], frozenset()))),
                        *made,
                    ]
        return self.statements(body, frozenset())

    def ending(self, s: ast.If, rest: list[ast.stmt]) -> list[ast.stmt] | None:
        """A branch after one of whose ways the function returns; None where it is left as it is."""
        end = ast.copy_location(ast.Return(value=None), s)
        ways = [way if _returns(way) else [*way, *rest] for way in (s.body, s.orelse)]
        ways = [way if _returns(way) else [*way, end] for way in ways]
        everything = [s.test, *s.body, *s.orelse, *rest]
        stored = assigned(everything)
        named = any(isinstance(n, ast.NamedExpr) for n in ast.walk(s.test))
        open_ = [n for n in walk([*s.body, *s.orelse, *rest]) if isinstance(n, (*_OPEN[1:], ast.FunctionDef))]
        if self.foreign(stored, *ways) or named or open_ or self.effects.why(everything):
            return None
        read = before(ways[0], frozenset()) | before(ways[1], frozenset())
        reads = _initial(self.effects.reads(everything, stored - read))
        names, kinds = sorted(stored & read), (self.name("then"), self.name("else"))
        made = []
        for kind, way in zip(kinds, ways, strict=True):
            define = _define(s, kind, names, [], "None")
            assert isinstance(define, ast.FunctionDef)
            define.body = self.function(way)
            made.append(define)
        (call,) = _at(s, f"_dlc_end(0, {kinds[0]}, {kinds[1]}, {_initial(names)}, {reads})")
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        call.value.args[0] = _Conditions().visit(s.test)
        return [*made, ast.copy_location(ast.Return(value=call.value), s)]

    def name(self, what: str) -> str:
        self.count += 1
        return f"_dlc_{what}_{self.count}"

    def statements(self, body: list[ast.stmt], after: Names) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in reversed(body):
            made = [*self.statement(statement, after), *made]
            after = before_one(statement, after, self.out)
        return made

    def statement(self, s: ast.stmt, after: Names) -> list[ast.stmt]:
        if isinstance(s, (ast.For, ast.While)) and not s.orelse:
            return self.loop(s, after)
        if isinstance(s, ast.If):
            return self.branch(s, after)
        if isinstance(s, (ast.For, ast.While)):
            s.body = self.step(s, after)
        elif isinstance(s, ast.With):
            s.body = self.statements(s.body, after)
        return [s]

    def step(self, s: ast.For | ast.While, after: Names) -> list[ast.stmt]:
        """The statements of a loop's body."""
        outer, self.out = self.out, around(s, after, self.out)
        body = self.statements(s.body, self.out)
        self.out = outer
        return body

    def loop(self, s: ast.For | ast.While, after: Names) -> list[ast.stmt]:
        return self.for_(s, after) if isinstance(s, ast.For) else self.while_(s, after)

    def reason(self, s: ast.For | ast.While, names: Names, *tests: ast.expr) -> str:
        """Why the loop is left as it is; "" if it is not. names: that its body assigns."""
        why = _why_not(s.body, self.effects, *tests)
        if foreign := self.foreign(names, s.body):
            why = why or f"{foreign} (line {s.lineno})"
        if any(isinstance(n, ast.NamedExpr) for test in tests for n in ast.walk(test)):
            why = why or f"its condition assigns a name (line {s.lineno})"
        return why

    def for_(self, s: ast.For, after: Names) -> list[ast.stmt]:
        if isinstance(s.target, ast.Name) and s.target.id not in assigned(s.body):
            target = s.target.id
        else:  # a name for the item, of which the step assigns the targets
            target = self.name("item")
            value = ast.Name(id=target, ctx=ast.Load())
            item = ast.copy_location(ast.Assign(targets=[s.target], value=value), s.target)
            s.body = [ast.fix_missing_locations(item), *s.body]
            s.target = ast.copy_location(ast.Name(id=target, ctx=ast.Store()), s.target)
        stored = assigned(s.body)
        why = self.reason(s, stored | {target})
        live = around(s, after, self.out)
        reads = _initial(self.effects.reads(s.body, stored - live - {target}))
        s.body = self.step(s, after)
        over, go = self.items(s.iter), getattr(s, "go", "")
        if why:
            s.iter = _called(s.iter, f"_dlc_each({why!r})", over)
            if go:
                s.body += _at(s, f"if not _dlc_decided({why!r}, {go}): break")
            return [s]
        names = sorted(stored & live)
        step, results = self.name("step"), _tuple([target, *names])
        until = f", {names.index(go)}" if go else ""
        (call,) = _at(
            s,
            f"{results} = _dlc_{'until' if go else 'for'}({step}, {names!r}, "
            f"{_initial([target, *names])}, {reads}, {target in after}{until})",
        )
        assert isinstance(call, ast.Assign) and isinstance(call.value, ast.Call)
        call.value.args.insert(0, over)
        return [_define(s, step, [target, *names], s.body, _tuple(names)), call]

    def items(self, node: ast.expr) -> ast.expr:
        """What a loop goes over: calls of these functions give its items by their numbers."""
        if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
            return node
        found, function = self.effects.value(node.func)
        if not found or not any(function is one for one in (range, enumerate, zip, reversed)):
            return node
        if function is not range:
            node.args = [self.items(a) for a in node.args]
        made = _called(node, "_dlc_items()", node.func, *node.args)
        made.keywords = node.keywords
        return made

    def while_(self, s: ast.While, after: Names) -> list[ast.stmt]:
        stored, parts = assigned(s.body), [s.test, *s.body]
        why = self.reason(s, stored, s.test)
        live = around(s, after, self.out)
        reads = _initial(self.effects.reads(parts, stored - live))
        s.body = self.step(s, after)
        if why:
            s.body = [*_at(s, f"_dlc_step({why!r})"), *s.body]
            return [s]
        names = sorted(stored & live)
        test, step = self.name("test"), self.name("step")
        decide = _define(s, test, names, [], "None")
        assert isinstance(decide, ast.FunctionDef)
        decide.body = [ast.copy_location(ast.Return(value=_Conditions().visit(s.test)), s.test)]
        target_of = f"{_tuple(names)} = " if names else ""
        return [
            _define(s, step, names, s.body, _tuple(names)),
            decide,
            *_at(s, f"{target_of}_dlc_while({test}, {step}, {names!r}, {_initial(names)}, {reads})"),
        ]

    def branch(self, s: ast.If, after: Names) -> list[ast.stmt]:
        why = _why_not([*s.body, *s.orelse], self.effects, s.test)
        stored = assigned([*s.body, *s.orelse])
        given = stored & (before(s.body, after, self.out) | before(s.orelse, after, self.out)) - after
        reads = _initial(self.effects.reads([s.test, *s.body, *s.orelse], stored - after - given))
        s.body, s.orelse = self.statements(s.body, after), self.statements(s.orelse, after)
        why = why or self.foreign(stored, s.body, s.orelse)
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(s.test)):
            why = why or "its condition assigns a name"
        if why:
            s.test = _decided(s.test, why)
            return [s]
        names = sorted(stored & after)
        yes, no = self.name("then"), self.name("else")
        (call,) = _at(s, f"{_tuple(names)} = _dlc_if(0, {yes}, {no}, {names!r}, {_initial(names)}, {reads})")
        assert isinstance(call, ast.Assign) and isinstance(call.value, ast.Call)
        call.value.args[0] = _Conditions().visit(s.test)
        if not names:
            call = ast.copy_location(ast.Expr(value=call.value), s)
        bodies = [(yes, s.body), (no, s.orelse)]
        taken = [*names, *(f"{name}={_initial([name])}[0]" for name in sorted(given))]
        return [*(_define(s, name, taken, body, _tuple(names)) for name, body in bodies), call]


# -- functions -----------------------------------------------------------------------------------------


def _has_flow(tree: ast.FunctionDef) -> bool:
    return any(isinstance(node, (ast.For, ast.While, ast.If, ast.IfExp)) for node in ast.walk(tree))


def rewritten(function: types.FunctionType) -> types.CodeType:
    """The function's code with its loops and branches as calls; its own code where that cannot be."""
    tree = tree_of(function)
    if tree is None:
        return function.__code__
    effects = Effects(function, tree)
    guards = Guards(effects)
    if not _has_flow(tree) and not guards.needed(tree):
        return function.__code__
    defined = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    effects.read(defined[1:])  # while they are as they have been written
    for one in reversed(defined):  # inner ones first
        if not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(one.body)):
            _rewrite(one, effects)
    return compiled(guards.visit(tree), function)


def _rewrite(tree: ast.FunctionDef, effects: Effects) -> None:
    Exits(lambda body: _why_not(body, effects)).generic_visit(tree)
    rewriter = _Rewriter(tree.body, effects)
    tree.body = rewriter.function([_Choices(effects).visit(statement) for statement in tree.body])


def closure_of(code: types.CodeType, function: types.FunctionType, cells: tuple[Any, ...]) -> tuple[Any, ...]:
    """The cells of the function's free names, in the order of the code's."""
    by_name = dict(zip(function.__code__.co_freevars, cells, strict=True))
    return tuple(by_name[name] for name in code.co_freevars)

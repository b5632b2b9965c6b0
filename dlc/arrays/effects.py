"""What the body of a loop or of a branch may do, that is run twice to become one of the program.

It may compute values, and write to arrays that are traced. All else that Python can do is an effect that a
second run would have twice, and a loop of the program not at all. So these are lists of what is allowed:
`Effects` reads the syntax tree before anything runs, `Guards` puts checks into it for what the tree does not
tell, such as whether `x[i] = ..` writes to an array or to a list.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from .._C import Jit
from .names import FUNCTIONS, OTHERWISE
from .source import of_user, tree_of

_BUILTINS = (
    *(abs, all, any, bool, complex, divmod, float, int, isinstance, len, list, max, min, pow, range, round),
    *(sorted, str, sum, tuple),
)
#: They are read later than they are called.
_LAZY = (enumerate, reversed, zip)
_NUMPYS = (np.dtype, np.finfo, np.iinfo, np.shape, np.ndim, np.size, np.result_type)
#: Functions of NumPy's that call Python's.
_CALL = (*(np.piecewise, np.fromfunction, np.vectorize, np.frompyfunc), np.apply_along_axis)
#: Functions of NumPy's that write to their first argument.
_WRITE = {"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "at"}
#: Methods of arrays, scalars, numbers and containers that only compute.
_METHODS = {
    *("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin", "cumsum"),
    *("cumprod", "clip", "round", "dot", "trace", "argsort", "argpartition", "searchsorted", "choose"),
    *("nonzero", "astype", "copy", "flatten", "view", "reshape", "transpose", "ravel", "squeeze"),
    *("swapaxes", "diagonal", "repeat", "take", "compress", "conj", "conjugate", "item", "tolist"),
    *("get", "items", "keys", "values", "index", "count", "is_integer", "bit_length"),
}
#: Methods of arrays that write to them.
_WRITES = {"fill", "sort", "partition", "put"}
_FORBIDDEN = (
    *(ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.With, ast.AsyncWith, ast.AsyncFor),
    *(ast.Try, ast.Delete, ast.Import, ast.ImportFrom, ast.ClassDef, ast.AsyncFunctionDef, ast.Match),
)
_DEFINES = (ast.FunctionDef, ast.Lambda)


def _at(node: ast.AST) -> str:
    return f"(line {getattr(node, 'lineno', 0)})"


def _ours(name: str) -> bool:
    return name.startswith("_dlc_")


def _out(function: Any) -> int:
    """The number of the positional argument that it writes to."""
    if isinstance(function, np.ufunc):
        return function.nin
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return 1 << 30
    return names.index("out") if "out" in names else 1 << 30


def _computes(function: Any) -> bool:
    """A function of a library's that computes values of values."""
    if any(function is one for one in _CALL):
        return False
    if any(function is one for one in (*_BUILTINS, *_LAZY, *_NUMPYS)):
        return True
    try:
        if function in FUNCTIONS or function in OTHERWISE:
            return True
    except TypeError:  # no key of a dict
        return False
    if isinstance(function, types.BuiltinFunctionType) and function.__module__ in ("math", "cmath"):
        return True
    return isinstance(function, np.ufunc) or (isinstance(function, type) and issubclass(function, np.generic))


def _of_torch(name: str, function: Any) -> bool:
    functions = (getattr(m, name, None) for m in (torch._C._VariableFunctions, torch.nn.functional))
    return not name.endswith("_") and "seed" not in name and any(function is f for f in functions if f)


class Effects:
    """What the names of a function stand for, and whether parts of it have effects."""

    def __init__(
        self, function: types.FunctionType, tree: ast.FunctionDef, known: set[types.CodeType] | None = None
    ) -> None:
        self.function = function
        self.known = {function.__code__} if known is None else known  # functions that are being read
        self.whys: dict[int, str] = {}  # of the functions that it defines
        self.own: dict[str, list[ast.AST | None]] = {}  # names that it assigns, and to what
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                self.own.setdefault(node.arg, []).append(None)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self.own.setdefault(node.id, []).append(None)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node is not tree:
                self.own.setdefault(node.name, []).append(node)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    self.own.setdefault(alias.asname or alias.name.partition(".")[0], []).append(node)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                for name in node.names:
                    self.own.setdefault(name, []).append(None)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                for target in node.targets:
                    if isinstance(target, ast.Name) and len(self.own[target.id]) == 1:
                        self.own[target.id] = [node.value]

    # What a name stands for.

    def value(self, node: ast.expr) -> tuple[bool, Any]:
        """Whether it is known, and the object that a name, or an attribute of a module or ufunc, is."""
        if isinstance(node, ast.Attribute):
            found, of = self.value(node.value)
            of_numpy = isinstance(of, np.ufunc) and node.attr in (
                *("reduce", "accumulate", "outer", "reduceat", "at"),
            )
            if not found or not (isinstance(of, types.ModuleType) or of_numpy) or not hasattr(of, node.attr):
                return False, None
            return True, getattr(of, node.attr)
        if not isinstance(node, ast.Name):
            return False, None
        name = node.id
        if name in self.own:
            made = self.own[name]
            if len(made) == 1 and isinstance(made[0], ast.AST):
                return self._made(name, made[0])
            return False, None
        code = self.function.__code__
        if name in code.co_freevars:
            cells = self.function.__closure__ or ()
            try:
                found = cells[code.co_freevars.index(name)].cell_contents
            except ValueError:
                return False, None
        elif name in self.function.__globals__:
            found = self.function.__globals__[name]
        elif hasattr(builtins, name):
            found = getattr(builtins, name)
        else:
            return False, None
        return True, getattr(found, "__wrapped__", found) if isinstance(found, Jit) else found

    @staticmethod
    def _made(name: str, node: ast.AST) -> tuple[bool, Any]:
        if isinstance(node, _DEFINES):
            return True, node
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = alias.name if alias.asname else alias.name.partition(".")[0]
                if name == (alias.asname or module) and module in sys.modules:
                    return True, sys.modules[module]
        if isinstance(node, ast.ImportFrom) and not node.level and node.module in sys.modules:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    found = getattr(sys.modules[node.module], alias.name, None)
                    return found is not None, found
        return False, None

    # Whether parts have effects.

    def why(self, nodes: Iterable[ast.AST]) -> str:
        """Why the statements or expressions are no computation of values: "" if they are one."""
        return next(filter(None, (self._why(node) for node in nodes)), "")

    def _why(self, node: ast.AST, *, consumed: bool = False) -> str:
        if isinstance(node, _FORBIDDEN):
            return f"it has a {type(node).__name__.lower()} {_at(node)}"
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return f"it sets an attribute {_at(node)}"
        if isinstance(node, (*_DEFINES, ast.GeneratorExp)) and not consumed:
            what = "generator" if isinstance(node, ast.GeneratorExp) else "function"
            return f"it makes a {what} that may run later {_at(node)}"
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found, value = self.value(node)
            if found and (isinstance(value, _DEFINES) or of_user(value)):
                return self._function(node, value)
            return ""
        return self.why(ast.iter_child_nodes(node))

    def _call(self, node: ast.Call) -> str:
        if isinstance(node.func, ast.Name) and _ours(node.func.id):
            return self._arguments(node, consumed=True)
        found, function = self.value(node.func)
        if isinstance(node.func, ast.Attribute) and not found:
            if node.func.attr not in _METHODS | _WRITES:
                return f"it calls .{node.func.attr}() {_at(node)}, which may change an object"
            return self._why(node.func.value) or self._arguments(node)
        if not found:
            return f"it calls a function that is not known before it runs {_at(node)}"
        if isinstance(function, _DEFINES) or (of_user(function) and isinstance(node.func, ast.Name)):
            return self._function(node, function) or self._arguments(node)
        if isinstance(node.func, ast.Attribute):
            of = self.value(node.func.value)[1]
            if isinstance(of, np.ufunc):
                return self._arguments(node)
            if isinstance(of, types.ModuleType) and _of_torch(node.func.attr, function):
                return self._arguments(node)
        if not _computes(function):
            name = getattr(function, "__name__", "a function")
            return f"it calls {name}(), which may do more than compute a value {_at(node)}"
        written = getattr(function, "__name__", "") in _WRITE
        starred = any(isinstance(a, ast.Starred) for a in node.args)
        if len(node.args) > _out(function) or (starred and (written or _out(function) < 1 << 30)):
            return f"it gives out= by its position {_at(node)}"
        return self._arguments(node, consumed=any(function is one for one in _BUILTINS))

    def _arguments(self, node: ast.Call, *, consumed: bool = False) -> str:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        for argument in given:
            if consumed and isinstance(argument, (ast.Lambda, ast.GeneratorExp)):
                why = self.why(ast.iter_child_nodes(argument))
            else:
                why = self._why(argument)
            if why:
                return why
        return ""

    def _function(self, node: ast.AST, function: Any) -> str:
        """Why a function of the user's, or a definition in this one, has effects."""
        if isinstance(function, _DEFINES):
            self.read([function])
            why = self.whys[id(function)]
            return f"it calls a function that it defines {_at(node)}, and {why}" if why else ""
        if function.__code__ in self.known:
            return ""
        tree = tree_of(function)
        if tree is None:
            return f"it calls {function.__name__}(), whose source is not known {_at(node)}"
        of = Effects(function, tree, self.known | {function.__code__})
        why = of.why(tree.body) or of.held(tree)
        return f"it calls {function.__name__}() {_at(node)}, and {why}" if why else ""

    def read(self, functions: Iterable[ast.FunctionDef | ast.Lambda]) -> None:
        """Finds whether functions that this one defines have effects."""
        for function in functions:
            if id(function) not in self.whys:
                self.whys[id(function)] = ""  # it may call itself
                body = [function.body] if isinstance(function, ast.Lambda) else function.body
                self.whys[id(function)] = self.why(body)

    def held(self, tree: ast.AST) -> str:
        """Why the values of names that are not its own are none that can be read twice."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id not in self.own:
                found, value = self.value(node)
                if found and (why := held(node.id, value)):
                    return f"{why} {_at(node)}"
        return ""

    def reads(self, nodes: Iterable[ast.AST], but: frozenset[str] = frozenset()) -> list[str]:
        """The names of which it is checked when it runs what they hold; but: the nodes' own."""
        names: dict[str, None] = {}
        seen: set[int] = set()
        todo = list(nodes)
        while todo:
            for node in ast.walk(todo.pop()):
                if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or _ours(node.id):
                    continue
                found, value = self.value(node)
                if not found:
                    names[node.id] = None
                elif isinstance(value, _DEFINES) and id(value) not in seen:
                    seen.add(id(value))
                    todo.append(value)
                elif not callable(value) and not isinstance(value, (types.ModuleType, ast.AST)):
                    names[node.id] = None
        return sorted(names.keys() - but)


def held(name: str, value: Any) -> str:
    """Why what a name holds cannot be read twice, or may have effects: "" if it can."""
    kind = type(value)
    if kind in (list, tuple, dict, set, frozenset):
        items = list(value.values()) if kind is dict else list(value)
        return next(filter(None, (held(name, item) for item in items)), "")
    if isinstance(value, (list, dict, set)) or hasattr(kind, "__next__"):
        return f"{name} is an object of type {kind.__name__}, which reading may change"
    return ""


# -- checks when it runs -------------------------------------------------------------------------------


class Guards(ast.NodeTransformer):
    """Puts checks into a function: of what it writes to, and of whose methods it calls."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    def needed(self, tree: ast.FunctionDef) -> bool:
        kinds = (ast.AugAssign, ast.Call)
        return any(
            isinstance(n, kinds) or (isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
            for n in ast.walk(tree)
        )

    @staticmethod
    def call(function: str, node: ast.expr) -> ast.expr:
        name = ast.copy_location(ast.Name(id=function, ctx=ast.Load()), node)
        return ast.copy_location(ast.Call(func=name, args=[node], keywords=[]), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            node.value = self.call("_dlc_array", node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        read = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node)
        return [ast.copy_location(ast.Expr(value=self.call("_dlc_value", read)), node), node]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Name) and _ours(function.id):
            return node
        for keyword in node.keywords:
            if keyword.arg == "out":
                keyword.value = self.call("_dlc_array", keyword.value)
        found, value = self.effects.value(function)
        if found and getattr(value, "__name__", "") in _WRITE and node.args:
            node.args[0] = self.call("_dlc_array", node.args[0])
        elif not found and isinstance(function, ast.Attribute) and function.attr in _METHODS | _WRITES:
            check = "_dlc_array" if function.attr in _WRITES else "_dlc_object"
            function.value = self.call(check, function.value)
        return node

"""The source of a user's function, where it is known to be that of its code."""

from __future__ import annotations

import ast
import dis
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

from .. import variables
from .value import UNREAD


def of_user(value: Any) -> bool:
    """A function of the user's, whose names may stand for NumPy's."""
    if not isinstance(value, types.FunctionType):
        return False
    top = (value.__module__ or "").partition(".")[0]
    return top not in variables.LIBRARIES and top not in sys.stdlib_module_names and top != "dlc"


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _tree(function: types.FunctionType) -> ast.FunctionDef | None:
    """The syntax tree of the function, at its lines; None where its source is not known."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        if isinstance(error, OSError):
            UNREAD.update(_codes(function.__code__))
        return None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    made = tree.body[0]
    made.decorator_list = []
    return made if made.name == function.__code__.co_name else None


def compiled(tree: ast.FunctionDef, function: types.FunctionType) -> types.CodeType:
    """The code of the tree, whose free names are those of the function's closure."""
    code = function.__code__
    around = ast.parse(f"def around({', '.join(code.co_freevars)}): pass").body[0]
    assert isinstance(around, ast.FunctionDef)
    around.body = [tree]
    module = ast.fix_missing_locations(ast.Module(body=[around], type_ignores=[]))
    future = code.co_flags & 0x1FF0000
    made = compile(module, code.co_filename, "exec", flags=future, dont_inherit=True)
    (outer,) = (c for c in made.co_consts if isinstance(c, types.CodeType))
    (inner,) = (c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == code.co_name)
    return inner


#: A module's attributes are read in another way where the import is seen, as it is not here.
#: So jumps are longer or shorter, and their arguments take another number of instructions.
_READS = {"LOAD_METHOD": "LOAD_ATTR", "PUSH_NULL": "", "EXTENDED_ARG": ""}


def _said(code: types.CodeType) -> list[tuple[str, Any]]:
    """What the code does, but for where it jumps to."""
    found = []
    for instruction in dis.get_instructions(code):
        name = _READS.get(instruction.opname, instruction.opname)
        jumps = instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs
        value = "" if jumps or isinstance(instruction.argval, types.CodeType) else repr(instruction.argval)
        if name:
            found.append((name, value))
    return found


def tree_of(function: types.FunctionType) -> ast.FunctionDef | None:
    """The syntax tree that the function's code has been made of; None where it is not known.

    It has no decorators, no annotations and no defaults: these are the function's own.
    """
    code = function.__code__
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    tree = _tree(function)
    if tree is None or "__class__" in code.co_freevars:
        return None
    tree.returns = None
    for argument in ast.walk(tree.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    tree.args.defaults = [ast.copy_location(ast.Constant(None), tree) for _ in tree.args.defaults]
    tree.args.kw_defaults = [d and ast.copy_location(ast.Constant(None), tree) for d in tree.args.kw_defaults]
    if _said(compiled(tree, function)) != _said(code):
        return None  # the file has changed since it was read
    return tree

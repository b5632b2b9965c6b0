"""`%load_ext dlc` in IPython and Jupyter: %dlc_explain and %%dlc. See docs/notebooks.md.

What dlc and torch do between a line of the user's and an error is left out of the traceback.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
import types
from pathlib import Path
from typing import Any

from . import ir, option_values

_HEADER = re.compile(r"(\s*(#.*)?\n)*\s*dlc \d")
_FUNCTION = re.compile(r"(\s*(#.*)?\n)*\s*fn\s")
_EXPRESSION = "<dlc_explain>"  # as a file
_HERE = str(Path(__file__).parent)


class Cell:
    """What a cell shows of what it made: a report, in a line under it what was called."""

    def __init__(self, title: str, report: Any) -> None:
        self.title, self.report = title, report

    def __repr__(self) -> str:
        return f"{self.title}\n{self.report}" if self.report is not None else self.title

    def _repr_html_(self) -> str:
        import html

        page = self.report._repr_html_() if self.report is not None else ""
        return f"<code>{html.escape(self.title)}</code>{page}"


# -- tracebacks ----------------------------------------------------------------------------------------


def _is_users(file: str) -> bool:
    parts = ("/IPython/", "/torch/", "/decorator.py", "/ipykernel/")
    return not file.startswith(_HERE) and not any(part in file for part in parts)


def _frames(trace: types.TracebackType | None) -> list[types.TracebackType]:
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def trimmed(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The frames that are the user's own; of a magic, those behind it: its cell is the text itself."""
    frames = _frames(trace)
    magics = [k for k, frame in enumerate(frames) if frame.tb_frame.f_code.co_filename == __file__]
    rest = None
    for frame in reversed(frames[magics[-1] + 1 :] if magics else frames):
        if _is_users(frame.tb_frame.f_code.co_filename):
            rest = types.TracebackType(rest, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return rest


def _show(shell: Any, kind: type, error: Any, trace: Any, tb_offset: Any = None) -> None:
    files = [frame.tb_frame.f_code.co_filename for frame in _frames(trace)]
    if not any(file.startswith(_HERE) for file in files) or isinstance(error, SyntaxError):
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return
    inner = getattr(error, "inner_exception", None)  # of Dynamo's BackendCompilerFailed
    error = inner if isinstance(inner, Exception) else error
    error.__cause__, error.__suppress_context__ = None, True
    own = trimmed(trace)
    if own is None:
        shell._showtraceback(type(error), error, [f"{type(error).__name__}: {error}"])
    else:
        shell.showtraceback((type(error), error, own), tb_offset=0)


# -- %dlc_explain --------------------------------------------------------------------------------------


def _options(words: str) -> tuple[dict[str, Any], str]:
    """-o name=value, as often as wanted, before the expression."""
    found: dict[str, Any] = {}
    while match := re.match(r"\s*-o\s+(\w+)=(\S+)\s", words):
        name, value = match.groups()
        found[name] = option_values.read(name, value) if name in option_values.TABLE else value
        words = words[match.end() :]
    return found, words.strip()


def _names(tree: ast.AST, space: dict[str, Any]) -> list[str]:
    """The tensors that an expression reads by name."""
    import torch

    names = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return [name for name in names if isinstance(space.get(name), torch.Tensor)]


def _as_call(text: str, space: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """f(x, k=y) as f and its arguments; any other expression as a function of the tensors that it reads."""
    linecache.cache[_EXPRESSION] = (len(text), None, [text], _EXPRESSION)
    tree = ast.parse(text, _EXPRESSION, "eval").body

    def value(node: ast.AST) -> Any:
        return eval(compile(ast.Expression(node), _EXPRESSION, "eval"), space)  # type: ignore[arg-type]

    if isinstance(tree, ast.Call):
        plain = not any(isinstance(a, ast.Starred) for a in tree.args) and all(k.arg for k in tree.keywords)
        fn = value(tree.func) if plain else None
        if fn is not None and not isinstance(fn, (type, types.BuiltinFunctionType, types.BuiltinMethodType)):
            return fn, tuple(map(value, tree.args)), {k.arg: value(k.value) for k in tree.keywords if k.arg}
    names = _names(tree, space)
    source = f"lambda {', '.join(names)}: ({text})"
    linecache.cache[_EXPRESSION] = (len(source), None, [source], _EXPRESSION)
    fn = eval(compile(source, _EXPRESSION, "eval"), space)
    return fn, tuple(space[name] for name in names), {}


def _explain(shell: Any, line: str) -> Any:
    from . import explain

    options, text = _options(line)
    if not text:
        raise TypeError("%dlc_explain takes a call: %dlc_explain [-o option=value] model(x)")
    if re.match(r"-[a-z]\s+\w", text):
        raise TypeError("%dlc_explain has one option, -o name=value: %dlc_explain -o freeze=True f(x)")
    if re.fullmatch(r"[\w.]+", text):
        raise TypeError(f"%dlc_explain takes a call or an expression of tensors: {text} computes nothing")
    fn, args, kwargs = _as_call(text, shell.user_ns)
    return explain(fn, *args, options=options or None, **kwargs)


# -- %%dlc ---------------------------------------------------------------------------------------------


@functools.cache
def _made(text: str) -> Any:
    """A cell that is run again gets what it got before."""
    if _HEADER.match(text) or _FUNCTION.match(text):
        from .program import Program, Source, lines_of_lets

        source = Source(text, lines_of_lets(text))
        if not _HEADER.match(text):
            text = "dlc 1 graph" + text  # in the place of the cell's first line
        return Program(text, "cell", source)
    from .notation import Kernel

    return Kernel(text)


def _lets(program: str) -> list[str]:
    return [line for line in program.splitlines() if line.startswith("  let ")]


def _statements(made: Any, dtypes: dict[str, Any]) -> dict[str, int]:
    """By let of a kernel's program, the line of the cell that its statement ends in.

    The first statements alone are a kernel too, and their lets are the first ones of the program.
    """
    from .notation import Kernel

    text, found = made.text.splitlines(), dict[str, int]()
    whole = _lets(made.program(*dtypes.values()))
    for end in range(1, len(text) + 1):
        try:
            part = Kernel("\n".join(text[:end]))
            lets = _lets(part.program(*(dtypes[name] for name in part.names)))
        except ir.ParseError:
            continue  # a statement does not end here
        if lets == whole[: len(lets)]:
            for line in lets[len(found) :]:
                found[line.split()[1].rstrip(":")] = end
    return found


@functools.cache
def _program(made: Any, dtypes: tuple[Any, ...]) -> Any:
    from .program import Program, Source, lines_of_lets

    lines = _statements(made, dict(zip(made.names, dtypes, strict=True)))
    last = max(lines.values(), default=len(made.text.splitlines()))
    text = made.program(*dtypes)
    return Program(text, source=Source(made.text, dict.fromkeys(lines_of_lets(text), last) | lines))


def _program_of(made: Any, args: list[Any]) -> Any:
    """The program of a kernel, for the dtypes of these arguments, or for float32."""
    import torch

    from .notation import _to_tensor

    if not hasattr(made, "program"):
        return made
    dtypes = [_to_tensor(name, arg).dtype for name, arg in zip(made.names, args, strict=False)]
    return _program(made, (*dtypes, *[torch.float32] * (len(made.names) - len(dtypes))))


def _cell(shell: Any, line: str, body: str) -> Cell:
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(\(.*\))?\s*", line)
    if match is None:
        raise TypeError(
            "%%dlc takes the name to bind, with arguments to measure: %%dlc name, %%dlc name(a, b)"
        )
    name, call = match[1], match[2]
    try:
        made = _made("\n" + body)
    except ir.ParseError as error:
        raise ir.ParseError(re.sub(r"^kernel:", "cell:", str(error))) from None
    shell.user_ns[name] = made
    names = [p.name for p in made.function.params] if hasattr(made, "function") else list(made.names)
    if not call:
        return Cell(f"{name}({', '.join(names)})", _static(made))
    _, args, sizes = _as_call(f"{name}{call}", shell.user_ns)
    made(*args, **sizes)  # its errors name the arguments
    ordered = [*args, *(sizes.pop(n) for n in names[len(args) :] if n in sizes)]
    return Cell(f"{name}{call}", _program_of(made, ordered).explain(*ordered, **sizes))


def _static(made: Any) -> Any:
    """Of a text whose arguments nobody has given: without times; None where float32 does not fit."""
    try:
        return _program_of(made, []).explain()
    except (ir.ParseError, TypeError, ValueError):
        return None


# -- the extension -------------------------------------------------------------------------------------


def load(shell: Any) -> None:
    """What %load_ext dlc calls."""

    def explain_line(line: str) -> Any:
        return _explain(shell, line)

    def dlc_cell(line: str, cell: str) -> Any:
        return _cell(shell, line, cell)

    shell.register_magic_function(explain_line, "line", "dlc_explain")
    shell.register_magic_function(dlc_cell, "cell", "dlc")
    shell.set_custom_exc((Exception,), _show)


def unload(shell: Any) -> None:
    """What %unload_ext dlc calls."""
    shell.magics_manager.magics["line"].pop("dlc_explain", None)
    shell.magics_manager.magics["cell"].pop("dlc", None)
    shell.set_custom_exc((), None)

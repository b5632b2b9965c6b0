"""What dlc.jit makes of each of NumPy's public functions: the tables of docs/numpy_functions.md.

`python -m tests.backend.numpy_names` writes the page. The functions are NumPy's own list of names, so a
function that a new version adds is found, and has to be in one of the tables.
"""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlc.arrays import Arrays  # noqa: F401  (registers all functions)
from dlc.arrays.draws import _METHODS
from dlc.arrays.host import CALLED
from dlc.arrays.names import FUNCTIONS, OTHERWISE, full_name
from dlc.arrays.ufuncs import TABLE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "numpy_functions.md"
MODULES = {
    "np": np,
    "np.linalg": np.linalg,
    "np.fft": np.fft,
    "np.lib.stride_tricks": np.lib.stride_tricks,
}

#: What is not of arrays: files, text, settings of NumPy's, dates, dtypes. NumPy itself runs it.
NOT_OF_ARRAYS = frozenset(
    [
        "array2string",
        "array_repr",
        "array_str",
        "base_repr",
        "binary_repr",
        "busday_count",
        "busday_offset",
        "can_cast",
        "datetime_as_string",
        "datetime_data",
        "einsum_path",
        "format_float_positional",
        "format_float_scientific",
        "from_dlpack",
        "frombuffer",
        "fromfile",
        "fromiter",
        "frompyfunc",
        "fromregex",
        "fromstring",
        "genfromtxt",
        "get_include",
        "get_printoptions",
        "getbufsize",
        "geterr",
        "geterrcall",
        "info",
        "is_busday",
        "isdtype",
        "issubdtype",
        "load",
        "loadtxt",
        "min_scalar_type",
        "mintypecode",
        "nested_iters",
        "printoptions",
        "promote_types",
        "save",
        "savetxt",
        "savez",
        "savez_compressed",
        "set_printoptions",
        "setbufsize",
        "seterr",
        "seterrcall",
        "show_config",
        "show_runtime",
        "test",
        "typename",
        "isnat",
        "asmatrix",
        "bmat",
        "common_type",
    ]
)

#: Refused, and what to write instead.
INSTEAD = {
    "a size that depends on the values": (
        "argwhere compress extract flatnonzero nonzero unique unique_all unique_counts unique_inverse "
        "unique_values union1d setxor1d intersect1d setdiff1d trim_zeros",
        "`np.where(c, x, y)`, masks (`x[x > 0]`), or NumPy before or after",
    ),
    "a polynomial whose degree depends on the values": (
        "polydiv polymul roots",
        "`np.convolve(p, q)`, `np.linalg.eigvals` of the companion matrix as complex numbers",
    ),
    "a value of Python's": ("allclose array_equal array_equiv", "`np.isclose(a, b).all()`, `(a == b).all()`"),
    "a dtype that depends on the values": (
        "real_if_close linalg.eig linalg.eigvals",
        "`x.real`, `x.astype(complex)`",
    ),
    "a function for each row": ("apply_along_axis apply_over_axes", "the function itself, with `axis=`"),
    "memory": (
        "asfortranarray isfortran may_share_memory shares_memory require lib.stride_tricks.as_strided",
        "nothing: arrays are in the order of C; `sliding_window_view`",
    ),
    "a matrix of several axes": ("linalg.tensorsolve", "`np.linalg.solve` of reshaped arrays"),
}


class Row(NamedTuple):
    name: str
    kind: str


def functions() -> Iterator[tuple[str, Any]]:
    for prefix, module in MODULES.items():
        for name in sorted(dir(module)):
            value = getattr(module, name)
            hidden = (
                name.startswith("_") or isinstance(value, (types.ModuleType, type)) or not callable(value)
            )
            if not hidden and (prefix == "np" or name != "test"):
                yield f"{prefix}.{name}".removeprefix("np."), value


def kind_of(name: str, function: Any) -> str:
    """compiled, partly (compiled or called), called, refused, numpy (not of arrays); "" in no table."""
    if name in {word for words, _ in INSTEAD.values() for word in words.split()}:
        return "refused"
    if name.rpartition(".")[2] in NOT_OF_ARRAYS:
        return "numpy"
    if isinstance(function, np.ufunc):
        return "compiled" if function.__name__ in TABLE or function in FUNCTIONS else "called"
    if function in FUNCTIONS:
        return "partly" if full_name(function).removeprefix("np.") in CALLED else "compiled"
    return "called" if function in OTHERWISE else ""


def rows() -> list[Row]:
    return [Row(name, kind_of(name, function)) for name, function in functions()]


def _listed(found: list[Row], kind: str) -> str:
    lists = []
    for prefix in MODULES:
        short = prefix.removeprefix("np").removeprefix(".")
        names = [r.name for r in found if r.kind == kind and r.name.rpartition(".")[0] == short]
        if names:
            lists.append(" ".join(f"`{name}`" for name in names))
    return "\n\n".join(_wrapped(text) for text in lists)


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 118:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def page() -> str:
    found = rows()
    refused = "\n".join(
        f"| {' '.join(f'`{name}`' for name in words.split())} | {why} | {instead} |"
        for why, (words, instead) in INSTEAD.items()
    )
    draws = _wrapped(" ".join(f"`{name}`" for name in sorted(_METHODS)))
    return f"""# NumPy's functions under dlc.jit

What `dlc.jit` makes of each public function of `np`, `np.linalg`, `np.fft` and `np.lib.stride_tricks`,
without the prefix `np.`. [dlc.jit](jit.md#numpy) has the rules. Where nothing that a function is given
depends on an argument, NumPy itself computes it while the function is captured.

## Compiled

{_listed(found, "compiled")}

## Compiled, and called for some arguments

Options, dtypes or numbers of axes that have no compiled form are calls of NumPy.

{_listed(found, "partly")}

## Called between kernels

{_listed(found, "called")}

The methods `reduce`, `accumulate`, `reduceat`, `outer` and `at` of ufuncs are compiled where a function above
is the same (`np.add.reduce` is `np.sum`), else called. So are ufuncs of dtypes that have no compiled form,
such as powers of integers by an array of integers.

## Draws of a Generator

{draws}

## Refused

| functions | why | instead |
|---|---|---|
{refused}

## Not of arrays

Files, text, dtypes, dates, settings: NumPy runs them when the function is captured.

{_listed(found, "numpy")}
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

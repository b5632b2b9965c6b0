"""Generators of NumPy's that a function of dlc.jit is given: the numbers that they draw, bit for bit.

A draw is a call (host.py), which finds the generator by the parameter that it was given as. Each draw takes a
tensor, the token, that the draw before it returned, and the last token is a result of the graph. So draws
keep the program's order, also of two parameters that are one generator, and none is left out or made twice.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.random import _generator
from torch import Tensor

from .._C import fill_normals
from . import host
from .index import check_write, into, write
from .value import FRAMES, Array, is_array, lift, refuse


class Given(threading.local):
    """The generators that the calls under way in this thread were given: by parameter, for each call."""

    def __init__(self) -> None:
        self.calls: list[dict[int, np.random.Generator]] = []


_given = Given()


def is_generator(value: Any) -> bool:
    return type(value).__module__ == "numpy.random._generator" and type(value) is np.random.Generator


@contextmanager
def given(args: tuple[Any, ...]) -> Iterator[None]:
    """What is drawn inside is drawn from the generators among args."""
    _given.calls.append({k: value for k, value in enumerate(args) if is_generator(value)})
    try:
        yield
    finally:
        _given.calls.pop()


def given_now() -> dict[int, np.random.Generator]:
    """The generators of the innermost call, by parameter."""
    return _given.calls[-1]


class Order:
    """The token of the draws of one capture."""

    def __init__(self, token: Tensor) -> None:
        self.token = token


class Generator:
    """A generator that is traced. place: its parameter."""

    def __init__(self, place: int, order: Order) -> None:
        self.place = place
        self.order = order

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return np.random.Generator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _METHODS:
            return functools.partial(_METHODS[name], self)
        if not hasattr(np.random.Generator, name):
            raise AttributeError(f"'numpy.random._generator.Generator' object has no attribute '{name}'")
        refuse(f"it reads .{name} of a generator", "dlc.jit has random, normal, choice and the like")


def _size(size: Any) -> list[Any]:
    return list(size) if isinstance(size, (tuple, list)) else [size]


def _drawn(
    name: str,
    generator: Generator,
    args: tuple[Any, ...],
    options: dict[str, Any],
    like: Any,
    shape: list[Any],
) -> Any:
    """One draw; like: of the dtype of its result, a float for a float of Python's."""
    if FRAMES:
        refuse("a step of a loop, or a way of a branch, draws from a generator", "draw all numbers before it")
    made = host.draw(f"Generator.{name}", generator.place, generator.order.token, args, options, like, shape)
    generator.order.token = made[0]
    weak = type(like) is float
    scalar = weak or isinstance(like, np.generic)
    return Array(made[1], scalar=scalar, weak=weak)


# -- distributions -------------------------------------------------------------------------------------

#: How many parameters come before size=, of distributions of floats and of whole numbers.
_OF_FLOATS = {
    "beta": 2, "chisquare": 1, "exponential": 1, "f": 2, "gamma": 2, "gumbel": 2, "laplace": 2, "logistic": 2,
    "lognormal": 2, "noncentral_chisquare": 2, "noncentral_f": 3, "normal": 2, "pareto": 1, "power": 1,
    "random": 0, "rayleigh": 1, "standard_cauchy": 0, "standard_exponential": 0, "standard_gamma": 1,
    "standard_normal": 0, "standard_t": 1, "triangular": 3, "uniform": 2, "vonmises": 2, "wald": 2,
    "weibull": 1,
}  # fmt: skip
_OF_INTS = {
    "binomial": 2, "geometric": 1, "hypergeometric": 3, "integers": 2, "logseries": 1, "negative_binomial": 2,
    "poisson": 1, "zipf": 1,
}  # fmt: skip
#: The parameters behind those; of the others there is size= alone.
_AFTER = {
    **dict.fromkeys(("random", "standard_normal", "standard_gamma"), ("size", "dtype", "out")),
    "standard_exponential": ("size", "dtype", "method", "out"),
    "integers": ("size", "dtype", "endpoint"),
}


def _distribution(
    name: str, count: int, default: Any, generator: Generator, *args: Any, **options: Any
) -> Any:
    from .called import together

    after = _AFTER.get(name, ("size",))
    behind = dict(zip(after, args[count:], strict=False))
    if len(args) > count + len(after) or behind.keys() & options.keys():
        raise TypeError(f"{name}() got too many arguments, or one of them twice")
    if "out" in options and "out" not in after:
        raise TypeError(f"{name}() got an unexpected keyword argument 'out'")
    args, options = args[:count], options | behind
    parameters = [*args, *(value for key, value in options.items() if key not in after)]
    size, out = options.get("size"), options.pop("out", None)
    if out is not None and not is_array(out):
        refuse("it writes to an array that NumPy made", "make it in the function")
    if out is not None and size is None:
        size = options["size"] = out.shape
    shapes = [np.shape(p) for p in parameters if p is not None]
    one = size is None and not any(shapes)
    shape = together((), *shapes) if size is None else _size(size)
    wanted = options.get("dtype", default)
    dtype = np.dtype(wanted)
    like: Any = np.zeros((0,) * len(shape), dtype)
    if one and name == "integers" and wanted is not int and wanted is not bool:
        like = dtype.type(0)
    elif one and dtype.kind == "f":
        like = 0.0
    elif one:
        of = "a bool" if dtype.kind == "b" else "an int"
        refuse(f"rng.{name}(..) gives {of} of Python's", "give size=1, or size=()")
    result = _drawn(name, generator, args, options, like, shape)
    return result if out is None else into(out, result, "no")


# -- several numbers at once, and draws of what there is -----------------------------------------------


def _dirichlet(generator: Generator, alpha: Any, size: Any = None) -> Any:
    shape = [*([] if size is None else _size(size)), *np.shape(alpha)]
    return _drawn("dirichlet", generator, (alpha, size), {}, np.zeros((0,) * len(shape)), shape)


def _multivariate_normal(generator: Generator, mean: Any, cov: Any, size: Any = None, **options: Any) -> Any:
    shape = [*([] if size is None else _size(size)), *np.shape(mean)]
    like = np.zeros((0,) * len(shape))
    return _drawn("multivariate_normal", generator, (mean, cov, size), options, like, shape)


def _multinomial(generator: Generator, n: Any, pvals: Any, size: Any = None) -> Any:
    from .called import together

    *outer, count = np.shape(pvals)
    shape = [*(together(np.shape(n), tuple(outer)) if size is None else _size(size)), count]
    return _drawn(
        "multinomial", generator, (n, pvals, size), {}, np.zeros((0,) * len(shape), np.int64), shape
    )


def _multivariate_hypergeometric(
    generator: Generator, colors: Any, nsample: Any, size: Any = None, method: str = "marginals"
) -> Any:
    shape = [*([] if size is None else _size(size)), *np.shape(colors)]
    like = np.zeros((0,) * len(shape), np.int64)
    return _drawn("multivariate_hypergeometric", generator, (colors, nsample, size, method), {}, like, shape)


def _source(value: Any) -> Any:
    """An array, or the int or the size that stands for np.arange of it."""
    return lift(value) if is_array(value) or isinstance(value, (np.ndarray, list, tuple)) else value


def _choice(
    generator: Generator, a: Any, size: Any = None, replace: Any = True, p: Any = None, axis: int = 0,
    shuffle: Any = True,
) -> Any:  # fmt: skip
    source = _source(a)
    before, behind = ([], [])
    if is_array(source):
        axis = axis % source.ndim
        before, behind = list(source.shape[:axis]), list(source.shape[axis + 1 :])
    shape = [*before, *([] if size is None else _size(size)), *behind]
    dtype = source.dtype if is_array(source) else np.dtype(np.int64)
    if size is None and not is_array(source):
        refuse("rng.choice(n) gives an int of Python's", "give size=1, or size=()")
    one = size is None and not shape
    like = dtype.type(0) if one else np.zeros((0,) * len(shape), dtype)
    return _drawn("choice", generator, (source, size, replace, p, axis, shuffle), {}, like, shape)


def _permutation(generator: Generator, x: Any, axis: int = 0) -> Any:
    source = _source(x)
    shape = list(source.shape) if is_array(source) else [source]
    dtype = source.dtype if is_array(source) else np.dtype(np.int64)
    return _drawn("permutation", generator, (source, axis), {}, np.zeros((0,) * len(shape), dtype), shape)


def _permuted(generator: Generator, x: Any, *, axis: Any = None, out: Any = None) -> Any:
    source = lift(x)
    like = np.zeros((0,) * source.ndim, source.dtype)
    result = _drawn("permuted", generator, (source,), {"axis": axis}, like, list(source.shape))
    return result if out is None else into(out, result, "safe")


def _shuffled(generator: np.random.Generator, x: np.ndarray, axis: int = 0) -> np.ndarray:
    made = x.copy()
    generator.shuffle(made, axis)
    return made


def _shuffle(generator: Generator, x: Any, axis: int = 0) -> None:
    if not is_array(x):
        refuse("rng.shuffle takes an array here, not a list or another object", "use rng.permutation(x)")
    check_write(x)
    like = np.zeros((0,) * x.ndim, x.dtype)
    write(x, _drawn("shuffle", generator, (x, axis), {}, like, list(x.shape)).tensor)


_METHODS: dict[str, Callable[..., Any]] = {
    **{name: functools.partial(_distribution, name, n, float) for name, n in _OF_FLOATS.items()},
    **{name: functools.partial(_distribution, name, n, np.int64) for name, n in _OF_INTS.items()},
    "dirichlet": _dirichlet,
    "multivariate_normal": _multivariate_normal,
    "multinomial": _multinomial,
    "multivariate_hypergeometric": _multivariate_hypergeometric,
    "choice": _choice,
    "permutation": _permutation,
    "permuted": _permuted,
    "shuffle": _shuffle,
}


def _draws(name: str) -> Callable[..., Any]:
    def draw(token: np.ndarray, place: int, *args: Any, **options: Any) -> Any:
        return getattr(_given.calls[-1][place], name)(*args, **options)

    return draw


#: From so many normal numbers on, they are drawn by _C.fill_normals.
_MANY = 64


def _loc_and_scale(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> tuple[Any, Any, Any]:
    return loc, scale, size


def _neither(size: Any = None, dtype: Any = np.float64) -> tuple[Any, Any, Any]:
    return (-0.0, 1.0, size) if np.dtype(dtype) == np.float64 else (None, None, None)


def _normal(name: str, parameters: Callable[..., tuple[Any, Any, Any]]) -> Callable[..., Any]:
    """The draws of a distribution of normal numbers, which -0.0 + 1.0 * them are."""

    def draw(token: np.ndarray, place: int, *args: Any, **options: Any) -> Any:
        generator = _given.calls[-1][place]
        loc, scale, size = parameters(*args, **options)
        plain = size is not None and np.ndim(loc) == 0 and np.ndim(scale) == 0 and loc is not None
        if plain and scale > 0 and np.prod(size, dtype=np.float64) >= _MANY:
            drawn, bits = np.empty(size), generator.bit_generator
            with bits.lock:
                filled = fill_normals(_generator.__file__, bits.capsule, drawn, float(loc), float(scale))
            if filled:
                return drawn
        return getattr(generator, name)(*args, **options)

    return draw


for _name in _METHODS:
    host.CALLED[f"Generator.{_name}"] = host.Called(_draws(_name), None)
for _name, _parameters in (("normal", _loc_and_scale), ("standard_normal", _neither)):
    host.CALLED[f"Generator.{_name}"] = host.Called(_normal(_name, _parameters), None)
host.CALLED["Generator.shuffle"] = host.Called(
    lambda token, place, x, axis: _shuffled(_given.calls[-1][place], x, axis), None
)

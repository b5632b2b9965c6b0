"""An array of NumPy's meaning over a tensor that is traced.

A function of dlc.jit that is called with arrays is captured with these in their place: they have NumPy's
names and dtypes, and a result is a scalar where NumPy's is one. What NumPy would do otherwise than torch, or
what there is no tensor form of, is refused with the user's line. Every value of NumPy's meaning that is not a
constant is one of these; NumPy's own functions find them by its protocols (`__array_ufunc__`,
`__array_function__`), torch's by `__torch_function__`.
"""

from __future__ import annotations

import itertools
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor

from .._C import CaptureError
from ..trace import Never

TORCH = {
    np.dtype(name): getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
        *("complex64", "complex128", "uint16", "uint32", "uint64"),
    )
}
NUMPY = {tensor: array for array, tensor in TORCH.items()}

#: Sizes of a last axis behind others that are numbers and no symbols: the parts of a point, a colour, a pair.
#: A loop over so few elements costs more than what it computes, unless their number is known.
FEW = range(2, 5)
#: A loop over the elements of an array is unrolled, up to so many of them.
MAX_UNROLLED = 16
#: Loops over ranges of ints are unrolled, up to so many steps of all of them in one capture.
MAX_STEPS = 1024

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OTHERS = [os.path.dirname(os.path.abspath(module.__file__ or "")) for module in (np, torch)]
_LIBRARIES = tuple(folder + os.sep for folder in (_OWN, *_OTHERS))

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Refused(CaptureError):
    """There is no such thing in NumPy's meaning here; another capture of the function may do without."""


def _user_frame() -> types.FrameType | None:
    """The innermost frame that is neither dlc's, torch's nor NumPy's."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*_LIBRARIES, "<__array_function__")):
            return frame
        frame = frame.f_back
    return None


def user_line() -> str:
    """file:line of the user's innermost frame; "" where there is none."""
    frame = _user_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


#: The code of functions whose source is not known, so that nobody can read their loops and branches.
UNREAD: weakref.WeakSet[types.CodeType] = weakref.WeakSet()


def unless_unread(fix: str) -> str:
    """The fix, unless the loop or the branch could be had if the function's source were known."""
    frame = _user_frame()
    if frame is None or frame.f_code not in UNREAD:
        return fix
    return (
        f"the source of {frame.f_code.co_name}() is not known, so its loops and branches are not taken as a "
        "whole; define it in a file"
    )


def refuse(what: str, fix: str = "", error: type[CaptureError] = Refused) -> NoReturn:
    """Raises for what cannot be had, with the user's line and what to write instead."""
    line = user_line()
    raise error(f"{what}{f' ({line})' if line else ''}{': ' if fix else ''}{fix}")


def torch_dtype(dtype: Any) -> torch.dtype:
    """torch's dtype for anything that NumPy takes for one."""
    dtype = np.dtype(dtype)
    if dtype not in TORCH:
        refuse(f"it makes an array of {dtype}, which dlc has not", "astype() chooses another dtype before")
    return TORCH[dtype]


#: The bodies of loops and branches that are traced, each in the one before; see flow.py.
FRAMES: list[Any] = []

_NUMBERS = itertools.count()


class Root:
    """The memory that views share; argument: the name of the argument that it is."""

    def __init__(self, argument: str | None = None) -> None:
        self.argument = argument
        self.whole: Tensor | None = None  # the tensor that all views are of
        self.level = len(FRAMES)  # of the body that made it
        self.number = next(_NUMBERS)  # in the order in which memory is made
        self.users = 0  # arrays that are there
        self.fixed = ""  # why it cannot be written to
        self.writes = 0  # to any part of it
        self.line = ""  # of the first of them
        self.shares: list[tuple[Root, int]] = []  # memory that it may be, and what had been written to that
        self.lost = False  # a loop began with a copy of it, and has written to that

    def may_share(self, roots: list[Root]) -> None:
        """After a branch it is a copy of one of them, where NumPy has the array itself."""
        self.fixed = "it writes to an array that shares its memory with another since a loop or a branch"
        self.shares = [(root, root.writes) for root in roots]
        self.shares += [shared for root in roots for shared in root.shares]

    def check_read(self) -> None:
        """Refuses to read a copy that a write has made another array than NumPy's."""
        if self.lost:
            refuse(
                "it reads an array that a loop has written to by a name that is another array after it",
                "write x.copy() before the loop",
            )
        if any(root.writes != writes for root, writes in self.shares):
            refuse(
                "it reads an array after a write to another one, whose memory it shares since a branch",
                "write x.copy() on the ways of the branch",
            )

    def written(self) -> None:
        """Notes a write to a part of it."""
        self.writes += 1
        if self.argument is not None and not self.line:
            self.line = user_line()


def _same_end(a: Any, b: Any) -> bool:
    if a is b or a is None or b is None or is_array(a) or is_array(b):
        return a is b
    return bool(a == b)


class Cut(NamedTuple):
    """A slice of the first axis whose ends are values, so that nobody can know its size.

    It is a view in NumPy, and a reading of the whole axis here: a write to its memory makes it stale.
    """

    start: Any  # None, an int, or an Array that is a scalar
    stop: Any
    size: Any  # of the axis
    of: Array  # the whole axis
    writes: int  # what had been written to its memory

    def same_places(self, other: Cut | None) -> bool:
        """Are they the same places of axes of one size?"""
        if other is None or not _same_end(self.start, other.start) or not _same_end(self.stop, other.stop):
            return False
        return bool(self.size == other.size)

    def with_own(self, whole: Tensor) -> Cut:
        """The same places of an array of its own."""
        return self._replace(of=Array(whole), writes=0)

    def check_read(self, level: int) -> None:
        if self.of.root.writes != self.writes:
            refuse("it reads a slice that ends at a value after a write to its array", "slice it again")
        if level != len(FRAMES):
            refuse("it reads a slice that ends at a value within a loop or a branch", "slice it there")


class Chosen(NamedTuple):
    """The elements of an array where a mask is true, as long as nobody asks how many they are.

    What is computed of each of them is computed of all elements instead, and the mask chooses when they are
    put back: y[m] *= 2 is a select then, whose size is known.
    """

    whole: Tensor  # what they are chosen from: no write changes it
    mask: Tensor
    places: Tensor  # the mask itself, to compare by identity,
    root: Root  # its memory
    writes: int  # and what had been written to that
    cut: Cut | None = None  # the mask is that of a slice

    def elements(self) -> Tensor:
        if self.cut is not None:
            refuse(
                "a slice ends at a value of an array, so its size is not known",
                "use np.where over the whole array",
            )
        return self.whole[self.mask]

    def with_whole(self, whole: Tensor) -> Chosen:
        return self._replace(whole=whole, cut=self.cut and self.cut.with_own(whole))

    def same_places(self, places: Tensor, root: Root) -> bool:
        """Does a mask choose the places that these elements come from?"""
        return places is self.places and root.writes == self.writes


class Array:
    """An array, or (scalar) a NumPy scalar.

    A view that torch has no form of, such as x[::-1], is a function of the array that it is a view of, which
    is applied each time it is read: it sees what is written to that array later. What is written to the view
    is put into that array by another function, if NumPy's view is not read-only.

    weak: it is a number of Python's, a float that is an argument, the step of a loop, or computed of such;
    symbol: of an argument, torch's; chosen: what a mask has chosen, None as soon as it is a tensor of its
    own.
    In a body that is traced (FRAMES), the tensors of arrays from outside of it are its operands.
    """

    __slots__ = (
        *("__weakref__", "_chosen", "_read", "_store", "_symbol", "_tensor"),
        *("level", "root", "scalar", "weak"),
    )
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        tensor: Tensor | None,
        *,
        scalar: bool = False,
        root: Root | None = None,
        read: Callable[[], Tensor] | None = None,
        store: Callable[[Tensor], None] | None = None,
        weak: bool = False,
        symbol: torch.SymFloat | None = None,
        chosen: Chosen | None = None,
    ) -> None:
        self._tensor = tensor
        self._chosen = chosen
        self._read, self._store = read, store
        self.scalar = scalar
        self.root = root or Root()
        self.root.users += 1
        if self.root.whole is None:
            self.root.whole = tensor
        self.weak = weak
        self._symbol = symbol
        self.level = len(FRAMES)

    def __del__(self) -> None:
        self.root.users -= 1

    @property
    def tensor(self) -> Tensor:
        if self.root.shares or self.root.lost:
            self.root.check_read()
        if self._read:
            return self._read()
        outside = self.level - len(FRAMES)
        if outside > 0:
            refuse("it reads a value of one step of a loop, or of one way of a branch, after it", error=Never)
        if self._chosen is not None:
            elements = self.chosen.elements()
            if outside:
                return elements
            self.replace(elements)
        if outside:
            return inside(self.root, self._tensor, self.level)
        return self._tensor  # type: ignore[return-value]

    def replace(self, tensor: Tensor) -> None:
        """Reads of this array from now on read the tensor, which has the same elements."""
        if self.level != len(FRAMES):
            refuse("a step of a loop, or a way of a branch, changes what a mask has chosen before it")
        self._tensor, self._chosen = tensor, None
        if self.root.whole is None:
            self.root.whole = tensor

    @property
    def chosen(self) -> Chosen | None:
        found = self._chosen
        if found is not None and found.cut is not None:
            found.cut.check_read(self.level)
        if found is None or self.level == len(FRAMES):
            return found
        parts = (inside(self.root, part, self.level) for part in found[:3])
        return Chosen(*parts, found.root, found.writes)

    @chosen.setter
    def chosen(self, chosen: Chosen) -> None:
        if self.level != len(FRAMES):
            refuse("a step of a loop, or a way of a branch, changes what a mask has chosen before it")
        self._chosen = chosen

    @property
    def symbol(self) -> torch.SymFloat | None:
        return self._symbol if self.level == len(FRAMES) else None

    @property
    def lazy(self) -> bool:
        return self._read is not None

    @property
    def read_only(self) -> bool:
        return self.lazy and self._store is None

    def store(self, value: Tensor) -> None:
        """Its elements are those of the value from now on, of the same dtype and sizes; not of read_only."""
        if self._store is None:
            self.tensor.copy_(value)
        else:
            self._store(value)

    def view_of(
        self,
        function: Callable[[Tensor], Tensor],
        *,
        lazy: bool = False,
        scalar: bool = False,
        put: Callable[[Tensor, Tensor], object] | None = None,
    ) -> Array:
        """function of it, which is a view of the same memory (lazy: which NumPy has as a view).

        put: writes a value of the view's sizes to the tensor that the function is given; without it a lazy
        view of an array is read-only.
        """
        if scalar:
            return Array(function(self.tensor).clone(), scalar=True)
        if not lazy and not self.lazy:
            return Array(function(self.tensor), root=self.root)
        if not lazy:
            put = lambda t, value: function(t).copy_(value)  # noqa: E731  (a view of torch's)

        def store(value: Tensor) -> None:
            whole = self.tensor.clone() if self.lazy else self.tensor
            put(whole, value)  # type: ignore[misc]
            if self.lazy:
                self.store(whole)

        writable = put is not None and not self.read_only
        return Array(
            None, root=self.root, read=lambda: function(self.tensor), store=store if writable else None
        )

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def __class__(self) -> type:  # type: ignore[override]
        """isinstance(x, np.ndarray), np.floating and the like are as in NumPy."""
        if self.weak:
            return self.python
        return self.dtype.type if self.scalar else np.ndarray

    @property
    def python(self) -> type:
        """The type of a weak number."""
        return float if self._tensor.is_floating_point() else int  # type: ignore[union-attr]

    @property
    def dtype(self) -> np.dtype:
        dtype = self.tensor.dtype if self.chosen is None else self.chosen.whole.dtype
        if dtype not in NUMPY:
            refuse(
                f"NumPy has no arrays of {dtype}", "x.to() of another dtype comes before NumPy's functions"
            )
        return NUMPY[dtype]

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        if self.chosen is not None:
            return self.chosen.whole.dim() - self.chosen.mask.dim() + 1
        return self.tensor.dim()

    @property
    def size(self) -> Any:
        return self.tensor.numel()

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        if self.shape[0] > MAX_UNROLLED:
            refuse(
                "it loops over the elements of an array",
                unless_unread(
                    f"write it as operations on whole arrays (loops of up to {MAX_UNROLLED} are unrolled)"
                ),
                Never,
            )
        return iter([self[k] for k in range(int(self.shape[0]))])

    def __repr__(self) -> str:
        kind = "scalar" if self.scalar else f"array of {self.ndim} axes"
        return f"<{kind}, {self.tensor.dtype}, traced by dlc.jit>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that it does not have
            raise AttributeError(name)
        if hasattr(np.ndarray, name):
            refuse(f"it reads .{name} of an array", "dlc.jit has no such thing")
        fix = f": torch.{name}(x) is torch's" if callable(getattr(torch, name, None)) else ""
        raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}' ({user_line()}){fix}")

    # -- values, which are not known when it is captured -----------------------------------------------

    def __bool__(self) -> bool:
        refuse(
            "it decides by the values of an array",
            unless_unread("np.where chooses by them, np.logical_and, np.maximum and the like combine them"),
        )

    def _value(self, what: str) -> NoReturn:
        refuse(
            f"{what} is a value of the array, which is not known when the function is captured",
            "leave it a NumPy scalar, and np.sqrt and the like to functions of it",
        )

    def __float__(self) -> float:
        self._value("float() of it")

    def __int__(self) -> int:
        self._value("int() of it")

    def __index__(self) -> int:
        self._value("an index or a size made of it")

    def __complex__(self) -> complex:
        self._value("complex() of it")

    def item(self, *args: Any) -> Any:
        self._value(".item()")

    def tolist(self) -> Any:
        self._value(".tolist()")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        refuse(
            "NumPy, or an array of its own, would take the array's values while the function is captured",
            "make arrays in the function itself, np.zeros(x.shape), and convert by x.astype(dtype)",
        )

    # -- protocols -------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .ufuncs import apply_method

        return apply_method(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from .names import function_of

        return function_of(func)(*args, **kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A function of torch's has torch's meaning: of tensors, its results are arrays."""
        return with_tensors(func, args, kwargs or {})


def inside(root: Root, tensor: Any, level: int) -> Tensor:
    """What a tensor of that level is in the body that is traced."""
    for frame in FRAMES[level:]:
        tensor = frame.inside(root, tensor)
    return tensor


class Unknown:
    """A result of which nothing is known when the function is captured: it may be left unread."""

    def __init__(self, what: str, fix: str) -> None:
        self._why = what, fix

    def read(self, *_: Any) -> NoReturn:
        refuse(*self._why)

    def __getattr__(self, name: str) -> Any:
        self.read()


for _name in ("add", "sub", "mul", "truediv", "pow", "matmul"):
    for _side in ("", "r"):
        setattr(Unknown, f"__{_side}{_name}__", Unknown.read)
for _name in ("len", "iter", "getitem", "bool", "float", "array", "neg", "abs", "lt", "le", "gt", "ge"):
    setattr(Unknown, f"__{_name}__", Unknown.read)


def number(value: Array) -> Any:
    """A float of Python's, as torch traces it."""
    return value.tensor.item() if value.symbol is None else value.symbol


def _to_tensor(value: Any) -> Any:
    if not is_array(value):
        return value
    return number(value) if value.weak and value.symbol is not None else value.tensor


def _to_array(value: Any) -> Any:
    return Array(value) if isinstance(value, Tensor) else value


def with_tensors(call: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """call of the tensors of arrays, whose results become arrays."""
    args, kwargs = pytree.tree_map(_to_tensor, (args, kwargs))
    return pytree.tree_map(_to_array, call(*args, **kwargs))


def is_array(value: Any) -> bool:
    return type(value) is Array


def is_symbol(value: Any) -> bool:
    return isinstance(value, SYMBOLS)


def is_known(value: Any) -> bool:
    """Is nothing of it traced, so that NumPy itself can take it?"""
    return not any(is_array(leaf) or is_symbol(leaf) or isinstance(leaf, Tensor) for leaf in _leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    if not is_array(value) and isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif type(value) is dict:
        yield from _leaves(list(value.values()))
    else:
        yield value


# -- operands ------------------------------------------------------------------------------------------


def constant(value: Any) -> Array:
    """An array of its own of NumPy's."""
    torch_dtype(value.dtype)
    native = np.array(value, value.dtype.newbyteorder("="), order="C")
    return Array(torch.from_numpy(native).clone(), scalar=isinstance(value, np.generic))


def is_python(value: Any) -> bool:
    """Is it a number of Python's?"""
    if is_array(value):
        return value.weak
    numbers = (bool, int, float, complex)
    return is_symbol(value) or (isinstance(value, numbers) and not isinstance(value, np.generic))


def filled(value: Any, dtype: np.dtype) -> Tensor:
    """A tensor of no axes; value: a number of Python's or a symbol."""
    if isinstance(value, torch.SymBool):
        value = bool(value)
    if isinstance(value, torch.SymInt) and dtype.kind in "iu" and dtype.itemsize < 8:
        limits = np.iinfo(dtype)
        if value < int(limits.min) or value > int(limits.max):  # a condition of the variant
            raise OverflowError(f"Python integer {value} out of bounds for {dtype}")
    return torch.full((), value, dtype=torch_dtype(dtype))


def lift(value: Any) -> Array:
    """The array that np.asarray makes of it."""
    if is_array(value):
        return value
    if isinstance(value, Tensor):
        return Array(value)
    if isinstance(value, torch.SymFloat):
        return Array(filled(value, np.dtype(float)))
    if isinstance(value, (torch.SymInt, torch.SymBool)):
        return Array(filled(value, np.dtype(int if isinstance(value, torch.SymInt) else bool)))
    if is_known(value):
        return Array(constant(np.asarray(value)).tensor)
    if isinstance(value, (list, tuple)):
        parts = [lift(item) for item in value]
        dtype = np.result_type(*(part.dtype for part in parts))
        return Array(torch.stack([part.tensor.to(torch_dtype(dtype)) for part in parts]))
    refuse(f"NumPy makes an array of objects of type {type(value).__name__}")


def kind(value: Any) -> Any:
    """What promotion looks at: a dtype, or Python's type, which is weak."""
    if is_array(value):
        return value.python if value.weak else value.dtype
    if isinstance(value, (bool, torch.SymBool)):
        return np.dtype(bool)
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, (int, torch.SymInt)):
        return int
    if isinstance(value, (float, torch.SymFloat)):
        return float
    if isinstance(value, complex):
        return complex
    return lift(value).dtype


def together(*values: Any) -> np.dtype:
    """The dtype that NumPy gives them all, by NEP 50."""
    kinds = [kind(value) for value in values]
    return np.result_type(*(k(0) if isinstance(k, type) else k for k in kinds))


def cast(value: Any, dtype: np.dtype) -> Any:
    """A tensor of the dtype, or of a constant that is weak a number of Python's that has it without loss."""
    target = torch_dtype(dtype)
    if is_array(value):
        return value.tensor.to(target)
    if is_symbol(value):
        return filled(value, dtype)
    if is_python(value):
        return dtype.type(value).item()  # raises OverflowError as NumPy does
    return lift(value).tensor.to(target)


def as_tensor(value: Any, dtype: np.dtype) -> Tensor:
    found = cast(value, dtype)
    return found if isinstance(found, Tensor) else filled(found, dtype)

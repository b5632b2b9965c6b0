"""dlc.kernel: a text of einstein notation as an operator. See docs/kernels.md.

All kernels are calls of one operator of torch's, dlc::kernel, that is given the text: so to make one
registers nothing, and the compiler puts the text's own lets in the place of a call in a graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack
from torch._library.autograd import Info, make_autograd_impl
from torch.autograd import forward_ad

from . import torch_init  # noqa: F401  (the compiler wants to know of torch)
from ._C import notation
from .compiler import compile_with
from .options import parse

_LIBRARY = torch.library.Library("dlc", "DEF")
_LIBRARY.define("kernel(str text, Tensor[] args) -> Tensor[]")
_LIBRARY.define("kernel_gradient(str text, Tensor[] args, Tensor[] seeds, bool[] wanted) -> Tensor[]")

_DTYPES = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
_TORCH = {name: dtype for dtype, name in _DTYPES.items()}
_NUMPY = {np.dtype(str(dtype).removeprefix("torch.")) for dtype in _DTYPES if dtype != torch.bfloat16}
_PLAIN = (Tensor, torch.nn.Parameter)
_FUNCTIONS = {"__builtins__": {}, "max": torch.sym_max, "min": torch.sym_min}


class _Type(NamedTuple):
    """A tensor of a program: its dtype, and each size as an expression of size symbols."""

    dtype: torch.dtype
    sizes: tuple[str, ...]
    codes: tuple[CodeType, ...]


def _types(rows: list[tuple[str, tuple[str, ...]]]) -> list[_Type]:
    return [_Type(_TORCH[d], sizes, tuple(compile(s, "size", "eval") for s in sizes)) for d, sizes in rows]


class _Program:
    """What a text is for arguments of some dtypes: compiled when it is first run."""

    def __init__(self, text: str, dtypes: tuple[torch.dtype, ...], wanted: tuple[bool, ...] | None) -> None:
        self.names = [name for name, _ in notation(text)[0]]
        names = tuple(_dtype_name(*row) for row in zip(self.names, dtypes, strict=True))
        made = notation(text, names) if wanted is None else notation(text, names, wanted)
        self.text, params, results = made
        self.params, self.results = _types(params), _types(results)
        self.names += ["a gradient"] * (len(params) - len(self.names))

    @functools.cached_property
    def run(self) -> Any:
        inputs = [("tensor", k) for k in range(len(self.params))]
        outputs = [("tensor", k, None) for k in range(len(self.results))]
        parts = {"text": self.text, "inputs": inputs, "outputs": outputs, "calls": []}
        return compile_with(parse({}), parts, self.refused)

    def sizes(self, args: list[Tensor]) -> dict[str, Any]:
        """The size symbols, by the arguments."""
        found: dict[str, Any] = {}
        for param, arg in zip(self.params, args, strict=True):
            found.update((s, n) for s, n in zip(param.sizes, arg.shape, strict=True) if s.isidentifier())
        return found

    def shapes(self, args: list[Tensor]) -> list[list[Any]]:
        """The sizes of the results; raises ValueError for arguments of which two sizes do not agree."""
        known = self.sizes(args)
        for name, param, arg in zip(self.names, self.params, args, strict=True):
            for axis, (text, code) in enumerate(zip(param.sizes, param.codes, strict=True)):
                wants = eval(code, _FUNCTIONS, known)
                if arg.shape[axis] != wants:
                    by = "" if text.isidentifier() else f" ({text})"
                    raise ValueError(
                        f"axis {axis} of {name!r} has {arg.shape[axis]} places, and {wants} by the other "
                        f"arguments{by}"
                    )
        shapes = [[eval(code, _FUNCTIONS, known) for code in result.codes] for result in self.results]
        for shape in shapes:
            if any(isinstance(n, int) and n < 0 for n in shape):
                raise ValueError(
                    f"the arguments are too small for what the text reads: a result of sizes {shape}"
                )
        return shapes

    def refused(self, *args: Tensor) -> Any:
        """The compiled program does not take these arguments."""
        self.shapes(list(args))
        for name, arg in zip(self.names, args, strict=True):
            if 0 in arg.shape:
                raise ValueError(
                    f"argument {name!r} has an axis without a place, of which a maximum or minimum is wanted"
                )
        if forward_ad._current_level >= 0:
            raise NotImplementedError(
                "a kernel has no derivative in forward mode (torch.autograd.forward_ad, torch.func.jvp): "
                "take its gradient by backward(), or write it as a function of torch's"
            )
        kinds = ", ".join(f"{name!r} a {type(a).__name__}" for name, a in zip(self.names, args, strict=True))
        raise TypeError(f"a kernel takes dense tensors on the CPU; its arguments are {kinds}")

    def __call__(self, args: list[Tensor]) -> tuple[Tensor, ...]:
        for name, arg in zip(self.names, args, strict=True):
            if not arg.is_cpu:
                raise ValueError(f"argument {name!r} is on {arg.device}: a kernel runs on the CPU")
        try:
            return self.run(*[arg if arg.is_contiguous() else arg.contiguous() for arg in args])
        except RuntimeError:
            self.shapes(args)  # a negative size
            raise


def _dtype_name(argument: str, dtype: torch.dtype) -> str:
    if dtype not in _DTYPES:
        raise TypeError(
            f"argument {argument!r} is of {dtype}, which a kernel does not take: .float() makes f32"
        )
    return _DTYPES[dtype]


@functools.cache
def _program(text: str, dtypes: tuple[torch.dtype, ...], wanted: tuple[bool, ...] | None = None) -> _Program:
    return _Program(text, dtypes, wanted)


def _of(text: str, args: list[Tensor], wanted: tuple[bool, ...] | None = None) -> _Program:
    return _program(text, tuple(arg.dtype for arg in args), wanted)


# -- the operators -------------------------------------------------------------------------------------


def _run(text: str, args: list[Tensor]) -> list[Tensor]:
    return list(_of(text, args)(args))


def _fake(text: str, args: list[Tensor]) -> list[Tensor]:
    program = _of(text, args)
    shapes = program.shapes(args)
    return [
        args[0].new_empty(shape, dtype=result.dtype)
        for shape, result in zip(shapes, program.results, strict=True)
    ]


def _run_gradient(text: str, args: list[Tensor], seeds: list[Tensor], wanted: list[bool]) -> list[Tensor]:
    return list(_of(text, args, tuple(wanted))([*args, *seeds]))


def _fake_gradient(text: str, args: list[Tensor], seeds: list[Tensor], wanted: list[bool]) -> list[Tensor]:
    return [arg.new_empty(arg.shape) for arg, wants in zip(args, wanted, strict=True) if wants]


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.text, args = inputs
    ctx.save_for_backward(*args)
    ctx.wanted = [arg.requires_grad for arg in args]
    ctx.results = [(result.shape, result.dtype) for result in output]


def _backward(ctx: Any, grads: list[Tensor | None]) -> tuple[None, list[Tensor | None]]:
    args = list(ctx.saved_tensors)
    seeds = [
        args[0].new_zeros(shape, dtype=dtype) if grad is None else grad
        for grad, (shape, dtype) in zip(grads, ctx.results, strict=True)
        if dtype.is_floating_point
    ]
    made = iter(torch.ops.dlc.kernel_gradient.default(ctx.text, args, seeds, ctx.wanted))
    return None, [next(made) if wants else None for wants in ctx.wanted]


def _refused(text: str, what: str) -> NotImplementedError:
    line = text.strip().partition("\n")[0]
    return NotImplementedError(
        f"dlc.kernel({line!r}) has no {what}: write the function with torch where that is needed"
    )


def _save_text(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.text = inputs[0]


def _no_second(ctx: Any, *_: Any) -> Any:
    raise _refused(ctx.text, "second derivative")


def _no_rule(info: Any, dims: Any, text: str, *_: Any) -> Any:
    raise _refused(text, "rule for torch.vmap")


def _has_tangent(tensor: Tensor) -> bool:
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def _differentiable(operator: Any, backward: Callable[..., Any], save: Callable[..., None]) -> None:
    """Registers a backward, and refuses what torch would leave out without a word: tangents."""
    recorded = make_autograd_impl(operator, Info(backward, save))

    def call(keyset: Any, text: str, args: list[Tensor], *rest: Any) -> Any:
        tensors = [*args, *(rest[0] if rest else ())]
        if any(map(_has_tangent, tensors)):
            raise _refused(text, "derivative in forward mode")
        wants = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if wants and torch._C._are_functorch_transforms_active():
            raise _refused(text, "derivative inside of transforms of torch.func")
        return recorded(keyset, text, args, *rest)

    _LIBRARY.impl(operator._schema.name.partition("::")[2], call, "Autograd", with_keyset=True)


def _register(name: str, run: Any, fake: Any, backward: Any, save: Any) -> None:
    """An operator with all that torch may ask of it: what it has not is refused by name."""
    _LIBRARY.impl(name, run, "CPU")
    torch.library.register_fake(f"dlc::{name}", fake, lib=_LIBRARY)
    torch.library.register_vmap(f"dlc::{name}", _no_rule, lib=_LIBRARY)
    _differentiable(getattr(torch.ops.dlc, name).default, backward, save)


_register("kernel", _run, _fake, _backward, _save)
_register("kernel_gradient", _run_gradient, _fake_gradient, _no_second, _save_text)


# -- the kernel ----------------------------------------------------------------------------------------


def _to_tensor(name: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int)):
        return torch.tensor(value)
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype not in _NUMPY:
            raise TypeError(
                f"argument {name!r} is an array of dtype {value.dtype}: a kernel takes numbers and "
                "truth values; array.astype(np.float32) makes them where it can"
            )
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    raise TypeError(
        f"argument {name!r} is a {type(value).__name__}: a kernel takes tensors, arrays and numbers; "
        "np.array(..) or torch.tensor(..) makes one"
    )


def _is_watched() -> bool:
    """Does torch's dispatcher add transforms, modes or tracing to a call?"""
    return (
        torch._C._len_torch_dispatch_stack() != 0
        or torch._C._len_torch_function_stack() != 0
        or torch._C._get_tracing_state() is not None
        or peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
    )


class Kernel:
    """A text of einstein notation, made by dlc.kernel."""

    def __init__(self, text: str) -> None:
        params, self._nresults = notation(text)
        self.text = text
        self.names = tuple(name for name, _ in params)
        self._ranks = tuple(rank for _, rank in params)

    def __call__(self, *given: Any, **named: Any) -> Any:
        if not torch.compiler.is_compiling() and not named and len(given) == len(self._ranks):
            results = self._at_once(given)
            if results is not None:
                return results[0] if self._nresults == 1 else results
        args = self._bind(given, named)
        arrays = not any(isinstance(arg, Tensor) for arg in args)
        if not arrays and any(isinstance(arg, np.ndarray) for arg in args):
            raise TypeError(
                "a kernel takes arrays of NumPy or tensors, not both: torch.from_numpy(array) is a tensor"
            )
        tensors = [_to_tensor(name, arg) for name, arg in zip(self.names, args, strict=True)]
        for name, tensor, rank in zip(self.names, tensors, self._ranks, strict=True):
            if tensor.dim() != rank:
                raise TypeError(
                    f"argument {name!r} has {tensor.dim()} axes: the text reads it by {rank} indices; "
                    "reshape it, or write as many indices as it has axes"
                )
        if arrays:
            results = [result.numpy() for result in _run(self.text, tensors)]
        else:
            results = torch.ops.dlc.kernel.default(self.text, tensors)
        return results[0] if self._nresults == 1 else tuple(results)

    def _at_once(self, given: tuple[Any, ...]) -> tuple[Tensor, ...] | None:
        """The results without torch's dispatcher; None where that has a part, or where it is a mistake."""
        gradients = torch.is_grad_enabled()
        dtypes = []
        try:
            for arg, rank in zip(given, self._ranks, strict=True):
                if type(arg) not in _PLAIN or not arg.is_cpu or not arg.is_contiguous() or arg.dim() != rank:
                    return None
                if arg.dtype not in _DTYPES or (gradients and arg.requires_grad):
                    return None
                dtypes.append(arg.dtype)
            if _is_watched():
                return None
            return tuple(_program(self.text, tuple(dtypes)).run(*given))
        except RuntimeError:
            return None  # the other way raises it, and says which sizes are wrong

    def _bind(self, given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        rest = self.names[len(given) :]
        if len(given) > len(self.names) or set(rest) != set(named):
            unknown = [name for name in named if name not in rest]
            missing = [name for name in rest if name not in named]
            what = f"missing {', '.join(missing)}" if missing else "too many are given"
            if unknown:
                what = f"{unknown[0]!r} is none of them"
            raise TypeError(f"the kernel takes the arguments {', '.join(self.names)}: {what}")
        return [*given, *(named[name] for name in rest)]

    def program(self, *dtypes: torch.dtype) -> str:
        """The program in dlc's language for arguments of these dtypes (docs/ir.md)."""
        return _program(self.text, dtypes).text

    def __repr__(self) -> str:
        return f"dlc.kernel({self.text!r})"

    def __reduce__(self) -> tuple[type[Kernel], tuple[str]]:
        return Kernel, (self.text,)

"""dlc.kernel: a text of einstein notation as an operator. See docs/kernels.md.

All kernels are calls of one operator of torch's, dlc::kernel, that is given the text: so to make one
registers nothing, and the compiler puts the text's own lets in the place of a call in a graph.

The operator's derivatives and batches are calls of it as well, with the same text and a list of steps: which
derivative of which batch of the text it is (csrc/ir/notation/notation_steps.c). So each of them has
derivatives and batches of its own, and no rule is written twice.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import torch_init  # noqa: F401  (the compiler wants to know of torch)
from ._C import CaptureError, ir_schedule, notation
from .compiler import compile_with
from .options import parse

_LIBRARY = torch.library.Library("dlc", "DEF")
_LIBRARY.define('kernel(str text, Tensor[] args, str steps="") -> Tensor[]')

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
    """What a text is for arguments of some dtypes, after some steps: compiled when it is first run."""

    def __init__(self, text: str, dtypes: tuple[torch.dtype, ...], steps: str, schedule: str) -> None:
        self.schedule = schedule
        self.first = first_line(text)
        self.names = [name for name, _ in notation(text)[0]]
        names = tuple(map(_dtype_name, self.names, dtypes[: len(self.names)]))
        try:
            self.text, params, results = notation(text, names, steps)
        except CaptureError as error:
            raise _refused(text, str(error)) from None
        self.params, self.results = _types(params), _types(results)
        self.names += ["a derivative"] * (len(params) - len(self.names))

    @functools.cached_property
    def run(self) -> Any:
        inputs = [("tensor", k) for k in range(len(self.params))]
        outputs = [("tensor", k, None) for k in range(len(self.results))]
        parts = {"text": self.text, "inputs": inputs, "outputs": outputs, "calls": [], "recorded": True}
        return compile_with(parse({}), parts, self.refused, schedule=self.schedule or None)

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
                        f"axis {axis} of {name!r} has size {arg.shape[axis]}, but the other arguments need "
                        f"size {wants}{by}"
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
                    f"argument {name!r} has an axis of size 0, and a maximum or minimum needs an element"
                )
        kinds = ", ".join(f"{name!r} a {type(a).__name__}" for name, a in zip(self.names, args, strict=True))
        raise TypeError(f"a kernel takes dense tensors on the CPU; its arguments are {kinds}")

    def __call__(self, args: list[Tensor]) -> tuple[Tensor, ...]:
        for name, arg in zip(self.names, args, strict=True):
            if not arg.is_cpu:
                raise ValueError(f"argument {name!r} is on {arg.device}: a kernel runs on the CPU")
        try:
            return self.run(*[arg if arg.is_contiguous() else arg.contiguous() for arg in args])
        except IndexError:
            raise IndexError(
                f"dlc.kernel({self.first!r}): an index is outside of an argument: write zero, clamp or wrap "
                "after the bracket for reads beyond the edge; indices that are data count from 0"
            ) from None
        except RuntimeError:
            self.shapes(args)  # a negative size
            raise


def _dtype_name(argument: str, dtype: torch.dtype) -> str:
    if dtype not in _DTYPES:
        raise TypeError(
            f"argument {argument!r} is of {dtype}, which a kernel does not take: .float() makes f32"
        )
    return _DTYPES[dtype]


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _refused(text: str, why: str) -> NotImplementedError:
    return NotImplementedError(
        f"dlc.kernel({first_line(text)!r}): {why}; write the function with torch, or detach() what needs "
        "no derivative"
    )


@functools.cache
def _program(text: str, dtypes: tuple[torch.dtype, ...], steps: str = "", schedule: str = "") -> _Program:
    return _Program(text, dtypes, steps, schedule)


def _of(text: str, args: list[Tensor], steps: str, schedule: str = "") -> _Program:
    return _program(text, tuple(arg.dtype for arg in args), steps, schedule)


# -- the operator --------------------------------------------------------------------------------------


def _run(text: str, args: list[Tensor], steps: str = "", schedule: str = "") -> list[Tensor]:
    return list(_of(text, args, steps, schedule)(args))


def _fake(text: str, args: list[Tensor], steps: str = "") -> list[Tensor]:
    program = _of(text, args, steps)
    shapes = program.shapes(args)
    return [
        args[0].new_empty(shape, dtype=result.dtype)
        for shape, result in zip(shapes, program.results, strict=True)
    ]


def _flags(values: Iterable[Any]) -> str:
    return "".join("1" if value else "0" for value in values)


def _step(text: str, args: list[Tensor], steps: str, step: str) -> list[Tensor]:
    """The operator after one step more."""
    return torch.ops.dlc.kernel.default(text, args, f"{steps} {step}".lstrip())


def _batched(info: Any, dims: tuple[Any, ...], text: str, args: list[Tensor], steps: str = "") -> Any:
    """The rule for torch.vmap: one axis more, the first, for each argument that has one."""
    moved = [arg if dim is None else arg.movedim(dim, 0) for arg, dim in zip(args, dims[1], strict=True)]
    made = _step(text, moved, steps, f"batch:{_flags(dim is not None for dim in dims[1])}")
    return made, [0] * len(made)


def _at_level(tensor: Tensor, level: int) -> Tensor | None:
    """The whole tensor, the axis of the batch first; None: it has no batch of this level."""
    whole, other = (torch._remove_batch_dim(tensor, level, size, 0) for size in (0, 1))
    return None if len(whole) != len(other) else whole  # without a batch it is repeated, as often as told


def _batched_by_autograd(text: str, args: list[Tensor], steps: str = "") -> list[Tensor]:
    """The rule for the older vmap, by which torch.autograd makes batches (is_grads_batched, vectorize)."""
    level = torch._C._vmapmode_increment_nesting()
    torch._C._vmapmode_decrement_nesting()
    whole: list[Tensor | None] = []
    while level and not any(tensor is not None for tensor in whole):
        level -= 1
        whole = [_at_level(arg, level) for arg in args]
    dims = [None if tensor is None else 0 for tensor in whole]
    tensors = [arg if tensor is None else tensor for arg, tensor in zip(args, whole, strict=True)]
    made, _ = _batched(None, (None, dims), text, tensors, steps)
    return [torch._add_batch_dim(result, 0, level) for result in made]


class _Differentiable(_SingleLevelFunction):
    """The operator where torch records it, at one level: by torch.autograd or one transform of torch.func."""

    @staticmethod
    def forward(ctx: Any, keyset: Any, text: str, steps: str, *args: Tensor) -> tuple[Tensor, ...]:
        ctx.text, ctx.steps = text, steps
        ctx.save_for_backward(*args)
        ctx.save_for_forward(*args)
        ctx.set_materialize_grads(False)
        results = _below_autograd(keyset, text, list(args), steps)
        ctx.smooth = [result.is_floating_point() or result.is_complex() for result in results]
        ctx.mark_non_differentiable(
            *(result for result, smooth in zip(results, ctx.smooth, strict=True) if not smooth)
        )
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        seeds = [grad if smooth else None for grad, smooth in zip(grads, ctx.smooth, strict=True)]
        wanted = ctx.needs_input_grad[3:]
        given = [seed for seed in seeds if seed is not None]
        if not given:
            return (None,) * (3 + len(wanted))
        step = f"gradient:{_flags(wanted)}/{_flags(seed is not None for seed in seeds)}"
        made = iter(_step(ctx.text, [*ctx.saved_tensors, *given], ctx.steps, step))
        return (None, None, None, *(next(made) if wants else None for wants in wanted))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        given = tangents[3:]
        step = f"tangent:{_flags(tangent is not None for tangent in given)}"
        args = [*ctx.saved_tensors, *(tangent for tangent in given if tangent is not None)]
        made = iter(_step(ctx.text, args, ctx.steps, step))
        return tuple(next(made) if smooth else None for smooth in ctx.smooth)


def _below_autograd(keyset: Any, text: str, args: list[Tensor], steps: str) -> list[Tensor]:
    after = keyset & torch._C._after_autograd_keyset
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._C._AutoDispatchBelowAutograd())
        if torch._C._are_functorch_transforms_active():
            # A Function records nothing inside of itself, but transforms around this one do.
            stack.enter_context(torch.enable_grad())
            stack.enter_context(forward_ad._set_fwd_grad_enabled(True))
        return torch.ops.dlc.kernel.default.redispatch(after, text, args, steps)


def _recorded(keyset: Any, text: str, args: list[Tensor], steps: str = "") -> list[Tensor]:
    """The operator under torch.autograd and under the derivatives of torch.func."""
    transformed = torch._C._are_functorch_transforms_active()
    gradients = torch.is_grad_enabled() and any(arg.requires_grad for arg in args)
    if not (transformed or gradients or forward_ad._current_level >= 0):
        return _below_autograd(keyset, text, args, steps)
    with enable_single_level_autograd_function():
        return list(_Differentiable.apply(keyset, text, steps, *args))


_LIBRARY.impl("kernel", _run, "CPU")
_LIBRARY.impl("kernel", _batched_by_autograd, "Batched")
_LIBRARY.impl("kernel", _recorded, "Autograd", with_keyset=True)
torch.library.register_fake("dlc::kernel", _fake, lib=_LIBRARY)
torch.library.register_vmap("dlc::kernel", _batched, lib=_LIBRARY)


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


def _records(tensors: list[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


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

    def __init__(self, text: str, schedule: str = "") -> None:
        params, self._nresults = notation(text)
        self.text = text
        self._schedule = schedule
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
            results = [result.numpy() for result in _run(self.text, tensors, "", self._schedule)]
        elif self._schedule and not (torch.compiler.is_compiling() or _is_watched() or _records(tensors)):
            results = _run(self.text, tensors, "", self._schedule)
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
            return tuple(_program(self.text, tuple(dtypes), "", self._schedule).run(*given))
        except (RuntimeError, IndexError):
            return None  # the other way raises it, and says which sizes are wrong, or of which kernel

    def _bind(self, given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        rest = self.names[len(given) :]
        if len(given) > len(self.names) or set(rest) != set(named):
            unknown = [name for name in named if name not in self.names]
            twice = [name for name in named if name in self.names and name not in rest]
            missing = [name for name in rest if name not in named]
            what = f"missing {', '.join(missing)}" if missing else "too many are given"
            if unknown:
                what = f"{unknown[0]!r} is none of them"
            elif twice:
                what = f"{twice[0]!r} is given twice, by its place and by its name"
            raise TypeError(f"the kernel takes the arguments {', '.join(self.names)}: {what}")
        return [*given, *(named[name] for name in rest)]

    def program(self, *dtypes: torch.dtype) -> str:
        """The program in dlc's language for arguments of these dtypes (docs/ir.md)."""
        return _program(self.text, dtypes).text

    def schedule(self, *dtypes: torch.dtype) -> str:
        """The schedule for arguments of these dtypes, for dlc.schedule: each kernel's loops in comments, then
        the marks that they have, first those of all targets.

        Raises ValueError for a line of the kernel's own schedule that is wrong.
        """
        return ir_schedule(self.program(*dtypes), self._schedule)

    def __repr__(self) -> str:
        made = f"dlc.kernel({self.text!r})"
        return f"dlc.schedule({made}, {self._schedule!r})" if self._schedule else made

    def __reduce__(self) -> tuple[type[Kernel], tuple[str, str]]:
        return Kernel, (self.text, self._schedule)

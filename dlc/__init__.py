"""A torch.compile backend for the CPU, written in C.

``torch.compile(model, backend="dlc")`` needs no import of this package.  What is here looks into it:

>>> dlc.explain(fn, *args)      # which kernels there are, what is not compiled and why
>>> dlc.counters()              # what happened since the process began
>>> dlc.quantize(model, batches)   # weights of eight or four bits, where the model allows it
>>> dlc.wait()                  # until the background compiles are done
>>> dlc.ir.parse(text)          # the language itself, on NumPy arrays
>>> dlc.save(model, path, args)  # one file: dlc.load(path) runs it without torch
>>> dlc.cache.export(path)      # compiled kernels for another machine: dlc.cache.import_(path)

``dlc.jit`` compiles a small function, or a module in evaluation, for calls without any Python.
"""

from __future__ import annotations

import atexit
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

try:
    from ._C import CaptureError, InternalError, ParseError, counters, release
    from ._C import wait as _wait
except ModuleNotFoundError as error:
    if error.name != f"{__name__}._C":
        raise
    raise ImportError(
        f"the C part of dlc is not in {__path__[0]}, or not for this Python: in a clone of dlc, build it "
        "there (make build) or leave the folder, and Python finds an installed one; else install dlc again",
        name=error.name,
    ) from None

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from . import cache, ir
    from .artifact import ArtifactError
    from .backend import EagerGraphWarning
    from .files import FileError
    from .files.model import Model
    from .notation import Kernel
    from .operators import allow_operators
    from .quantized import Quantized
    from .report import Report

__version__ = "0.2.0"
__all__ = [
    "ArtifactError",
    "CaptureError",
    "EagerGraphWarning",
    "FileError",
    "InternalError",
    "ParseError",
    "allow_operators",
    "cache",
    "counters",
    "explain",
    "ir",
    "jit",
    "kernel",
    "load",
    "quantize",
    "release",
    "reset",
    "save",
    "save_repro",
    "schedule",
    "thaw",
    "trace_start",
    "trace_stop",
    "wait",
]


# What takes torch to import, or is wanted seldom.
_ELSEWHERE = {
    "ArtifactError": "dlc.artifact",
    "EagerGraphWarning": "dlc.backend",
    "FileError": "dlc.files",
    "allow_operators": "dlc.operators",
}


def __getattr__(name: str) -> Any:
    if name in ("ir", "cache"):  # ir imports NumPy, which the backend does not need
        return import_module(f"dlc.{name}")
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module 'dlc' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return __all__  # also what is imported when it is first used: a notebook completes names by this


_P = ParamSpec("_P")
_R = TypeVar("_R")


@overload
def jit(fn: Callable[_P, _R], /, *, constants: bool = False, **options: Any) -> Callable[_P, _R]: ...
@overload
def jit(
    fn: None = None, /, *, constants: bool = False, **options: Any
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def jit(fn: Any = None, /, *, constants: bool = False, **options: Any) -> Any:
    """A small function, or a module in evaluation, as an operator: compiled, with a call that runs no Python.

    Use it as a decorator (``@dlc.jit``, ``@dlc.jit(tier="gcc")``) on functions of tensors that are called
    often. Where torch.compile spends 7 us on each call to find its code, a call of this costs less than one.

    fn: a function, a bound method, or a torch.nn.Module, whose parameters are read at each call and whose
    tree is compared with what it was. Of dense CPU tensors or (functions) NumPy arrays (then it means what
    NumPy computes, with arrays and scalars out) of any dtype that torch and dlc share, numbers, text, None,
    dtypes and tuples of those, that returns tensors, numbers or any structure of them. It is run once on fake
    tensors for each combination of dtypes, ranks and constants; sizes are symbols, so that one variant
    serves all of them but 0 and 1, and every condition that fn has on them is checked at each call. Python's
    floats are inputs, other numbers constants. When a gradient is needed, the call goes through
    torch.compile.

    constants: fn may read tensors, lists and objects that are not its arguments, and take any object as an
    argument: they are what they were at the first call. options: those of the backend (docs/options.md).

    Raises TypeError for what is neither a module nor a function with named parameters, ValueError for an
    unknown option. A call
    raises TypeError for an argument or a variable that cannot be taken (it is named), RuntimeError
    when a number that fn reads has changed, CaptureError when fn writes to an argument that shares memory
    with another one, reads random numbers or the clock, or does what cannot be compiled, such as to branch on
    the values of a tensor. docs/jit.md has the whole of it.
    """
    from .function import jit as make

    return make(fn, constants, options) if fn is not None else lambda fn: make(fn, constants, options)


def kernel(text: str, /) -> Kernel:
    """Einstein notation as an operator: ``dlc.kernel("C[m,n] = sum[k] A[m,k] * B[k,n]")``.

    Called with tensors or NumPy arrays in the order in which the text first reads them, or by name, it
    returns tensors or arrays, of each line that no other line reads. It is compiled once for each combination
    of dtypes, for all sizes. Tensors have gradients, by the derivative of the text, and
    torch.compile(backend="dlc") fuses it with what is around.

    Raises ParseError with line, column and a caret for a text that is none. docs/kernels.md has the notation.
    """
    from .notation import Kernel

    if not isinstance(text, str):
        what = getattr(text, "__name__", f"a value of type {type(text).__name__}")
        raise TypeError(
            f"dlc.kernel takes a text such as 'y[i] = 2 * x[i]', not {what}: dlc.jit compiles functions"
        )
    return Kernel(text)


_Scheduled = TypeVar("_Scheduled", "Kernel", "ir.Function")


def schedule(kernel: _Scheduled, text: str, /) -> _Scheduled:
    """The same kernel with a schedule of your own: which loops are split, reordered, parallel, vectors, ...

    text: a line for each loop or access, such as ``for i0 split=32 reorder`` or ``for i1 vector``. What it
    says of the loops that all targets share, or behind a line ``target cc`` of those of a target, is all of
    their schedule; of what it does not speak, dlc decides. docs/howto/schedule.md writes one in six steps.

    kernel: a dlc.kernel; what is returned is one too, compiled with these lines where it is called by itself
    and no gradient is recorded. kernel.schedule(*dtypes) prints the lines that it has, with its loops. Or a
    dlc.ir.Function of the loops stage; what is returned has the loops that the lines before any target make.
    No schedule changes a bit of a result.

    Raises ValueError with the line, for a line that is none and for one that breaks a rule of the language,
    which it names: of a dlc.kernel at its first call. TypeError for other kernels.
    """
    from .ir import Function

    if not isinstance(text, str):
        raise TypeError(f"a schedule is a text of lines, not a value of type {type(text).__name__}")
    if isinstance(kernel, Function):
        return kernel.scheduled(text)
    from .notation import Kernel

    if isinstance(kernel, Kernel):
        return Kernel(kernel.text, text)
    raise TypeError(
        f"dlc.schedule takes a dlc.kernel or a program of dlc.ir, not a value of type {type(kernel).__name__}"
    )


# As torch.compiler.disable marks a function, which would take an import of torch.
kernel._torchdynamo_disable = True  # type: ignore[attr-defined]
kernel._torchdynamo_disable_msg = (  # type: ignore[attr-defined]
    "dlc.kernel reads a text: make the kernel once, outside of the compiled function, and call it there"
)


def save(
    model: Any,
    path: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    weights: bool = True,
    check: bool = True,
) -> None:
    """Write a model to one file, which dlc.load runs in a process without torch: docs/files.md.

    A path that ends in .onnx is written as ONNX: docs/howto/onnx.md.

    model: a torch.nn.Module or a function of tensors (as torch.export takes them), a function of dlc.jit, a
    dlc.kernel, or a program of dlc.ir. It runs as in inference: no gradients are recorded. args, kwargs: an
    example of its arguments; of a program they may be left out.

    dynamic_shapes: which sizes may change, as torch.export has it; the names of its Dims are those of the
    sizes. weights: False leaves parameters and persistent buffers out: the file has their names, and
    dlc.load(path, weights=..) reads them from a safetensors file of the user's own. check: runs what was
    written on the example, and stores it with a SHA-256 of the results, for `python -m dlc verify`.

    Raises FileError for what cannot leave torch, all of it at once with the lines of the source, OSError
    where the file cannot be written: what was there before is whole then. And what torch.export raises.
    """
    from .files.capture import save

    save(model, path, args, kwargs, dynamic_shapes, weights, check)


def load(
    path: Any,
    *,
    weights: Any = None,
    check: bool = False,
    tier: str = "auto",
    constants: dict[str, Any] | None = None,
    sizes: dict[str, int | tuple[int, int | None]] | None = None,
) -> Model:
    """The model of a file that dlc.save wrote, or of ONNX, to be called with arrays. It imports no torch.

    weights: the file of the weights, where dlc.save left them out. check: reads all arrays and compares
    their SHA-256; without it weights are mapped, and read when they are used. tier: as the option.

    A path that ends in .onnx is read by the onnx package and translated: docs/howto/onnx.md. constants: by
    name, inputs that always have these values. sizes: by name of a dimension, a number that it always is, or
    the least and the most it may be (None: any); without it 1 and any.

    Raises FileError for a file that is damaged, newer or none of dlc's, and for operators of ONNX that dlc
    lacks, all of them at once; OSError where it cannot be read; ImportError without the onnx package.
    """
    from .files import is_onnx

    if is_onnx(path):
        from .files import onnx

        if weights is not None:
            raise TypeError(
                "weights= is for files of dlc.save: a file of ONNX names the files of its weights"
            )
        return onnx.load(path, constants, sizes, tier)
    if constants is not None or sizes is not None:
        raise TypeError("constants= and sizes= are for files of ONNX, whose names end in .onnx")
    from .files.model import load

    return load(path, weights, check, tier)


def wait(timeout: float | None = None) -> bool:
    """Wait until no background compile is under way and every finished kernel is in use.

    Kernels of functions that are gone by then are not compiled. A C compiler that was named (option cc, or
    DLC_CC) and fails is warned of, once.

    timeout: seconds; None waits as long as it takes.  Returns False when the time ran out.
    """
    from .options import say_failure

    if timeout is not None and not isinstance(timeout, numbers.Real):
        raise TypeError(f"dlc.wait takes a number of seconds, or None, not {timeout!r:.40}")
    done = _wait(-1.0 if timeout is None else timeout)
    say_failure()
    return done


def reset() -> None:
    """Forget all compiled code: the next call of a compiled function compiles again."""
    import torch._dynamo

    torch._dynamo.reset()


def thaw(of: Any = None) -> None:
    """Forget what option freeze has kept of parameters and buffers; the next call makes it again.

    For writes that torch does not count: those through ``p.data``, through NumPy or by other libraries.

    of: a torch.nn.Module, or what torch.compile made of one: its parameters, buffers and tensors that are
    attributes; a tensor; None: all there are.
    """
    from .frozen import thaw

    if of is not None and not hasattr(of, "modules") and not hasattr(of, "untyped_storage"):
        raise TypeError(f"dlc.thaw takes a module, a tensor or None, not a value of type {type(of).__name__}")
    thaw(of)


def explain(fn: Any, *args: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> Report:
    """Compile fn for these arguments, run it once, measure its graphs, and report what became of them.

    The report prints in a terminal and in a notebook: what dlc compiled and what it did not and why, by the
    lines of the source; times, bytes and operations of each kernel; memory; the text of each stage.
    docs/explain.md has the whole of it.

    fn: a function or a module, or what torch.compile made of one, which is explained as it was before, with
    these options and those of the environment, whatever torch.compile was told. options: as torch.compile
    takes them, such as {"freeze": True}. The run is a real one: what fn writes is written. Then its graphs
    run some more times by themselves, on copies of what they write to. All compiled code of the process is
    forgotten first, as by dlc.reset().

    Raises TypeError for what cannot be called, and for functions of dlc.jit, which Dynamo does not compile;
    and what fn raises.
    """
    from .report.gather import explain as run

    return run(fn, args, kwargs, options)


def quantize(
    model: Module,
    batches: Iterable[Any] | None = None,
    *,
    weights: str = "auto",
    activations: str = "auto",
    snr: float | None = None,
    state: Mapping[str, Tensor] | None = None,
    options: dict[str, Any] | None = None,
) -> Quantized:
    """Compile a model so that its products read weights of eight or four bits, as far as it allows that.

    The model runs on the batches once, in float. For each weight of a product this gives the power of the
    layer's results, and of what the errors of each format would add to them. A weight becomes codes where
    their ratio, the signal to noise of the layer, is at least snr. The same model and batches give the same
    choice. The model itself is not changed.

    model: in evaluation, on the CPU. batches: for each, an argument, a tuple of arguments, or a dict of named
    ones. weights: "int8" (a scale for each column), "int4" (a scale, and where it helps a zero point, for 32
    terms), "auto" (int4 where it suffices, else int8). activations: what the rows of a product with int8
    become: integers of 8 bits, of 16 or of 32 ("i8", "i16", "i32", where the signal with both errors is
    enough), the fewest bits of 8 and 16 that suffice ("auto"), or nothing else ("exact").
    snr: decibels; None: 30 for int8, 15 for int4.
    state: that of an earlier result, instead of batches; small tensors, which
    safetensors.torch.save_file(q.state, path) writes. options: as torch.compile takes them.

    Returns q, which is called as the model is and returns the same without gradients; q.report, which prints
    as a table, and has what stayed float and why; and q.state.

    Raises TypeError for what is no module, ValueError for other formats and rows, batches without a batch,
    both or none of batches and state, and a state of another model; and what the model raises.
    """
    from .quantized import quantize as make

    return make(model, batches, weights, activations, snr, state, options)


def save_repro(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    path: Any,
    *,
    inputs: str = "seed",
    seed: int = 0,
    **options: Any,
) -> str:
    """Write a function's graphs to one file, from which a bug of dlc's can be repeated and made small.

    ``python -m dlc run bug.dlc`` runs it in every way and compares, ``python -m dlc reduce bug.dlc`` makes it
    small. fn is compiled and run once for args. The file has the programs, the options, sizes, strides and
    dtypes, and a seed for random inputs: nothing of the sources and of the data. docs/bugs.md has the format.

    inputs: "values" stores the arguments, parameters and constants themselves. options: those of the backend.

    Returns the path. Raises ValueError for other inputs, TypeError for what Dynamo does not compile,
    RuntimeError when no graph was compiled, and what fn raises. An InternalError of the compiler is not
    raised: the file is of the graph that it was about.
    """
    from .repro import save

    return save(fn, args, path, inputs, seed, options)


_trace: str | None = None


def trace_start(path: Any) -> None:
    """Keep what the process does from now on, for trace_stop() or the end of the process to write to path.

    DLC_TRACE=path does so from the import of dlc on. Raises FileNotFoundError where the folder of path is not
    there.
    """
    from ._C import trace_start

    global _trace
    path = os.path.abspath(os.fspath(path))  # the process may go elsewhere meanwhile
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"dlc cannot write a trace to {path}: there is no such folder")
    if _trace is None:
        atexit.register(trace_stop)
    _trace = path
    trace_start()


def trace_stop() -> str | None:
    """Write the trace: capture, passes, compiles, swaps, kernels, calls, by thread, in Chrome's trace format.

    Returns the path, None when none was begun. Raises OSError when it cannot be written. https://ui.perfetto.dev
    and chrome://tracing show it.
    """
    from ._C import trace_write

    global _trace
    path, _trace = _trace, None
    if path is not None:
        atexit.unregister(trace_stop)
        trace_write(path)
    return path


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext dlc`` in IPython and Jupyter: %dlc_explain and %%dlc (docs/notebooks.md)."""
    from .magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext dlc``."""
    from .magics import unload

    unload(shell)


if os.environ.get("DLC_TRACE"):
    try:
        trace_start(os.environ["DLC_TRACE"])
    except FileNotFoundError as error:  # the program runs all the same
        warnings.warn(f"{error} (from the environment: DLC_TRACE)", stacklevel=2)

"""One sample of one operator: eager against compiled."""

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import gradcheck
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from tests.layouts import relaid
from tests.tolerance import (
    Run,
    assert_program,
    assert_runs,
    assert_same_kind,
    distances,
    double,
    is_of_one_element,
    strides,
)

SEED = 1
DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
MORE_DTYPES = (
    "float16",
    "complex128",
    "uint8",
    "int8",
    "int16",
    "int32",
)  # products of matrices have them too
LAYOUTS = ("contiguous", "strided", "offset")
AMPLIFIED = 16.0  # ulps that eager is off where a program is said to amplify rounding
RUNS, NEARBY = 8, 8.0  # such a program is run again so many times, on inputs so many ulps away
UNDEFINED = ("empty", "new_empty")  # operators of these names, and longer ones, return any numbers


@dataclass(frozen=True)
class Way:
    """How the samples of an entry are run."""

    dynamic: bool = False
    dtype: str = "float32"
    layout: str = "contiguous"  # of the tensors of a sample
    gradients: bool = False  # the results and the gradients of the inputs, not the results alone
    errors: bool = False  # inputs that eager refuses, in the dtypes and layouts of the database
    slopes: bool = False  # the gradients against differences of results, not against eager's
    tier: str = "tcc"  # who compiles; auto: libtcc, and the C compiler behind it, one after the other
    training: bool = False  # the mode of a module
    products: str = "auto"  # who computes products of matrices: the option of that name

    def __str__(self) -> str:
        plain = Way()
        words = ["dynamic" if self.dynamic else "static"]
        words += [self.dtype] * (self.dtype != plain.dtype)
        words += [self.layout] * (self.layout != plain.layout)
        more = ["gradients"] * self.gradients + ["errors"] * self.errors + ["slopes"] * self.slopes
        more += ["training"] * self.training + [self.tier] * (self.tier != plain.tier)
        more += [f"{self.products} products"] * (self.products != plain.products)
        return " ".join(words + more)


def samples(op: Any, way: Way, turn: int = 0) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """All samples of an entry, the same in every process. turn: chooses how strided tensors lie."""
    torch.manual_seed(SEED)
    if way.errors:
        refused = [e.sample_input for e in op.error_inputs("cpu")]
        return [(s.input, tuple(s.args), dict(s.kwargs)) for s in refused]
    listed = op.sample_inputs("cpu", getattr(torch, way.dtype), requires_grad=way.gradients)
    given = ((s.input, tuple(s.args), dict(s.kwargs)) for s in listed)
    return [arranged(each, way.layout, f"{turn}/{k}") for k, each in enumerate(given)]


def arranged(tree: Any, layout: str, seed: object = 0) -> Any:
    """The same values; the strided tensors are leaves of autograd and lie in memory as asked for.

    `strided`: each lies in a way of tests/layouts.py that the seed draws, or has its last two axes swapped;
    `offset`: the storage begins earlier, and the compiled function has seen the same sample
    contiguous before.
    """
    choose = random.Random(f"{seed}")

    def tensor(t: Any) -> Any:
        if not strided(t) or (layout == "contiguous" and t.is_leaf):
            return t
        old, new = t.detach(), t.detach()
        if layout == "strided":
            swapped = t.dim() > 1 and choose.random() < 0.25
            new = old.mT.contiguous().mT if swapped else relaid(old, choose).detach()
        elif layout == "offset" and old.is_contiguous():
            new = torch.cat([old.new_zeros(3), old.reshape(-1)])[3:].view(old.shape)
        return new.requires_grad_(t.requires_grad)

    return tree_map(tensor, tree)


def call(function: Callable[..., Any], sample: Any, gradients: bool = False) -> Any:
    """The function of a copy of the sample, from a known state of the random numbers."""
    value, args, kwargs = copy.deepcopy(sample)
    torch.manual_seed(SEED)
    if gradients:
        result = function(value, args, kwargs)
        return result, derived(result, (value, args, kwargs))
    with torch.no_grad():
        return function(value, args, kwargs)


def derived(result: Any, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs for random ones of the results."""
    torch.manual_seed(SEED)
    outs = [t for t in tree_leaves(result) if strided(t) and t.requires_grad]
    ins = [t for t in tree_leaves(inputs) if strided(t) and t.requires_grad]
    if not outs or not ins:
        return ()
    return torch.autograd.grad(outs, ins, [random_like(t) for t in outs], allow_unused=True)


def random_like(t: Tensor) -> Tensor:
    """Numbers that every dtype has alike: the exact gradients are those for the same ones."""
    drawn = torch.randn(*t.shape, 1 + t.is_complex()).bfloat16()
    made = torch.empty_like(t)
    return made.copy_(torch.view_as_complex(drawn.float()) if t.is_complex() else drawn.squeeze(-1))


def in_double(sample: Any) -> Any:
    """The sample whose result is exact: its numbers, and the dtype that is asked for, are float64.

    Its tensors are leaves as those of the sample, else it could not be copied where gradients are wanted.
    """

    def wide(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and leaf.is_complex():
            return leaf.to(torch.complex128)
        return torch.float64 if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf

    return arranged(tree_map(wide, double(sample)), "contiguous")


def as_function(op: Any) -> Callable[..., Any]:
    """The operator as a function of its own, so that Dynamo has a frame to compile."""
    inner = op.op

    def function(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return inner(value, *args, **kwargs)

    return function


def group_function(op: Any) -> Callable[..., Any]:
    """The operator of several samples, one after the other, as the function of one sample."""
    inner = op.op

    def function(group: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return [inner(value, *more, **named) for value, more, named in group]

    return function


def as_group(listed: list[Any]) -> tuple[list[Any], tuple[Any, ...], dict[str, Any]]:
    """Samples as the sample of a `group_function`."""
    return listed, (), {}


def strided(t: Any) -> bool:
    return isinstance(t, Tensor) and t.layout == torch.strided and not t.is_quantized


def nearby(sample: Any, seed: int) -> Any:
    """The sample with each of its floating numbers some ulps off, zeros and infinities kept."""
    source = torch.Generator().manual_seed(seed)

    def moved(leaf: Any) -> Any:
        if not (strided(leaf) and (leaf.is_floating_point() or leaf.is_complex())):
            return leaf
        step = NEARBY * torch.finfo(leaf.dtype).eps
        factor = 1 + step * (2 * torch.rand(leaf.shape, generator=source, dtype=torch.float64) - 1)
        return leaf.detach().mul(factor.to(leaf.dtype.to_real())).requires_grad_(leaf.requires_grad)

    return tree_map(moved, sample)


def compare(
    actual: Any,
    eager: Any,
    exact: Callable[[], Any] | None,
    defined: bool,
    others: Callable[[], Iterator[tuple[Any, Any, Any]]] = lambda: iter(()),
) -> None:
    """Raises AssertionError unless results agree: torch's tolerance, or dlc's own against float64.

    dlc's own takes all results for those of one program; without `exact` torch's alone counts. `others` are
    the results, eager's and the exact ones of more runs, which are asked for where one run is luck.
    """
    (mine, spec), (theirs, want) = tree_flatten(actual), tree_flatten(eager)
    assert spec == want, f"structure {spec}, eager has {want}"
    for a, b in zip(mine, theirs, strict=True):
        if strided(b):
            assert strided(a), f"{type(a).__name__}, eager has a tensor"
            if defined:
                assert_same_kind(a, b)
            else:
                assert (a.dtype, a.shape, strides(a)) == (b.dtype, b.shape, strides(b))
    if not defined:
        return
    try:
        torch.testing.assert_close(mine, theirs, equal_nan=True)
    except AssertionError as error:
        if exact is None or not all(strided(b) for b in theirs):
            raise
        try:
            truth = tree_leaves(exact())
            assert [t.shape for t in truth] == [t.shape for t in theirs]
        except Exception as inexact:
            raise error from inexact
        compare_with_exact(as_run(mine, theirs, truth), others)


def as_run(*results: Any) -> Run:
    """The results of dlc, of eager and the exact ones, by name."""
    mine, theirs, truth = ({str(i): t for i, t in enumerate(parts(tree_leaves(r)))} for r in results)
    return mine, theirs, truth


def compare_with_exact(run: Run, others: Callable[[], Iterator[tuple[Any, Any, Any]]]) -> None:
    """The rule for programs that sum: of one run, and of several where eager is far off in this one, or
    where single elements are what breaks it.
    """
    try:
        assert_program(*run)
    except AssertionError as first:
        far = max((largest for _, (largest, _) in distances(run).values()), default=0.0) > AMPLIFIED
        if not far and not is_of_one_element(run):
            raise
        try:
            more = [as_run(*each) for each in others()]
        except Exception as error:  # there need not be a result near this one
            raise first from error
        assert_runs([run, *more])


def parts(tensors: list[Tensor]) -> list[Tensor]:
    """The real and imaginary parts of complex tensors, each by itself, and the others.

    Row-major: the imaginary part of a tensor that is conjugated when it is read is a copy, of another a view.
    """
    apart = [(t.real, t.imag) if t.is_complex() else (t,) for t in tensors]
    return [part.resolve_neg().contiguous() for each in apart for part in each]


REFUSED = "eager raises"


def failure(op: Any, compiled: Callable[..., Any], sample: Any, gradients: bool = False) -> str | None:
    """Why the compiled operator does not do what eager does; None if it does, or if eager raises."""
    found = difference(op, as_function(op), compiled, sample, gradients, alone=True)
    return None if found == REFUSED else found


def difference(
    op: Any,
    function: Callable[..., Any],
    compiled: Callable[..., Any],
    sample: Any,
    gradients: bool,
    *,
    alone: bool,
) -> str | None:
    """Why the compiled function does not do what the function does; None if it does.

    alone: it is one operator of one sample, whose errors are measured together.
    """
    try:
        eager = call(function, sample, gradients)
    except Exception:
        return REFUSED
    try:
        actual = call(compiled, sample, gradients)
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    defined = not op.name.startswith(UNDEFINED)

    def others() -> Iterator[tuple[Any, Any, Any]]:
        for near in (nearby(sample, seed) for seed in range(RUNS)):
            exactly = call(function, in_double(near), gradients)
            yield call(compiled, near, gradients), call(function, near, gradients), exactly

    try:
        exact = (lambda: call(function, in_double(sample), gradients)) if alone else None
        compare(actual, eager, exact, defined, others)
    except AssertionError as error:
        return first_line(error)
    return None


def wrong_slopes(op: Any, compiled: Callable[..., Any], sample: Any) -> str | None:
    """What gradcheck says of the compiled operator; None if nothing, or if it says something of eager's."""
    try:
        check_slopes(as_function(op), sample)
    except Exception:
        return None
    try:
        # gradcheck goes back twice through one graph, which buffers that a backward may write to forbid
        with torch._functorch.config.patch(donated_buffer=False):
            check_slopes(compiled, sample)
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return None


def check_slopes(function: Callable[..., Any], sample: Any) -> None:
    """Raises unless the gradients of the sample are the slopes of its results, along one direction each."""
    leaves, spec = tree_flatten(copy.deepcopy(sample))
    places = [k for k, t in enumerate(leaves) if strided(t) and t.requires_grad]

    def of_inputs(*inputs: Tensor) -> tuple[Tensor, ...]:
        now = list(leaves)
        for k, t in zip(places, inputs, strict=True):
            now[k] = t
        torch.manual_seed(SEED)
        made = tree_leaves(function(*tree_unflatten(now, spec)))
        return tuple(t for t in made if strided(t) and t.requires_grad)

    if places:
        gradcheck(of_inputs, [leaves[k] for k in places], fast_mode=True)


def refusal(function: Callable[..., Any], sample: Any) -> Exception | None:
    """What the function of the sample raises, if it does."""
    try:
        call(function, sample)
    except Exception as error:
        return error
    return None


def wrong_refusal(op: Any, compiled: Callable[..., Any], sample: Any) -> str | None:
    """What is wrong with the error for a sample that eager refuses; None if it is eager's, or as good."""
    theirs = refusal(as_function(op), sample)
    return None if theirs is None else unlike(refusal(compiled, sample), theirs)


def unlike(mine: Exception | None, theirs: Exception) -> str | None:
    """An error is as good as eager's when it is of its type, and says what that says or names the place."""
    if mine is None:
        return f"no error, eager has {type(theirs).__name__}: {first_line(theirs)}"
    says = str(theirs).split("\n")[0] in str(mine) or ": in " in str(mine)
    if isinstance(mine, type(theirs)) and says:
        return None
    return f"{type(mine).__name__}: {first_line(mine)}"


def first_line(error: BaseException) -> str:
    """The beginning of a message, and of the one it stands for."""
    inner = getattr(error, "inner_exception", None)
    lines = [line for line in str(inner or error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:300] if lines else type(error).__name__


def entries(way: Way | None = None) -> Iterator[Any]:
    """The entries of op_db that can be run on a CPU in a way, or in any, in its order.

    Those that draw random numbers set the seed inside, which Dynamo does not capture; `call` does it
    outside.
    """
    from torch.testing._internal import common_methods_invocations as invocations

    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return (op for op in invocations.op_db if way is None or possible(op, way))


def possible(op: Any, way: Way) -> bool:
    dtype = getattr(torch, way.dtype)
    if way.errors:
        return op.error_inputs_func is not None
    if way.gradients:
        return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    return dtype in op.supported_dtypes("cpu")

"""One sample of one operator: eager against compiled."""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from tests.tolerance import assert_program, assert_same_kind, double, strides

SEED = 1
UNDEFINED = ("empty", "new_empty")  # operators of these names, and longer ones, return any numbers


def chosen(name: str, count: int, fraction: float, seed: int) -> list[int]:
    """The samples of an entry to run: each with probability `fraction`, and one in any case."""
    if fraction >= 1:
        return list(range(count))
    draw = random.Random(f"{seed}/{name}")
    least = draw.randrange(count) if count else 0
    return [i for i in range(count) if draw.random() < fraction or i == least]


def samples(op: Any) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """All float32 samples of an entry, the same in every process."""
    torch.manual_seed(SEED)
    return [
        (s.input, tuple(s.args), dict(s.kwargs))
        for s in op.sample_inputs("cpu", torch.float32, requires_grad=False)
    ]


def call(function: Callable[..., Any], sample: Any) -> Any:
    """The function of a copy of the sample, from a known state of the random numbers."""
    value, args, kwargs = copy.deepcopy(sample)
    torch.manual_seed(SEED)
    with torch.no_grad():
        return function(value, args, kwargs)


def as_function(op: Any) -> Callable[..., Any]:
    """The operator as a function of its own, so that Dynamo has a frame to compile."""
    inner = op.op

    def function(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return inner(value, *args, **kwargs)

    return function


def strided(t: Any) -> bool:
    return isinstance(t, Tensor) and t.layout == torch.strided and not t.is_quantized


def compare(actual: Any, eager: Any, exact: Callable[[], Any], defined: bool) -> None:
    """Raises AssertionError unless results agree: torch's tolerance, or dlc's own against float64."""
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
        if not all(strided(b) and not b.is_complex() for b in theirs):
            raise
        compare_with_exact(mine, theirs, exact, error)


def compare_with_exact(
    mine: list[Tensor], theirs: list[Tensor], exact: Callable[[], Any], first: AssertionError
) -> None:
    try:
        truth, _ = tree_flatten(exact())
        assert [t.shape for t in truth] == [t.shape for t in theirs]
    except Exception as error:
        raise first from error
    assert_program(*({str(i): t for i, t in enumerate(ts)} for ts in (mine, theirs, truth)))


def failure(op: Any, compiled: Callable[..., Any], sample: Any) -> str | None:
    """Why the compiled operator does not do what eager does; None if it does, or if eager raises."""
    function = as_function(op)
    try:
        eager = call(function, sample)
    except Exception:
        return None
    try:
        actual = call(compiled, sample)
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    defined = not op.name.startswith(UNDEFINED)
    try:
        compare(actual, eager, lambda: call(function, double(sample)), defined)
    except AssertionError as error:
        return first_line(error)
    return None


def first_line(error: BaseException) -> str:
    """The beginning of a message, and of the one it stands for."""
    inner = getattr(error, "inner_exception", None)
    lines = [line for line in str(inner or error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:300] if lines else type(error).__name__


def entries() -> Iterator[Any]:
    """The entries of op_db that take float32 on a CPU, in its order.

    Those that draw random numbers set the seed inside, which Dynamo does not capture; `call` does it
    outside.
    """
    from torch.testing._internal import common_methods_invocations as invocations

    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return (op for op in invocations.op_db if torch.float32 in op.supported_dtypes("cpu"))

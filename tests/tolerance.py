"""How far a result of dlc may be from the exact one.

The rule is relative to eager: run the program in float64 and call that exact; then dlc may be at
most twice as far from it as eager is, plus one ulp. What "far" means depends on the program.

`assert_elements`, for elementwise functions: the distance of an element is its error in ulps of the
exact element (of the smallest normal number, if that is larger), the distance of a tensor the largest
of its elements. Nothing cancels inside one element, so a small one has no excuse to be inexact.

`assert_program`, for programs that sum: reductions, models, gradients. Where terms cancel, an element
near zero has the error of large terms, and its own ulp says nothing. So a tensor has one unit, the
ulp of its largest element, and two distances in it: the largest and the root of the mean square.
And eager may be near by luck, as a scalar that happens to be rounded right. So dlc is held to eager's
distance on the same tensor or to the median over the program's tensors, whichever is larger.

Luck decides nothing else: infinities and NaN are where eager has them, and dtype, shape and strides
are equal, as are integers and booleans, element by element.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

FACTOR, ALLOWANCE = 2.0, 1.0


def double(tree: Any) -> Any:
    """The same tree of values with its floating tensors in float64."""
    return tree_map(lambda t: t.double() if isinstance(t, Tensor) and t.is_floating_point() else t, tree)


def ulp(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The distance between neighbours of `dtype` at the magnitude of a float64 value."""
    limits = torch.finfo(dtype)
    _, exponent = torch.frexp(value.abs().clamp(limits.tiny, limits.max))
    return torch.ldexp(torch.full_like(value, limits.eps), exponent - 1)


def assert_same_kind(actual: Tensor, eager: Tensor, name: str = "result") -> None:
    """Everything but the numbers: dtype, shape, strides, and where infinities and NaN are."""
    assert actual.dtype == eager.dtype, f"{name}: {actual.dtype}, eager has {eager.dtype}"
    assert actual.shape == eager.shape, f"{name}: {actual.shape}, eager has {eager.shape}"
    strides = actual.stride(), eager.stride()
    assert strides[0] == strides[1], f"{name}: strides {strides[0]}, eager has {strides[1]}"
    if eager.is_floating_point():
        for what in (torch.isnan, torch.isposinf, torch.isneginf):
            wrong = (what(actual) != what(eager)).sum().item()
            assert not wrong, f"{name}: {what.__name__} differs from eager in {wrong} elements"


def assert_same_bits(actual: Tensor, other: Tensor, name: str = "result") -> None:
    """Equal in every bit but for the payload of a NaN."""
    assert_same_kind(actual, other, name)
    a, b = actual.detach(), other.detach()
    if a.is_floating_point():
        a, b = (torch.where(t.isnan(), torch.nan, t) for t in (a, b))
        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
        a, b = a.contiguous().view(whole), b.contiguous().view(whole)
    wrong = (a != b).sum().item()
    assert not wrong, f"{name}: {wrong} of {a.numel()} elements differ in their bits"


def finite_errors(result: Tensor, exact: Tensor) -> tuple[Tensor, Tensor]:
    """Absolute errors, and the exact values, where both are finite."""
    keep = result.isfinite() & exact.isfinite()
    return (result.double() - exact)[keep].abs(), exact[keep].abs()


def in_elements(result: Tensor, exact: Tensor) -> float:
    error, value = finite_errors(result, exact)
    return (error / ulp(value, result.dtype)).max().item() if error.numel() else 0.0


def in_largest(result: Tensor, exact: Tensor) -> tuple[float, float]:
    error, value = finite_errors(result, exact)
    if not error.numel():
        return 0.0, 0.0
    error = error / ulp(value.max(), result.dtype)
    return error.max().item(), error.square().mean().sqrt().item()


def assert_elements(actual: Tensor, eager: Tensor, exact: Tensor, name: str = "result") -> None:
    """The rule for elementwise functions."""
    assert_same_kind(actual, eager, name)
    if not eager.is_floating_point():
        return assert_same_bits(actual, eager, name)
    exact = exact.double()
    mine, theirs = in_elements(actual.detach(), exact), in_elements(eager.detach(), exact)
    assert mine <= FACTOR * theirs + ALLOWANCE, f"{name}: {mine:.2f} ulp, eager {theirs:.2f} ulp"


def assert_program(
    actual: Mapping[str, Tensor], eager: Mapping[str, Tensor], exact: Mapping[str, Tensor]
) -> None:
    """The rule for programs that sum, over all their results at once."""
    assert actual.keys() == eager.keys() == exact.keys()
    distances: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {}
    for name, want in eager.items():
        got, truth = actual[name].detach(), exact[name].detach().double()
        assert_same_kind(got, want, name)
        if want.is_floating_point():
            distances[name] = in_largest(got, truth), in_largest(want.detach(), truth)
        else:
            assert_same_bits(got, want, name)
    if not distances:
        return
    usual = [torch.tensor([e[i] for _, e in distances.values()]).median().item() for i in (0, 1)]
    for name, (mine, theirs) in distances.items():
        for i, norm in enumerate(("largest", "mean square")):
            limit = FACTOR * max(theirs[i], usual[i]) + ALLOWANCE
            assert mine[i] <= limit, (
                f"{name}: {norm} error {mine[i]:.2f} ulp of the tensor's largest element, eager "
                f"{theirs[i]:.2f} here and {usual[i]:.2f} in the median result"
            )


def named(result: Any, name: str = "result") -> dict[str, Tensor]:
    """The tensors of a result, a tensor or tuple of them, by a name for messages."""
    if isinstance(result, Tensor):
        return {name: result}
    return {f"{name}[{i}]": t for i, t in enumerate(result) if isinstance(t, Tensor)}


def assert_like_eager(compiled: Callable[..., Any], function: Callable[..., Any], *args: Any) -> None:
    """`compiled` of the arguments is as good as `function` of them, by the rule for programs."""
    exact = named(function(*double(args)))
    assert_program(named(compiled(*args)), named(function(*args)), exact)

"""How far a result of dlc may be from the exact one.

The rule is relative to eager: run the program in float64 and call that exact (of a float64 program that
amplifies errors, more digits); then dlc may be at most twice as far from it as eager is, plus one ulp.
What "far" means depends on the program.

`assert_elements`, for elementwise functions: the distance of an element is its error in ulps of the
exact element (of the smallest normal number, if that is larger), the distance of a tensor the largest
of its elements. Nothing cancels inside one element, so a small one has no excuse to be inexact.

`assert_program`, for programs that sum: reductions, models, gradients. Where terms cancel, an element
near zero has the error of large terms, and its own ulp says nothing. So a tensor has one unit, the
ulp of its largest element, and two distances in it: the largest and the root of the mean square.
And eager may be near by luck, as a scalar that happens to be rounded right, or because rounding moved
no number over the kink of a relu. So dlc is held to eager's distance on the same tensor or on the
worst tenth of the program's tensors, whichever is larger; and where a program amplifies rounding many
times, as gradients do, several runs on different inputs count as one, with the median of their largest
errors and the mean of their squares. (The largest of all would be one unlucky input's: the gradient of
a query's weights in a small GPT has errors of 9 to 155 ulps over inputs, in eager of 9 to 134, with medians
of 30.5 and 30.0.) So do they where the mean squares of one run agree and its largest error does not: that is
one element's, and two orders of one sum differ there by luck. (Of 500 sums of 216 terms, a chain of fused
multiply-adds has 1.4 times the mean square of eager's two blocks; its largest error is 1.6 times eager's in
the median of 60 random inputs, but beyond the rule in 3 of them.) A tensor that is zero but for rounding, of
which eager has no digit right, has no unit of its own; it gets the program's median one.

Luck decides nothing else: infinities and NaN are where eager has them, and dtype, shape and strides
are equal, as are integers and booleans, element by element.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

FACTOR, ALLOWANCE = 2.0, 1.0

# Results by name: of dlc, of eager, and exact.
Run = tuple[Mapping[str, Tensor], Mapping[str, Tensor], Mapping[str, Tensor]]


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
    assert strides(actual) == strides(eager), f"{name}: strides {actual.stride()}, eager has {eager.stride()}"
    if eager.is_floating_point():
        for what in (torch.isnan, torch.isposinf, torch.isneginf):
            wrong = (what(actual) != what(eager)).sum().item()
            assert not wrong, f"{name}: {what.__name__} differs from eager in {wrong} elements"


def strides(t: Tensor) -> list[int]:
    """The strides of axes longer than one: no other is ever used, nor do torch's kernels and its
    rules for shapes agree on others."""
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1]


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


def in_unit(result: Tensor, exact: Tensor, unit: float) -> tuple[float, float]:
    error, _ = finite_errors(result, exact)
    error = error / unit
    return (error.max().item(), error.square().mean().sqrt().item()) if error.numel() else (0.0, 0.0)


def units(eager: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> dict[str, float]:
    """The unit of each floating result: the ulp of its largest element, or the median of those."""
    found: dict[str, float | None] = {}
    for name, result in eager.items():
        error, value = finite_errors(result, exact[name])
        known = not error.numel() or error.max() <= value.max()
        largest = value.max() if error.numel() else torch.ones((), dtype=torch.float64)
        found[name] = ulp(largest, result.dtype).item() if known else None
    usual = quantile([unit for unit in found.values() if unit is not None] or [1.0], 0.5)
    return {name: usual if unit is None else unit for name, unit in found.items()}


def quantile(values: list[float], part: float) -> float:
    return torch.tensor(values, dtype=torch.float64).quantile(part).item()


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
    assert_runs([(actual, eager, exact)])


def assert_runs(runs: Sequence[Run]) -> None:
    """The rule for programs that sum, over all results of several runs of one program."""
    mine: dict[str, list[tuple[float, float]]] = {}
    theirs: dict[str, list[tuple[float, float]]] = {}
    for actual, eager, exact in runs:
        assert actual.keys() == eager.keys() == exact.keys()
        for name, want in eager.items():
            assert_same_kind(actual[name], want, name)
            if not want.is_floating_point():
                assert_same_bits(actual[name], want, name)
        for name, (m, t) in distances((actual, eager, exact)).items():
            mine.setdefault(name, []).append(m)
            theirs.setdefault(name, []).append(t)
    compare({n: together(e) for n, e in mine.items()}, {n: together(e) for n, e in theirs.items()})


def distances(run: Run) -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
    """Of each floating result what `in_unit` says of dlc's and of eager's."""
    actual, eager, exact = run
    truth = {n: exact[n].detach().double() for n, t in eager.items() if t.is_floating_point()}
    unit = units({n: eager[n].detach() for n in truth}, truth)

    def far(results: Mapping[str, Tensor], name: str) -> tuple[float, float]:
        return in_unit(results[name].detach(), truth[name], unit[name])

    return {n: (far(actual, n), far(eager, n)) for n in truth}


def together(errors: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The median of the largest errors, and the root of the mean of the mean squares."""
    return quantile([e[0] for e in errors], 0.5), (sum(e[1] ** 2 for e in errors) / len(errors)) ** 0.5


NORMS = ("largest", "mean square")


def compare(
    mine: Mapping[str, tuple[float, float]],
    theirs: Mapping[str, tuple[float, float]],
    norms: Sequence[str] = NORMS,
) -> None:
    for i, norm in enumerate(NORMS):
        worst = quantile([t[i] for t in theirs.values()] or [0.0], 0.9)
        for name in theirs:
            m, t = mine[name][i], theirs[name][i]
            assert norm not in norms or m <= FACTOR * max(t, worst) + ALLOWANCE, (
                f"{name}: {norm} error {m:.2f} ulp of the tensor's largest element, eager {t:.2f} "
                f"here and {worst:.2f} in the worst tenth"
            )


def is_of_one_element(run: Run) -> bool:
    """Do the mean squares of a run agree with the rule? Then what breaks it are single elements."""
    found = distances(run)
    try:
        compare({n: m for n, (m, _) in found.items()}, {n: t for n, (_, t) in found.items()}, NORMS[1:])
    except AssertionError:
        return False
    return True


def named(result: Any, name: str = "result") -> dict[str, Tensor]:
    """The tensors of a result, a tensor or tuple of them, by a name for messages."""
    if isinstance(result, Tensor):
        return {name: result}
    return {f"{name}[{i}]": t for i, t in enumerate(result) if isinstance(t, Tensor)}


def assert_like_eager(
    compiled: Callable[..., Any],
    function: Callable[..., Any],
    *args: Any,
    exact: Callable[..., Any] | None = None,
) -> None:
    """`compiled` of the arguments is as good as `function` of them, by the rule for programs.  `exact`: what
    is exact where the arguments are float64 already, and `function` has errors of its own."""
    truth = named(exact(*args) if exact else function(*double(args)))
    assert_program(named(compiled(*args)), named(function(*args)), truth)

"""dlc.kernel: random texts and their derivatives of up to the third order, as those of torch.

DLC_TEXTS=count,seed runs so many texts from a seed; without it each run of the tests has other ones.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, jvp, vjp, vmap

import dlc
from tests.backend.kernel_texts import draw
from tests.shards import Shard

pytestmark = pytest.mark.usefixtures("_one_tier")

COUNT, *SEEDS = (int(n) for n in os.environ.get("DLC_TEXTS", "8").split(","))
PARTS = 3
LARGEST = 1e6  # values beyond are of products whose rounding a third derivative shows
FORMS = {"back": jacrev, "forward": jacfwd}

Function = Callable[..., Any]


def scalar(function: Function) -> Function:
    def of(*args: Tensor) -> Tensor:
        made = function(*args)
        return sum(
            (part.sin().sum() for part in (made if isinstance(made, tuple) else (made,))), torch.zeros(())
        )

    return of


def of_some(function: Function, at: tuple[int, ...], args: tuple[Tensor, ...]) -> Function:
    """The function of some of its arguments."""

    def of(*some: Tensor) -> Any:
        whole = list(args)
        for k, value in zip(at, some, strict=True):
            whole[k] = value
        return function(*whole)

    return of


def pushed(function: Function, at: tuple[int, ...]) -> Function:
    """The product with a Jacobian, along tangents that depend on the arguments."""

    def of(*args: Tensor) -> Any:
        some = tuple(args[k] for k in at)
        return jvp(of_some(function, at, args), some, tuple(arg.cos() for arg in some))[1]

    return of


def pulled(function: Function, at: tuple[int, ...]) -> Function:
    def of(*args: Tensor) -> Any:
        made, back = vjp(of_some(function, at, args), *(args[k] for k in at))
        return back(made.sin())

    return of


def transforms(at: tuple[int, ...], first: int) -> dict[str, Callable[[Function], Function]]:
    made: dict[str, Callable[[Function], Function]] = {"value": lambda f: f}
    for name, outer in FORMS.items():
        made[name] = lambda f, outer=outer: outer(f, at)
        for other, inner in FORMS.items():
            made[f"{name} of {other}"] = lambda f, outer=outer, inner=inner: outer(inner(f, at), at)
    made["grad, three times"] = lambda f: grad(scalar(grad(scalar(grad(scalar(f), at)), at)), at)
    made["vjp, three times"] = lambda f: pulled(scalar(pulled(scalar(pulled(f, at)), at)), at)
    made["jvp, three times"] = lambda f: pushed(pushed(pushed(f, at), at), at)
    made["jvp of grad of jvp"] = lambda f: pushed(grad(scalar(pushed(f, at)), at), at)
    made["grad of jvp of grad"] = lambda f: grad(scalar(pushed(grad(scalar(f), at), at)), at)
    made["vmap of back"] = lambda f: both(jacrev(f, at))
    made["vmap of forward of back"] = lambda f: both(jacfwd(jacrev(f, at), at))
    made["vmap of vmap"] = lambda f: both(vmap(f, in_dims=0), 2)
    made["vmap of one, of back of back"] = lambda f: both(jacrev(jacrev(f, at), at), 1, first)
    return made


def both(function: Function, levels: int = 1, only: int | None = None) -> Function:
    """For a batch of each argument, or only of one."""

    def of(*args: Tensor) -> Any:
        given = list(args)
        for k, arg in enumerate(args):
            for _ in range(levels if only in (None, k) else 0):
                given[k] = torch.stack([given[k], given[k].flip(0) if arg.dim() else given[k]])
        return vmap(function, in_dims=tuple(0 if only in (None, k) else None for k in range(len(args))))(
            *given
        )

    return of


def is_tame(made: Any) -> bool:
    parts = made if isinstance(made, tuple) else (made,)
    return all(is_tame(p) if isinstance(p, tuple) else bool((p.abs() < LARGEST).all()) for p in parts)


def check(seed: int) -> bool:
    """False: the sizes of the letters do not suit each other, or the text is not one."""
    program = draw(seed)
    try:
        kernel = dlc.kernel(program.text)
        args = program.arguments(kernel.names, seed)
        kernel(*args)
    except (dlc.ParseError, ValueError, IndexError):
        return False
    function = program.function(kernel.names)
    at = tuple(k for k, arg in enumerate(args) if arg.is_floating_point())
    for name, transform in transforms(at, at[0]).items():
        expected = transform(function)(*args)
        if is_tame(expected):
            made = transform(kernel)(*args)
            torch.testing.assert_close(
                made, expected, rtol=1e-7, atol=1e-7, msg=lambda m, name=name: f"{name}: {m}\n{program.text}"
            )
    return True


@pytest.mark.parametrize("part", range(PARTS))
def test_random_texts(part: int, shard: Shard) -> None:
    first = (SEEDS[0] if SEEDS else 10_000 + shard.number * COUNT * PARTS) + part * COUNT
    checked = []
    for seed in range(first, first + COUNT):
        try:
            checked.append(check(seed))
        except Exception as error:
            raise AssertionError(f"DLC_TEXTS=1,{seed}: {error}") from error
    assert sum(checked) >= COUNT // 2

"""Complex numbers: compiled whole in both tiers, with eager's numbers."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from dlc.report import collect
from tests.capture.graphs import calls, text_of
from tests.capture.whole import spread
from tests.tolerance import assert_program, assert_same_bits

pytestmark = pytest.mark.in_turn(2)

Function = Callable[..., Any]
INF, NAN = torch.inf, torch.nan


def numbers(*shape: int, dtype: torch.dtype = torch.complex64, seed: int = 1) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def crossed(dtype: torch.dtype) -> Tensor:
    """Every pair of special parts."""
    parts = [0.0, -0.0, 1.0, -2.5, 1e-30, 3e30, INF, -INF, NAN]
    real = torch.tensor(parts, dtype=torch.float64).to(torch.zeros((), dtype=dtype).real.dtype)
    return torch.complex(*(t.reshape(-1).contiguous() for t in torch.meshgrid(real, real, indexing="ij")))


Z, W, X = (
    numbers(6, 37),
    numbers(6, 37, seed=2),
    torch.randn(6, 37, generator=torch.Generator().manual_seed(3)),
)
MASK, AT = X > 0, torch.tensor([5, 0, 2, 2])

# Each with its arguments: what only moves numbers has eager's bits.
MOVES: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "views": (lambda z: (z.t()[3:].clone(), z.reshape(-1)[1:8].clone(), z[:, ::3].clone()), (Z,)),
    "cat": (lambda z, w: torch.cat([z, w.flip(0)], 1), (Z, W)),
    "cat of real and complex": (lambda z, x: torch.cat([z, x]), (Z, X)),
    "stack": (lambda z, w: torch.stack([z, w], -1), (Z, W)),
    "where": (lambda z, w, m: torch.where(m, z, w), (Z, W, MASK)),
    "masked_fill": (lambda z, m: z.masked_fill(m, 2.5), (Z, MASK)),
    "masked_fill with i": (lambda z, m: z.masked_fill(m, 2.5 - 1j), (Z, MASK)),
    "index": (lambda z, i: (z[i], z.index_select(0, i), z[:, i]), (Z, AT)),
    "gather": (lambda z, i: z.gather(0, i[:, None].expand(4, 37)), (Z, AT)),
    "pad": (lambda z: torch.nn.functional.pad(z, (1, 2), value=3.0), (Z,)),
    "roll": (lambda z: z.roll(3, 1), (Z,)),
    "repeat": (lambda z: z.repeat(2, 3), (Z,)),
    "triangle": (lambda z: (z.tril(), z.triu(2)), (Z,)),
    "parts": (lambda z: (z.real + 0, z.imag.clone()), (Z,)),
    "of parts": (lambda x: torch.complex(x, x.flip(1)), (X,)),
    "as real": (lambda z: torch.view_as_real(z * 1).clone(), (Z,)),
    "as complex": (lambda x: torch.view_as_complex(x.reshape(3, 37, 2)).clone(), (X,)),
    "conjugate": (lambda z: (z.conj() + 0, z.conj().resolve_conj(), z.conj().imag + 0), (Z,)),
    "negative": (lambda z: -z, (Z,)),
    "made": (lambda z: (torch.zeros_like(z), torch.ones_like(z), torch.full_like(z, 1 - 2j)), (Z,)),
    "made from nothing": (lambda z: torch.full((3,), 2j, dtype=torch.complex128) * 1, (Z,)),
    "casts": (lambda z, x: (z.to(torch.complex128), x.to(torch.complex64), z.real.cdouble()), (Z, X)),
    "to bool": (lambda z: (z - z).bool() | z.bool(), (Z,)),
    "equal": (lambda z, w: (z == w, z != w, z == z.clone(), z == z.real), (Z, W)),
    "conditions": (lambda z: (z.isnan(), z.isinf()), (crossed(torch.complex64),)),
    "identity": (lambda z: (torch.eye(6, dtype=z.dtype) * 1, torch.eye(3, 0, dtype=z.dtype), z + 1), (Z,)),
    "sum of two": (lambda z, w: (z + w, z - w, z + 1, 2 - z, z + 1j), (Z, W)),
    "with real": (lambda z, x: (z + x, x - z), (Z, X)),
}

# What computes is as near as eager is.
COMPUTES: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "product": (lambda z, w: z * w, (Z, W)),
    "product with real": (lambda z, x: (z * x, z * 2, 1.5j * z), (Z, X)),
    "quotient": (lambda z, w: (z / w, z / 3, 2 / w, z / (1 + 2j)), (Z, W)),
    "reciprocal": (lambda z: z.reciprocal(), (Z,)),
    "powers": (lambda z: (z.square() + 1, z**2 - z, z**3, z**0.5, z**-0.5, z**-1, z**-2 + z**0), (Z,)),
    "size": (lambda z: (z.abs(), z.abs().square()), (Z,)),
    "angle": (lambda z: z.angle(), (Z,)),
    "sign": (lambda z: z.sgn(), (Z,)),
    "polar": (lambda x, y: torch.polar(x, y), (X.abs(), X.flip(0))),
    "factor": (lambda z, w: (torch.add(z, w, alpha=2), torch.sub(z, w, alpha=1 - 1j)), (Z, W)),
    "product added": (lambda z, w: (z.addcmul(w, z), torch.addcmul(z, w, w, value=2 - 1j)), (Z, W)),
    "quotient added": (lambda z, w: (z.addcdiv(w, z), torch.addcdiv(z, w, w + 3, value=-2)), (Z, W)),
    "between": (
        lambda z, w: (
            z.lerp(w, 0.3),
            z.lerp(w, 0.5),
            z.lerp(w, -7.0),
            z.lerp(w, z * w),
            z.lerp(w, 0.2 + 0.6j),
        ),
        (Z, W),
    ),
    "sums": (lambda z: (z.sum(), z.sum(0), z.sum(1, keepdim=True), z.mean(1), z.cumsum(0)), (Z,)),
    "sums of squares": (lambda z: (z * z.conj()).real.sum(1), (Z,)),
    "one kernel": (lambda z, w: ((z * w + 1j) / w.abs()).imag, (Z, W)),
}


def run(
    function: Function, *args: Any, dynamic: bool = False, whole: bool = True, **options: Any
) -> list[Tensor]:
    """The results of the function, compiled whole unless views may be calls, as some of unknown sizes are."""
    torch._dynamo.reset()
    with collect() as reports, torch.no_grad():
        compiled = torch.compile(
            function, backend="dlc", fullgraph=True, dynamic=dynamic, options={"strict": True, **options}
        )
        mine = tree_leaves(compiled(*copy.deepcopy(args)))
    assert not (whole and [call[0] for report in reports for call in report["calls"]])
    return mine


def parts(tensors: Any) -> dict[str, Tensor]:
    """By name, complex ones by their parts, so that each has its own size."""
    found = {}
    for k, t in enumerate(tree_leaves(tensors)):
        found |= {f"{k}.real": t.real, f"{k}.imag": t.imag} if t.is_complex() else {f"{k}": t}
    return found


def wide(tree: Any) -> Any:
    kinds = {torch.complex64: torch.complex128, torch.float32: torch.float64}
    return [t.to(kinds.get(t.dtype, t.dtype)) for t in tree]


def check(function: Function, *args: Tensor, exact: bool, **options: Any) -> None:
    mine, theirs = run(function, *args, **options), tree_leaves(function(*copy.deepcopy(args)))
    assert [(t.dtype, t.shape, t.stride()) for t in mine] == [(t.dtype, t.shape, t.stride()) for t in theirs]
    if exact:
        for k, t in parts(theirs).items():
            assert_same_bits(parts(mine)[k].contiguous(), t.contiguous(), k)
    else:
        assert_program(parts(mine), parts(theirs), parts(function(*wide(args))))


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str, tier: str) -> None:
    function, args = MOVES[name]
    check(function, *args, exact=True, tier=tier)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("name", COMPUTES)
def test_computes(name: str, tier: str) -> None:
    function, args = COMPUTES[name]
    check(function, *args, exact=False, tier=tier)


@pytest.mark.parametrize("name", [*MOVES, *COMPUTES])
def test_dynamic_strided_and_double(name: str) -> None:
    function, args = (MOVES | COMPUTES)[name]
    double = wide(spread(args))
    torch.testing.assert_close(
        run(function, *double, dynamic=True, whole=False, tier="tcc"),
        tree_leaves(function(*double)),
        equal_nan=True,
    )


@pytest.mark.parametrize("shape", [(0, 37), (6, 0), (1, 1)])
@pytest.mark.parametrize("name", ["product", "quotient", "sums", "one kernel"])
def test_sizes(name: str, shape: tuple[int, ...]) -> None:
    function, args = COMPUTES[name]
    some = [torch.ones(shape, dtype=a.dtype) * 2 for a in args]
    torch.testing.assert_close(run(function, *some, tier="tcc"), tree_leaves(function(*some)), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.abs(),
        lambda z: z.angle(),
        lambda z: z * z.flip(0),
        lambda z: z / z.flip(0),
        lambda z: z + z.roll(1, 0),
        lambda z: z == z,
        lambda z: z.sgn(),
    ],
    ids=["abs", "angle", "mul", "div", "add", "eq", "sgn"],
)
def test_special_numbers(function: Function, dtype: torch.dtype) -> None:
    """Infinities and NaN where eager has them."""
    z = crossed(dtype)
    (mine,), theirs = run(function, z, tier="tcc"), function(z)
    torch.testing.assert_close(mine, theirs, equal_nan=True)


def test_two_tiers_agree() -> None:
    def function(z: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return z / w, z.abs(), (z * w).sum(1), z.angle(), torch.view_as_real(z + w).flatten(1) * 2

    for z, w in ((Z, W), (wide([Z])[0].t(), wide([W])[0].t())):
        one, other = (run(function, z, w, tier=tier) for tier in ("tcc", "gcc"))
        for k, t in parts(one).items():
            assert_same_bits(t.contiguous(), parts(other)[k].contiguous(), k)


# ---- memory: what eager shares is shared ----


def test_results_share_memory_as_in_eager(compiler: Function) -> None:
    def function(z: Tensor) -> tuple[Tensor, ...]:
        w = z * 2
        return w, torch.view_as_real(w), w.imag

    w, pairs, imag = compiler(function, fullgraph=True)(Z)
    torch.testing.assert_close(pairs[..., 0], (Z * 2).real)
    w.zero_()
    assert not pairs.any() and not imag.any()


def test_an_input_as_real_is_the_input(compiler: Function) -> None:
    z = Z.clone()
    pairs = compiler(lambda z: torch.view_as_real(z), fullgraph=True)(z)
    assert pairs.data_ptr() == z.data_ptr()
    z.zero_()
    assert not pairs.any()


def test_written_inputs(compiler: Function) -> None:
    def function(z: Tensor, w: Tensor) -> Tensor:
        z.mul_(w)
        return z + 1

    mine, theirs = Z.clone(), Z.clone()
    torch.testing.assert_close(compiler(function, fullgraph=True)(mine, W), function(theirs, W))
    torch.testing.assert_close(mine, theirs)


# ---- rotary embedding, as Llama first had it ----


def rotary(q: Tensor, k: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    def turned(x: Tensor) -> Tensor:
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * table[:, None]).flatten(3).type_as(x)

    return turned(q), turned(k)


def angles(length: int, width: int) -> Tensor:
    speed = 1.0 / 10000.0 ** (torch.arange(0, width, 2) / width)
    steps = torch.outer(torch.arange(length), speed)
    return torch.polar(torch.ones_like(steps), steps)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary(dtype: torch.dtype, tier: str) -> None:
    q, k = (torch.randn(2, 5, heads, 16).to(dtype) for heads in (4, 2))
    table = angles(5, 16)
    for mine, theirs in zip(run(rotary, q, k, table, tier=tier), rotary(q, k, table), strict=True):
        assert_same_bits(mine, theirs)


def test_rotary_gradients(compiler: Function) -> None:
    table, found = angles(5, 16), []
    torch.manual_seed(1)
    q, k = torch.randn(2, 5, 4, 16), torch.randn(2, 5, 2, 16)
    for call in (compiler(rotary, fullgraph=True), rotary):
        leaves = [t.clone().requires_grad_() for t in (q, k)]
        results = call(*leaves, table)
        sum(t.square().mul(0.5).cos().sum() for t in results).backward()
        found.append([*results, *(t.grad for t in leaves)])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_what_is_not_compiled_is_a_call() -> None:
    assert calls(text_of(lambda z: z.logcumsumexp(0) * 2, Z)) == ["aten.logcumsumexp.default"]

"""Products of matrices as contractions: every operator, dtype and layout, in each way of capture."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc import _C
from tests.capture.graphs import calls, graphs
from tests.capture.products import check, check_gradients, direct_graph
from tests.capture.test_table import overload

pytestmark = pytest.mark.in_turn(2)

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
DTYPES = (*FLOATS, *INTEGERS, *COMPLEX)

# By name: the function and the shapes of its operands.
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((5, 7), (7, 3))),
    "mm long": (torch.mm, ((2, 1100), (1100, 3))),
    "mm method": (lambda a, b: a.mm(b), ((5, 7), (7, 3))),
    "bmm": (torch.bmm, ((4, 5, 7), (4, 7, 3))),
    "mv": (torch.mv, ((5, 7), (7,))),
    "dot": (torch.dot, ((600,), (600,))),
    "vdot": (torch.vdot, ((30,), (30,))),
    "inner": (torch.inner, ((4, 7), (3, 7))),
    "addmm": (torch.addmm, ((5, 3), (5, 7), (7, 3))),
    "addmm row": (torch.addmm, ((3,), (5, 7), (7, 3))),
    "addmm factors": (lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), ((1, 3), (5, 7), (7, 3))),
    "addmm without": (lambda c, a, b: c.addmm(a, b, beta=0), ((5, 3), (5, 7), (7, 3))),
    "addmv": (lambda c, a, b: torch.addmv(c, a, b, alpha=2), ((5,), (5, 7), (7,))),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=3), ((4, 5, 3), (4, 5, 7), (4, 7, 3))),
    "addbmm": (lambda c, a, b: torch.addbmm(c, a, b, alpha=2), ((5, 3), (4, 5, 7), (4, 7, 3))),
    "linear": (F.linear, ((5, 7), (3, 7))),
    "linear bias": (F.linear, ((2, 5, 7), (3, 7), (3,))),
    "linear vector": (F.linear, ((7,), (3, 7), (3,))),
    "linear batches": (F.linear, ((2, 3, 1, 7), (3, 7))),
    "matmul 11": (torch.matmul, ((7,), (7,))),
    "matmul 12": (torch.matmul, ((7,), (7, 3))),
    "matmul 21": (torch.matmul, ((5, 7), (7,))),
    "matmul 22": (lambda a, b: a @ b, ((5, 7), (7, 3))),
    "matmul 32": (torch.matmul, ((2, 5, 7), (7, 3))),
    "matmul 23": (torch.matmul, ((5, 7), (2, 7, 3))),
    "matmul 31": (torch.matmul, ((2, 5, 7), (7,))),
    "matmul 13": (torch.matmul, ((7,), (2, 7, 3))),
    "matmul 44": (lambda a, b: a.matmul(b), ((2, 3, 5, 7), (2, 3, 7, 4))),
    "matmul broadcast": (torch.matmul, ((2, 1, 5, 7), (3, 7, 4))),
    "matmul transposed": (lambda a, b: a @ b.transpose(-1, -2), ((2, 3, 5, 7), (2, 3, 4, 7))),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), ((2, 3, 5), (2, 4, 5))),
    "einsum implied": (lambda a, b: torch.einsum("ij,jh", a, b), ((3, 5), (5, 4))),
    "einsum turned": (lambda a, b: torch.einsum("nhwc, nkwc -> hnk", a, b), ((2, 3, 4, 5), (2, 6, 4, 5))),
    "einsum dots": (lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), ((2, 1, 3, 5), (4, 5, 6))),
    "einsum middle": (lambda a, b: torch.einsum("i...j,j...->...i", a, b), ((3, 2, 5), (5, 2))),
    "einsum chain": (lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), ((3, 4), (4, 5), (5, 2))),
    "einsum all": (lambda a, b: torch.einsum("ij,ij->", a, b), ((3, 4), (3, 4))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), ((3, 4, 5), (4, 5, 6))),
    "tensordot axes": (lambda a, b: torch.tensordot(a, b, ([0, 2], [1, 0])), ((3, 4, 5), (5, 3, 6))),
    "chain_matmul": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), ((3, 4), (4, 5), (5, 2))),
}  # fmt: skip
# What Dynamo's graph has no row for goes through AOTAutograd.
INDIRECT = {"vdot", "inner", "tensordot", "tensordot axes", "chain_matmul"}


def tensor(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype if dtype.is_complex else torch.float64, generator=random).to(
            dtype
        )
    return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape, generator=random).to(dtype)


def operands(name: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(tensor(shape, dtype, k) for k, shape in enumerate(CASES[name][1]))


def takes(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    try:
        function(*args)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def turned(t: Tensor) -> Tensor:
    """The same elements with the axes in the other order in memory, at every second place."""
    wide = torch.empty([2 * n for n in reversed(t.shape)], dtype=t.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in t.shape)].permute(tuple(reversed(range(t.dim()))))
    return view.copy_(t)


# Each dtype that is computed in another way with every operator, the others with those that differ.
USUAL = (torch.float64, torch.bfloat16, torch.int64, torch.complex64)
SOME = (
    "mm long",
    "bmm",
    "mv",
    "vdot",
    "addmm factors",
    "addbmm",
    "linear bias",
    "matmul broadcast",
    "einsum chain",
)
PAIRS = [(name, dtype) for dtype in DTYPES for name in (CASES if dtype in USUAL else SOME)]


@pytest.mark.in_turn(4)
@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_each_dtype(name: str, dtype: torch.dtype) -> None:
    args = operands(name, dtype)
    if not takes(CASES[name][0], args):
        pytest.skip("eager refuses it")
    check(CASES[name][0], *args)


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize("layout", ["static", "dynamic", "turned"])
@pytest.mark.parametrize("name", CASES)
def test_each_way(name: str, layout: str, capture: str, request: pytest.FixtureRequest) -> None:
    if name == "dot":
        reason = (
            "one number: eager adds 600 products in lanes, and is nearer to the exact sum than chains of 256"
        )
        request.applymarker(pytest.mark.xfail(reason=reason, strict=False))
    if capture == "direct" and name in INDIRECT:
        with pytest.raises(_C.CaptureError, match="not in the table"):
            check(CASES[name][0], *operands(name, torch.float32), capture=capture)
        return
    args = operands(name, torch.float32)
    args = tuple(map(turned, args)) if layout == "turned" else args
    check(CASES[name][0], *args, capture=capture, dynamic=layout == "dynamic")


GRADIENTS = [name for name in CASES if name != "addmm without"]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    check_gradients(CASES[name][0], *operands(name, torch.float64))


@pytest.mark.parametrize("budget", [0.0, 0.5, 1.0])
def test_layers_in_training(budget: float) -> None:
    def layers(x: Tensor, v: Tensor, w: Tensor, b: Tensor) -> Tensor:
        h = F.gelu(F.linear(x, v, b))
        return F.layer_norm(x + F.linear(h, w), (8,))

    check_gradients(
        layers,
        *(tensor(s, torch.float64, k) for k, s in enumerate([(4, 8), (16, 8), (8, 16), (16,)])),
        budget=budget,
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bilinear(dtype: torch.dtype) -> None:
    shapes = ((3, 4), (3, 5), (6, 4, 5), (6,))
    check(F.bilinear, *(tensor(shape, dtype, k) for k, shape in enumerate(shapes)))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("capture", ["aot", "direct"])
def test_distances(dtype: torch.dtype, capture: str) -> None:
    check(torch.cdist, tensor((2, 30, 4), dtype, 1), tensor((2, 3, 4), dtype, 2), capture=capture)
    check(torch.cdist, tensor((30, 4), dtype, 1), tensor((1, 28, 4), dtype, 2), capture=capture)


def test_few_distances_are_eagers() -> None:
    args = tensor((5, 4), torch.float32, 1), tensor((3, 4), torch.float32, 2)
    (gm,) = graphs(torch.cdist, *args)
    assert calls(_C.walk(gm, False, "own")) == ["aten._cdist_forward.default"]


def test_8_bit_products_are_summed_in_32_bits() -> None:
    a, b = torch.full((20, 300), -128, dtype=torch.int8), torch.full((300, 16), -128, dtype=torch.int8)
    text = check(torch._int_mm, a, b)
    assert 'contract arg0_1, arg1_1 over="mk,kn->mn"' in text and "-> (i32[20, 16])" in text


def test_a_bias_of_halves_is_added_before_rounding() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        text = check(F.linear, tensor((4, 300), dtype, 1), tensor((5, 300), dtype, 2), tensor((5,), dtype, 3))
        assert ": f32[4, 5] = contract" in text


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize(
    ("dtype", "beta", "alpha"),
    [(torch.int32, 2.9, -1.9), (torch.int32, 0.6, 3), (torch.float32, 0.3, 1.7), (torch.bfloat16, 0.3, 1.7),
     (torch.complex64, 2 + 1j, 1.5 - 2j), (torch.complex64, 0, 3)],
)  # fmt: skip
def test_factors(dtype: torch.dtype, beta: complex, alpha: complex, capture: str) -> None:
    args = (tensor(shape, dtype, k) for k, shape in enumerate(((1, 3), (5, 7), (7, 3))))
    check(lambda c, a, b: torch.addmm(c, a, b, beta=beta, alpha=alpha), *args, capture=capture)


def test_factors_known_at_run_time() -> None:
    def f(c: Tensor, a: Tensor, b: Tensor, x: Tensor) -> Tensor:
        return torch.addmm(c, a, b, alpha=a.shape[0]) + x

    args = (tensor(shape, torch.float32, k) for k, shape in enumerate(((5, 3), (5, 7), (7, 3), (3,))))
    check(f, *args, dynamic=True)


def test_letters_that_one_operand_has() -> None:
    check(lambda a, b: torch.einsum("ij,k->k", a, b), tensor((3, 4), torch.float32, 1),
          tensor((5,), torch.float32, 2), capture="direct")  # fmt: skip
    check(lambda a, b: torch.einsum("ij,jk->k", a, b), tensor((3, 4), torch.float32, 1),
          tensor((4, 5), torch.float32, 2), capture="direct")  # fmt: skip


def test_sums_of_nothing() -> None:
    for capture in ("aot", "direct"):
        a, b = tensor((5, 0), torch.float32, 1), tensor((0, 3), torch.float32, 2)
        check(torch.mm, a, b, capture=capture, contracts=False)
        check(torch.addmm, tensor((3,), torch.float32, 3), a, b, capture=capture, contracts=False)


@pytest.mark.parametrize("equation", ["ii,ij->j", "ij,jk->ii", "ij,jk->il"])
def test_other_equations_are_left_to_eager(equation: str) -> None:
    args = tensor((4, 4), torch.float32, 1), tensor((4, 4), torch.float32, 2)
    if not takes(lambda a, b: torch.einsum(equation, a, b), args):
        return
    gm, _ = direct_graph(lambda a, b: torch.einsum(equation, a, b), args, False)
    assert len(calls(_C.walk(gm, True, "own"))) == 1


def test_views_of_operands_move_letters() -> None:
    text = check(lambda a, b: a.permute(2, 0, 1) @ b.mT, tensor((2, 3, 4), torch.float32, 1),
                 tensor((4, 5, 3), torch.float32, 2))  # fmt: skip
    assert 'contract arg0_1, arg1_1 over="' in text


FLAGS = Path("/proc/cpuinfo").read_text().split()


@pytest.mark.parametrize(
    ("function", "shapes", "dtype", "own"),
    [
        (torch.mm, ((5, 7), (7, 3)), torch.float32, True),
        (torch.mm, ((5, 7), (7, 3)), torch.float64, True),
        (torch.bmm, ((4, 5, 7), (4, 7, 3)), torch.float32, True),
        (torch.mm, ((1, 7), (7, 3)), torch.float32, False),
        (torch.mm, ((5, 7), (7, 1)), torch.float32, True),
        (torch.mv, ((5, 7), (7,)), torch.float32, True),
        (torch.nn.functional.linear, ((1, 7), (3, 7)), torch.float64, True),
        (torch.mv, ((5, 7), (7,)), torch.int32, False),
        (torch.dot, ((7,), (7,)), torch.float32, False),
        (torch.mm, ((5, 7), (7, 3)), torch.int32, True),
        (torch.mm, ((5, 7), (7, 3)), torch.bfloat16, "avx512_bf16" not in FLAGS),
        (torch.mm, ((5, 7), (7, 3)), torch.float16, "avx512_fp16" not in FLAGS),
        (torch.mm, ((5, 7), (7, 3)), torch.complex64, False),
        (torch.conv1d, ((2, 3, 9), (4, 3, 3)), torch.float32, False),
    ],
)
def test_which_products_are_computed_here_by_default(
    function: Any, shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype, own: bool
) -> None:
    args = [tensor(shape, dtype, k) for k, shape in enumerate(shapes)]
    (gm,) = graphs(function, *args)
    assert (calls(_C.walk(gm, False)) == []) == own
    assert len(calls(_C.walk(gm, False, "library"))) == 1
    assert calls(_C.walk(gm, False, "own")) == []


def test_another_choice_of_products_is_refused() -> None:
    (gm,) = graphs(torch.mm, tensor((5, 7), torch.float32, 1), tensor((7, 3), torch.float32, 2))
    with pytest.raises(ValueError, match='products is "auto", "own" or "library"'):
        _C.walk(gm, False, "mine")


def test_products_are_not_listed_as_compiled() -> None:
    products = _C.overloads(True)
    assert "aten.mm.default" in products
    assert not set(products) & set(_C.overloads())
    for name in products:
        assert str(overload(name)) == name


def linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.nn.functional.linear(x, w, b)) + r


def test_own_products_have_the_same_bits_however_they_run() -> None:
    """In both tiers, on one thread and on two, for some rows and for all of them, by one compile."""
    w, b = tensor((70, 600), torch.float32, 1) / 25, tensor((70,), torch.float32, 2)
    x, r = tensor((300, 600), torch.float32, 3), tensor((300, 70), torch.float32, 4)
    want = linear(x.double(), w.double(), b.double(), r.double())
    threads, results = torch.get_num_threads(), []
    for tier in "tcc", "gcc":
        torch._dynamo.reset()
        options: dict[str, Any] = {"products": "own", "tier": tier, "strict": True}
        compiled = torch.compile(linear, backend="dlc", dynamic=True, options=options)
        for count in 1, 2:
            torch.set_num_threads(count)
            with torch.no_grad():
                results.append(compiled(x, w, b, r))
                some = compiled(x[37:60], w, b, r[37:60])
            assert torch.equal(some, results[0][37:60])
    torch.set_num_threads(threads)
    torch.testing.assert_close(results[0].double(), want, rtol=1e-5, atol=1e-5)
    assert all(torch.equal(results[0], other) for other in results)

"""Graphs of quantised weights: every operator of them is compiled, and the values are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor

from dlc.report import collect
from tests.capture import low_precision as formats
from tests.capture.whole import check_whole, spread
from tests.tolerance import Run, assert_runs, assert_same_bits

pytestmark = pytest.mark.in_turn(2)

# Every product is computed by dlc: under "auto" some are left to the library.
OWN = {"products": "own"}
WAYS = [("direct", "tcc"), ("aot", "tcc"), ("direct", "gcc")]
FLOAT8 = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)  # fmt: skip
NUMBERS = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.float8_e4m3fn,
)  # fmt: skip

Make = Callable[[int, int], torch.nn.Module]
FORMATS: dict[str, Make] = {
    "Q8_0": formats.Q8_0,
    "Q4_0": formats.Q4_0,
    "Q4_1": formats.Q4_1,
    "Q4_K": formats.Q4_K,
    "Q5_K": formats.Q5_K,
    "Q6_K": formats.Q6_K,
    "GPTQ": formats.GPTQ,
    "GPTQ groups of 128": lambda n, k: formats.GPTQ(n, k, group=128),
    "GPTQ in another order": lambda n, k: formats.GPTQ(n, k, ordered=False),
    "AWQ": formats.AWQ,
    "NF4": formats.NF4_,
    "NF4 by a literal": lambda n, k: formats.NF4_(n, k, group=32, literal=True),
    "MXFP4": formats.MXFP4,
    "int8": formats.Written,
    "e4m3": formats.Float8,
    "e5m2": lambda n, k: formats.Float8(n, k, torch.float8_e5m2),
}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    dynamic = options.pop("dynamic", False)
    given = {"strict": True, "tier": "tcc"} | OWN | options
    return torch.compile(function, backend="dlc", fullgraph=True, dynamic=dynamic, options=given)


def check_product(
    function: Callable[..., Tensor], exact: Callable[..., Tensor], *inputs: tuple[Any, ...], **options: Any
) -> None:
    """Without a call; several inputs are several runs of one program, by the rule of tests/tolerance.py."""
    runs: list[Run] = []
    with torch.no_grad(), collect() as reports:
        fast = compiled(function, **options)
        for args in inputs:
            runs.append(({"": fast(*args)}, {"": function(*args)}, {"": exact(*args)}))
    assert [call[0] for report in reports for call in report["calls"]] == []
    assert_runs(runs)


def check_format(model: formats.Decoded, *sizes: tuple[int, int], **options: Any) -> None:
    """The weight is what eager decodes: the exact product is that of its numbers."""
    dtype = options.pop("dtype", torch.float32)

    def exact(x: Tensor) -> Tensor:
        return x.double() @ model.decode().to(dtype).double().t()

    check_product(model, exact, *[(torch.randn(size, dtype=dtype),) for size in sizes], **options)


# ---- whole formats ----


@pytest.mark.parametrize("capture, tier", WAYS)
@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str, capture: str, tier: str) -> None:
    columns = 256 if name.endswith("_K") else 128
    check_format(FORMATS[name](24, columns), *[(3, columns)] * 4, capture=capture, tier=tier)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_one_row_and_of_any_number(name: str) -> None:
    model = FORMATS[name](8, 768)
    check_format(model, *[(1, 768)] * 8)
    check_format(model, (5, 768), (1, 768), (2, 768), (33, 768), (4, 768), dynamic=True)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_prepared_is_codes(name: str) -> None:
    """A quarter more than the model keeps at most: not the weight as floats, and no byte for four bits."""
    model = FORMATS[name](128, 512)
    with torch.no_grad(), collect() as reports:
        compiled(model, freeze=True)(torch.randn(3, 512))
    kept = sum(b.numel() * b.element_size() for b in model.buffers())
    assert sum(report["prepared"][1] for report in reports) <= 1.25 * kept


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(
    "numbers", [list(range(8)), [7, 5, 3, 1], [0, 4], [3, 3, 3], [0, 1, 3], [[1, 2], [3, 4]]], ids=str
)
def test_lists_of_numbers(numbers: list[Any], dtype: torch.dtype) -> None:
    """Evenly spaced numbers are computed, others chosen."""

    def made(x: Tensor) -> Tensor:
        return torch.tensor(numbers, dtype=dtype) + x

    check_whole(lambda: made(torch.ones((), dtype=dtype)), exact=True)
    with torch.no_grad():
        x = torch.ones((), dtype=dtype)
        assert compiled(made)(x).equal(made(x))


@pytest.mark.parametrize("name", FORMATS)
def test_decoded_weights_are_eager_s(name: str) -> None:
    model = FORMATS[name](40, 512)
    check_whole(lambda: model.decode() + 0, exact=True)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_formats_of_halves(name: str, dtype: torch.dtype) -> None:
    check_format(FORMATS[name](16, 256), *[(3, 256)] * 4, dtype=dtype)


def test_odd_sizes() -> None:
    for rows, columns in ((1, 32), (7, 96), (33, 32)):
        for model in (formats.Q8_0, formats.Q4_0, formats.MXFP4):
            check_format(model(rows, columns), *[(2, columns)] * 4)
        check_format(formats.Float8(rows, columns + 3), *[(2, columns + 3)] * 4)


# ---- bits as numbers of another dtype ----


def bytes_of(*sizes: int) -> Tensor:
    return torch.randint(0, 256, sizes, dtype=torch.uint8)


def seen_as(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A new tensor: what shares storage with an input is made by eager."""
    v = x.view(dtype)
    return v.view(torch.uint8) + 1 if v.dtype in FLOAT8 else v + 0 if v.dtype.is_floating_point else v ^ 1


@pytest.mark.parametrize("capture, tier", WAYS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_views_of_bits(dtype: torch.dtype, capture: str, tier: str) -> None:
    def views(x: Tensor) -> list[Tensor]:
        return [seen_as(x, other) for other in NUMBERS if other != dtype]

    check_whole(views, bytes_of(3, 5, 64).view(dtype), exact=True, capture=capture, tier=tier)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_bits_of_nan_stay(dtype: torch.dtype) -> None:
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]

    def swapped(x: Tensor) -> Tensor:
        return torch.where(x > 0, x.view(dtype), x.view(dtype).flip(0)).view(whole) ^ 1

    quiet = torch.tensor([float("nan"), -float("nan"), 1.0, float("inf")], dtype=dtype).view(whole)
    check_whole(swapped, torch.cat([quiet, quiet + 1, quiet - 1, quiet | 3]), exact=True)


def test_views_of_bits_of_parts() -> None:
    def parts(x: Tensor) -> list[Tensor]:
        head, tail = x[:, :6], x[:, 6:]
        return [head.view(torch.int8) ^ 1, tail.view(torch.int8) ^ 1, x.t()[4].view(torch.int8) ^ 1]

    check_whole(parts, bytes_of(7, 38), exact=True)
    check_whole(lambda x: x[:, 2:10].view(torch.float16).float(), bytes_of(7, 38), exact=True)
    check_whole(lambda x: x.view(torch.int32).t() ^ 1, torch.randn(8, 5), exact=True)
    check_whole(lambda x: x.view(torch.int32) ^ 1, spread(torch.randn(8, 6)), exact=True)
    check_whole(lambda x: x.view(torch.int32) ^ 1, torch.randn(()), exact=True)
    check_whole(lambda x: x.view(torch.int16) ^ 1, bytes_of(0, 4), exact=True)


def test_views_of_bits_of_any_size() -> None:
    torch._dynamo.reset()
    function = torch.compile(seen_as, backend="dlc", dynamic=True, options={"strict": True})
    for rows, columns in ((3, 8), (5, 24), (1, 8)):
        for to in (torch.int8, torch.float16, torch.int64):
            x = bytes_of(rows, columns)
            assert_same_bits(function(x, to), seen_as(x, to))


def write_through_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    y.view(torch.int32).bitwise_and_(0x7FFFFFFF)
    return y, y + 1


def write_below_view(x: Tensor) -> Tensor:
    y = x * 1
    v = y.view(torch.int32)
    y.mul_(2)
    return v ^ 1


def write_below_returned_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    v = y.view(torch.int32)
    y.mul_(2)
    return v, y


def returned_view(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.view(torch.int32), x + 1


@pytest.mark.parametrize(
    "function", [write_through_view, write_below_view, write_below_returned_view, returned_view]
)
@pytest.mark.parametrize("capture", ["auto", "aot"])
def test_views_of_bits_share_storage(function: Callable[[Tensor], Any], capture: str) -> None:
    torch._dynamo.reset()
    x = torch.randn(4, 6)
    theirs_in, mine_in = x.clone(), x.clone()
    theirs = function(theirs_in)
    with torch.no_grad():
        compiled = torch.compile(function, backend="dlc", options={"strict": True, "capture": capture})
        mine = compiled(mine_in)
    pairs = [(theirs, mine)] if isinstance(theirs, Tensor) else list(zip(theirs, mine, strict=True))
    for a, b in pairs:
        assert torch.equal(a, b)
    if function is returned_view:
        assert mine[0].data_ptr() == mine_in.data_ptr()
    if function is write_below_returned_view:
        assert mine[0].data_ptr() == mine[1].data_ptr()


# ---- 8-bit floats ----


def float8s(dtype: torch.dtype) -> Tensor:
    return torch.arange(256).to(torch.uint8).view(dtype)


def borders() -> Tensor:
    """f32 near each number of f16, of all exponents, and any."""
    halves = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16).float().view(torch.int32)
    high = (torch.arange(2**16) << 16).to(torch.int32)
    some = torch.randint(-(2**31), 2**31 - 1, (2**16,)).to(torch.int32)
    return torch.cat([halves - 1, halves, halves + 1, high, high + 1, some]).view(torch.float32)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_from_float8(dtype: torch.dtype, tier: str) -> None:
    def wider(x: Tensor) -> list[Tensor]:
        return [x.to(to) for to in (torch.float32, torch.float16, torch.bfloat16, torch.float64)]

    check_whole(wider, float8s(dtype), exact=True, tier=tier)
    numbers = float8s(dtype)[~float8s(dtype).float().isnan()]
    check_whole(lambda x: x.to(torch.int32), numbers, exact=True, tier=tier)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_to_float8(dtype: torch.dtype, tier: str) -> None:
    def narrow(x: Tensor) -> Tensor:
        return x.to(dtype).view(torch.uint8)

    x = borders()
    for given in (x, x.half(), x.bfloat16(), x.double(), torch.arange(-600, 600, dtype=torch.int16)):
        check_whole(narrow, given, exact=True, tier=tier)
    for other in FLOAT8:
        if other != dtype:
            check_whole(narrow, float8s(other), exact=True, tier=tier)


def test_float8_is_moved() -> None:
    def moved(x: Tensor, at: Tensor) -> list[Tensor]:
        results = [x.t().contiguous(), torch.cat([x, x], 1)[1:, ::2].contiguous(), x[at].flip(0)]
        return [r.view(torch.uint8) + 1 for r in results]

    x = torch.randn(9, 14).to(torch.float8_e4m3fn)
    check_whole(moved, x, torch.tensor([3, 1, 3]), exact=True)
    check_whole(moved, x, torch.tensor([3, 1, 3]), exact=True, tier="gcc")


# ---- literals ----


@pytest.mark.parametrize("capture", ["direct", "aot"])
@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d not in FLOAT8], ids=str)
def test_literals(dtype: torch.dtype, capture: str) -> None:
    def function(x: Tensor) -> list[Tensor]:
        table = torch.tensor([[0, 4, 1], [7, 2, 100]], dtype=dtype)
        return [
            table + x,
            torch.tensor([3], dtype=dtype) * x,
            torch.tensor(list(range(32)), dtype=dtype)[x.long()],
        ]

    check_whole(function, torch.tensor([[1, 2, 3], [4, 5, 31]]).to(dtype), exact=True, capture=capture)


def test_literals_that_torch_makes_of_floats() -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [
            torch.tensor([0.1, -0.0, 1e300, float("nan")]) + x,
            torch.tensor([0.1, 2], dtype=torch.bfloat16) * x[:2],
        ]

    check_whole(function, torch.randn(4), exact=True, capture="direct")


# ---- quantisation as PT2E writes it ----

Q = torch.ops.quantized_decomposed
EDGES = torch.tensor([0.0, -0.0, 0.25, 0.75, 1.25, -0.25, -0.75, 1e9, -1e9, 63.75, 64.25])


def numbers(*sizes: int) -> Tensor:
    x = 3 * torch.randn(*sizes)
    x.view(-1)[: len(EDGES)] = EDGES[: x.numel()]
    return x


BOUNDS: list[tuple[int, int, torch.dtype]] = [
    (0, 255, torch.uint8), (-128, 127, torch.int8), (-127, 127, torch.int8), (-32768, 32767, torch.int16),
    (-448, 448, torch.float8_e4m3fn),
]  # fmt: skip


def as_codes(q: Tensor) -> Tensor:
    return q.view(torch.uint8) ^ 1 if q.dtype in FLOAT8 else q


@pytest.mark.parametrize("capture, tier", WAYS)
@pytest.mark.parametrize("least, most, dtype", BOUNDS)
def test_quantize_per_tensor(least: int, most: int, dtype: torch.dtype, capture: str, tier: str) -> None:
    def function(x: Tensor, scale: Tensor, zero: Tensor) -> list[Tensor]:
        results = []
        for s, z in ((0.5, 3), (scale, zero)):
            overload = Q.quantize_per_tensor.default if isinstance(s, float) else Q.quantize_per_tensor.tensor
            back = Q.dequantize_per_tensor.default if isinstance(s, float) else Q.dequantize_per_tensor.tensor
            q = overload(x, s, z, least, most, dtype)
            results += [as_codes(q), back(q, s, z, least, most, dtype)]
        return results

    options = {"exact": True, "capture": capture, "tier": tier}
    for scale, zero in (
        (torch.tensor([0.1], dtype=torch.float64), torch.tensor([5])),
        (torch.tensor(0.3), torch.tensor(0, dtype=torch.int32)),
    ):
        check_whole(function, numbers(5, 37), scale, zero, **options)
        check_whole(function, numbers(64).bfloat16(), scale, zero, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_dequantize_to(dtype: torch.dtype) -> None:
    def function(q: Tensor) -> Tensor:
        return Q.dequantize_per_tensor.default(q, 0.3, 7, 0, 255, torch.uint8, out_dtype=dtype)

    check_whole(function, bytes_of(4, 64), exact=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("zeros", [torch.int64, torch.int32, torch.float32, None], ids=str)
@pytest.mark.parametrize("scale", [torch.float32, torch.float64], ids=str)
def test_quantize_per_channel(axis: int, zeros: torch.dtype | None, scale: torch.dtype) -> None:
    def function(x: Tensor, scales: Tensor, zeros: Tensor | None) -> list[Tensor]:
        given = zeros if zeros is not None else torch.zeros_like(scales)
        q = Q.quantize_per_channel.default(x, scales, given, axis, -128, 127, torch.int8)
        return [q, Q.dequantize_per_channel.default(q, scales, zeros, axis, -128, 127, torch.int8)]

    x = numbers(4, 5, 6)
    scales = (0.1 + torch.rand(x.shape[axis])).to(scale)
    given = None if zeros is None else torch.randint(-9, 9, scales.shape).to(zeros)
    check_whole(function, x, scales, given, exact=True)


@pytest.mark.parametrize("least, most, dtype", BOUNDS[:2])
def test_dynamic_quantisation(least: int, most: int, dtype: torch.dtype) -> None:
    def function(x: Tensor) -> list[Tensor]:
        results = []
        for choose in (Q.choose_qparams.tensor, Q.choose_qparams_symmetric.tensor):
            scale, zero = choose(x, least, most, 1e-5, dtype)
            q = Q.quantize_per_tensor.tensor(x, scale, zero, least, most, dtype)
            back = Q.dequantize_per_tensor.tensor(q, scale, zero, least, most, dtype)
            results += [scale, zero, q, back]
        return results

    for x in (numbers(5, 37), torch.rand(40) + 1, -torch.rand(3, 3), torch.zeros(7)):
        check_whole(function, x, exact=True)


def test_quantisation_by_token_and_by_group() -> None:
    def tokens(x: Tensor) -> list[Tensor]:
        scale, zero = Q.choose_qparams_per_token_asymmetric.default(x, torch.int8)
        q = Q.quantize_per_token.default(x, scale, zero, -128, 127, torch.int8)
        return [
            scale,
            zero,
            q,
            Q.dequantize_per_token.default(q, scale, zero, -128, 127, torch.int8, torch.float32),
        ]

    def groups(q: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
        return Q.dequantize_per_channel_group.default(q, scales, zeros, -8, 7, torch.int8, 32, torch.float32)

    check_whole(tokens, numbers(5, 37), exact=True)
    check_whole(tokens, numbers(2, 3, 16), exact=True, dynamic=True)
    q = torch.randint(-8, 8, (6, 96), dtype=torch.int8)
    check_whole(groups, q, torch.rand(6, 3), torch.randint(-8, 8, (6, 3), dtype=torch.int32), exact=True)


# ---- products that take codes ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows, k, n", [(1, 64, 32), (5, 96, 48)])
def test_int8_product(rows: int, k: int, n: int, dtype: torch.dtype) -> None:
    def exact(x: Tensor, w: Tensor, scales: Tensor) -> Tensor:
        return x.double() @ w.double().t() * scales.double()

    w, scales = bytes_of(n, k).view(torch.int8), (0.01 + torch.rand(n)).to(dtype)
    inputs = [(torch.randn(rows, k).to(dtype), w, scales) for _ in range(6)]
    check_product(lambda *args: torch.ops.aten._weight_int8pack_mm(*args), exact, *inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "rows, k, n", [(1, 64, 64), (5, 96, 48), (3, 128, 16), (2, 64, 32), (4, 64, 144), (2, 32, 224)]
)
def test_int4_product(rows: int, k: int, n: int, dtype: torch.dtype) -> None:
    codes, both = torch.randint(0, 16, (n, k), dtype=torch.int32), torch.rand(k // 32, n, 2).to(dtype)

    def function(x: Tensor, packed: Tensor, both: Tensor) -> Tensor:
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, 32, both)

    def exact(x: Tensor, packed: Tensor, both: Tensor) -> Tensor:
        scale, zero = both.double().permute(1, 0, 2).repeat_interleave(32, dim=1).unbind(-1)
        return x.double() @ ((codes - 8) * scale + zero).t()

    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    check_product(function, exact, *[(torch.randn(rows, k).to(dtype), packed, both) for _ in range(6)])


def test_product_of_integers_in_i32() -> None:
    from torch._higher_order_ops.out_dtype import out_dtype

    def function(a: Tensor, b: Tensor) -> Tensor:
        return out_dtype(torch.ops.aten.mm.default, torch.int32, a, b)

    a, b = bytes_of(5, 64).view(torch.int8), bytes_of(64, 24).view(torch.int8)
    check_whole(function, a, b, exact=True, **OWN)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_product_of_codes(dtype: torch.dtype) -> None:
    a, b = bytes_of(20, 64).view(dtype), bytes_of(64, 24).view(torch.int8)
    check_whole(torch._int_mm, a, b, exact=True, capture="aot", **OWN)


class Codes(Tensor):
    """A weight that is codes of 8 bits and a scale for each row, as torchao's are."""

    @staticmethod
    def __new__(cls: type[Codes], codes: Tensor, scales: Tensor) -> Codes:
        return Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scales.dtype)  # type: ignore[attr-defined]

    def __init__(self, codes: Tensor, scales: Tensor) -> None:
        self.codes, self.scales = codes, scales

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        return "Codes(..)"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scales"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *rest: Any) -> Codes:
        return Codes(inner["codes"], inner["scales"])

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.nn.functional.linear:
            x, weight = args[:2]
            return torch.nn.functional.linear(x, weight.codes.to(x.dtype) * weight.scales)
        return super().__torch_function__(function, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(function(args[0].codes), function(args[0].scales))
        raise NotImplementedError(function)


def test_tensors_in_a_subclass_are_frozen() -> None:
    codes, scales = bytes_of(48, 64).view(torch.int8), torch.rand(48, 1)
    model = torch.nn.Linear(64, 48, bias=False)
    model.weight = torch.nn.Parameter(Codes(codes, scales), requires_grad=False)
    x = torch.randn(5, 64)
    with torch.no_grad(), collect() as reports:
        fast = compiled(model, freeze=True)
        torch.testing.assert_close(fast(x), model(x))
        model.weight.scales.mul_(2)  # which is noticed
        torch.testing.assert_close(fast(x), model(x))
    (report,) = reports
    assert report["calls"] == []
    assert report["prepared"][0] == 0  # each call reads the codes: floats would take four times their memory


def test_powers_of_two() -> None:
    powers = torch.arange(-310, 310, dtype=torch.int32)
    for x in (torch.ones(620), torch.randn(620), torch.tensor([3e38, 1e-45, -0.0, torch.inf]).repeat(155)):
        check_whole(torch.ldexp, x, powers, exact=True)
        check_whole(torch.ldexp, x, (powers // 3).to(torch.int8), exact=True)

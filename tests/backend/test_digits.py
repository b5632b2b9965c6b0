"""Option activations: rows that products multiply by codes become integers of 8, 16 or 32 bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

import dlc
from tests.capture import low_precision as formats

pytestmark = pytest.mark.in_turn(2)

KINDS = {"i8": 1, "i16": 2, "i32": 4}  # with the number of digits


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


class Coded(nn.Module):
    """A layer whose weight is codes of eight bits, with a scale for each column."""

    def __init__(self, terms: int, columns: int) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randint(-128, 128, (columns, terms), dtype=torch.int8), False)
        self.scale = nn.Parameter(torch.rand(columns) * 0.01, False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.codes.float() * self.scale[:, None])


def compiled(model: nn.Module, activations: str, **more: Any) -> Callable[[Tensor], Tensor]:
    options = {"freeze": True, "strict": True, "tier": "tcc", "activations": activations, **more}
    run = torch.compile(model, backend="dlc", options=options)

    def call(x: Tensor) -> Tensor:
        with torch.no_grad():
            return run(x)

    return call


def found_digits(x: Tensor, digits: int) -> list[Tensor]:
    """Those of rows of usual size, the highest first."""
    whole = (x * (torch.tensor(127.0 * 256 ** (digits - 1)) / x.abs().amax(1, keepdim=True))).round()
    found: list[Tensor] = []
    for _ in range(digits - 1):
        above = (whole / 256 + 0.5).floor()
        found.insert(0, whole - 256 * above)
        whole = above
    return [whole, *found]


def expected(x: Tensor, codes: Tensor, scale: Tensor, activations: str) -> Tensor:
    """What the page says, by torch's own integers."""
    digits = KINDS[activations]
    largest = x.abs().amax(1, keepdim=True)
    half = torch.where(largest > 2.0**64, 2.0**32, torch.where(largest < 2.0**-64, 2.0**-32, 1.0))
    near = 1 / (half * half)
    # a number divided by a tensor would be multiplied by the inverse
    factor = (torch.tensor(127.0 * 256 ** (digits - 1)) / (largest * near)).clamp(max=2.0**120)
    whole = (x * near * factor).round().nan_to_num(0)
    found: list[Tensor] = []
    for _ in range(digits - 1):
        above = (whole / 256 + 0.5).floor()
        found.insert(0, whole - 256 * above)
        whole = above
    found.insert(0, whole)
    assert all(digit.min() >= -128 and digit.max() <= 127 for digit in found)
    sums = torch.zeros(())
    for digit in found:
        sums = sums * 256 + (digit.to(torch.int32) @ codes.to(torch.int32).T).float()
    return sums * (1 / factor) * half * scale * half


@pytest.mark.parametrize("activations", KINDS)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("rows", [1, 3, 14, 65])
def test_values(rows: int, tier: str, activations: str) -> None:
    """Of numbers alike, with heavy tails, and with outliers: each bit is what the page says."""
    model = Coded(515, 200)
    run = compiled(model, activations, tier=tier)
    x = torch.randn(rows, 515)
    for y in (x, x**5, torch.where(torch.rand_like(x) < 0.01, 100 * x, x)):
        torch.testing.assert_close(run(y), expected(y, model.codes, model.scale, activations), rtol=0, atol=0)


def product(x: Tensor, model: Coded) -> Tensor:
    return nn.functional.linear(x.double(), model.codes.double() * model.scale[:, None].double())


@pytest.mark.parametrize(("activations", "most"), [("i8", 2e-2), ("i16", 1e-4), ("i32", 3e-7)])
def test_how_exact(activations: str, most: float) -> None:
    model = Coded(1024, 256)
    x = torch.randn(64, 1024)
    exact = product(x, model)
    error = (compiled(model, activations)(x) - exact).norm() / exact.norm()
    assert most / 20 < error < most


@pytest.mark.parametrize("kind", ["normal", "heavy-tailed", "outliers", "one outlier", "large and tiny"])
def test_four_digits_are_as_exact_as_float32(kind: str) -> None:
    """The error to float64 is at most 1.5 of eager's, for each row."""
    model = Coded(4096, 64)
    run = compiled(model, "i32")
    x = torch.randn(16, 4096)
    if kind == "heavy-tailed":
        x = x.sign() * x.abs() ** 4
    if kind == "outliers":
        x[:, ::97] *= 100
    if kind == "one outlier":
        x[:, 5] *= 1000
    if kind == "large and tiny":
        x *= 10.0 ** torch.randint(-6, 4, x.shape)
    exact = product(x, model)
    with torch.no_grad():
        mine, eager = ((y - exact).norm(dim=1) for y in (run(x), model(x)))
    assert (mine <= 1.5 * eager).all(), (mine / eager).max()


@pytest.mark.parametrize("activations", KINDS)
def test_rows_without_a_factor(activations: str) -> None:
    """Zeros stay zeros; a row with NaN is NaN, and no other."""
    model = Coded(64, 48)
    x = torch.randn(6, 64)
    x[1], x[4, 7], x[5, 3], x[5, 9] = 0, torch.nan, torch.inf, torch.nan
    y = compiled(model, activations)(x)
    assert y[1].eq(0).all() and y[4].isnan().all() and y[5].isnan().all()
    for k in (0, 2):
        assert y[k].equal(expected(x, model.codes, model.scale, activations)[k])


INFINITIES: dict[str, list[float]] = {
    "one": [torch.inf],
    "negative": [-torch.inf],
    "both signs": [torch.inf, -torch.inf],
    "two": [torch.inf, torch.inf],
    "with NaN": [torch.inf, torch.nan],
    "with large numbers": [torch.inf, 1e38, -1e38],
}


@pytest.mark.parametrize("activations", KINDS)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("rows", [1, 3, 14, 65])
def test_rows_with_infinities(rows: int, tier: str, activations: str) -> None:
    """They have eager's infinities and NaN; a code of 0 makes NaN.  The other rows keep their digits."""
    model = Coded(515, 200)
    with torch.no_grad():
        model.codes[::7, ::3] = 0
    run = compiled(model, activations, tier=tier)
    for values in INFINITIES.values():
        x = torch.randn(rows, 515)
        special = torch.randperm(rows)[: (rows + 2) // 3]
        for k in special:
            x[k, torch.randperm(515)[: len(values)]] = torch.tensor(values)
        usual = torch.ones(rows, dtype=torch.bool).index_fill(0, special, False)
        y = run(x)
        with torch.no_grad():
            want = model(x)
        torch.testing.assert_close(y[special], want[special], rtol=0, atol=0, equal_nan=True)
        assert y[usual].equal(expected(x, model.codes, model.scale, activations)[usual])


@pytest.mark.parametrize("sizes", [(3, 5), (2, 1), ()], ids=str)
def test_infinities_of_more_axes(sizes: tuple[int, ...]) -> None:
    """Rows along several axes, and a vector."""
    model = Coded(64, 48)
    run = compiled(model, "i16")
    x = torch.randn(*sizes, 64)
    x.view(-1, 64)[-1, 5] = -torch.inf
    with torch.no_grad():
        want = model(x)
    y = run(x)
    last = y.view(-1, 48)[-1]
    torch.testing.assert_close(last, want.view(-1, 48)[-1], rtol=0, atol=0, equal_nan=True)
    rows = expected(x.view(-1, 64), model.codes, model.scale, "i16")
    assert y.view(-1, 48)[:-1].equal(rows[:-1])


@pytest.mark.parametrize("activations", KINDS)
@pytest.mark.parametrize(
    ("of_rows", "of_scales"),
    [
        (1e-38, 1.0),
        (1e-42, 1.0),
        (3e35, 1.0),
        (7e37, 1e-10),
        (3e37, 1e-30),
        (1e-38, 1e33),
        (1e-30, 1e-8),
        (1e-20, 1e-20),
    ],
)
def test_rows_of_tiny_and_huge_numbers(activations: str, of_rows: float, of_scales: float) -> None:
    """They keep their digits, whatever the scales are."""
    model = Coded(1024, 64)
    with torch.no_grad():
        model.scale *= of_scales
    x = torch.randn(20, 1024) * of_rows
    exact = product(x, model)
    with torch.no_grad():
        mine, eager = ((y - exact).norm(dim=1) for y in (compiled(model, activations)(x), model(x)))
    most = {"i8": 2e-2, "i16": 1e-4, "i32": 3e-7}[activations]
    assert (mine <= torch.maximum(most * exact.norm(dim=1), 1.5 * eager)).all(), (
        mine / exact.norm(dim=1)
    ).max()


@pytest.mark.parametrize("activations", KINDS)
def test_one_row_alone_and_among_others(activations: str) -> None:
    run = compiled(Coded(300, 96), activations)
    x = torch.randn(29, 300)
    all_rows = run(x)
    for k in (0, 13, 28):
        torch._dynamo.reset()
        assert run(x[k : k + 1]).equal(all_rows[k : k + 1])


@pytest.mark.parametrize("activations", KINDS)
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_weights_of_a_float_model(weights: str, activations: str) -> None:
    """Their codes are multiplied so, with a scale for each column or for 32 terms."""
    model = nn.Sequential(nn.Linear(128, 96), nn.ReLU(), nn.Linear(96, 64)).eval()
    x = torch.randn(40, 128)
    exact, coarse = compiled(model, "exact", weights=weights), compiled(model, activations, weights=weights)
    want = exact(x)
    torch._dynamo.reset()
    error = (coarse(x) - want).norm() / want.norm()
    assert 0 < error < {"i8": 3e-2, "i16": 2e-4, "i32": 1e-6}[activations]


# ---- scales for groups of terms ----


class Centred(formats.Q4_1):
    """Minima such that weights have both signs: else sums cancel, and errors are no part of what is left."""

    def random(self, n: int) -> list[torch.Tensor]:
        step, _, codes = super().random(n)
        return [step, (-8 * step.view(torch.float16)).view(torch.uint8), codes]


class ZeroPoints(formats.Decoded):
    """Bytes of eight bits without a sign, and zero points as large, as asymmetric quantisation has them."""

    def __init__(self, rows: int, columns: int, group: int = 64) -> None:
        super().__init__()
        self.register_buffer("q", formats.codes(rows, columns // group, group))
        self.register_buffer("zeros", formats.codes(rows, columns // group, 1))
        self.register_buffer("scales", 0.01 + 0.05 * torch.rand(rows, columns // group, 1))

    def decode(self) -> torch.Tensor:
        return ((self.q.float() - self.zeros.float()) * self.scales).flatten(1)


GROUPED = {
    "Q8_0": formats.Q8_0,
    "Q4_0": formats.Q4_0,
    "Q6_K": formats.Q6_K,
    "AWQ": formats.AWQ,
    "Q4_1": Centred,
    "Q4_K": formats.Q4_K,
    "Q5_K": formats.Q5_K,
    "u8 with zero points": ZeroPoints,
}


def decoded_product(x: Tensor, model: formats.Decoded) -> Tensor:
    return x.double() @ model.decode().double().t()


@pytest.mark.parametrize("activations", KINDS)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("name", GROUPED)
def test_formats_with_scales_for_groups(name: str, tier: str, activations: str) -> None:
    """Of any number of rows, with outliers; rows with infinities have eager's values, and no others do."""
    model = GROUPED[name](72, 512)
    run = compiled(model, activations, tier=tier)
    for rows in (1, 3, 14, 40):
        x = torch.randn(rows, 512)
        x[:, 5] *= 20
        exact, mine = decoded_product(x, model), run(x)
        with torch.no_grad():
            eager = (model(x) - exact).norm(dim=1)
        error, most = (mine - exact).norm(dim=1), {"i8": 0.1, "i16": 1e-3, "i32": 0}[activations]
        assert (error <= torch.maximum(1.5 * eager, most * exact.norm(dim=1))).all(), error / eager
        bad = x.clone()
        bad[rows // 2, 7] = -torch.inf
        found = run(bad)
        with torch.no_grad():
            torch.testing.assert_close(
                found[rows // 2], model(bad)[rows // 2], rtol=0, atol=0, equal_nan=True
            )
        others = torch.arange(rows) != rows // 2
        assert found[others].equal(mine[others])


@pytest.mark.parametrize("activations", KINDS)
def test_groups_of_one_row_alone_and_among_others(activations: str) -> None:
    model = formats.Q4_0(96, 320)
    run = compiled(model, activations)
    x = torch.randn(29, 320)
    all_rows = run(x)
    for k in (0, 13, 28):
        torch._dynamo.reset()
        assert run(x[k : k + 1]).equal(all_rows[k : k + 1])


@pytest.mark.parametrize("activations", KINDS)
def test_sums_of_groups(activations: str) -> None:
    """Each digit's sum of a group is exact, and is added by one fused multiply-add: as the page says."""
    model = formats.Q4_0(48, 128)
    codes = model.blocks.reshape(48 * 4, 18)
    scale = codes[:, :2].contiguous().view(torch.float16).float().reshape(48, 4)
    digits = torch.cat([codes[:, 2:] & 15, codes[:, 2:] >> 4], 1).reshape(48, 4, 32).to(torch.int32) - 8
    x = torch.randn(5, 128)
    rows = found_digits(x, KINDS[activations])
    largest = x.abs().amax(1, keepdim=True)
    factor = torch.tensor(127.0 * 256 ** (KINDS[activations] - 1)) / largest
    total = torch.zeros(())
    for row in rows:
        sums = torch.zeros(5, 48, dtype=torch.float64)
        for g in range(4):
            part = row[:, 32 * g : 32 * g + 32].to(torch.int32) @ digits[:, g].T
            sums = (part.double() * scale[:, g].double() + sums).float().double()
        total = total * 256 + sums.float()
    want = total * (1 / factor)
    torch.testing.assert_close(compiled(model, activations)(x), want, rtol=0, atol=0)


def test_groups_are_one_kernel_that_reads_the_codes() -> None:
    """No memory has the sums of groups or the codes as bytes of their own."""
    model = formats.Q4_0(128, 512)
    with torch.no_grad():
        report = dlc.explain(model, torch.randn(20, 512), options={"freeze": True, "activations": "i8"})
    text = report.graphs[0].texts["kernels"]
    kernels = [k for k in text.split("= kernel {") if re.search(r": i32\[20, 16, 128\] = contract", k)]
    assert len(kernels) == 1 and ": f32[20, 128] = contract" in kernels[0]
    assert not re.search(r"(i8|f32)\[(128, 512|16, 32, 128|4, 512, 32)\].*= kernel", text)


def test_panels_are_codes() -> None:
    """What is prepared is the codes in the order of panels, and a call reads these bytes."""
    model = Coded(512, 128)
    with torch.no_grad():
        report = dlc.explain(model, torch.randn(20, 512), options={"freeze": True, "activations": "i8"})
    assert "i8[4, 512, 32]" in report.graphs[0].texts["kernels"]


def test_codes_are_kept_once() -> None:
    """The form of floats, for rows with infinities, reads the panels of the other one."""
    model = nn.Linear(512, 128, bias=False)
    options = {"freeze": True, "weights": "int8", "activations": "i8"}
    with torch.no_grad():
        report = dlc.explain(model, torch.randn(20, 512), options=options)
    text = report.graphs[0].texts["kernels"]
    assert "i8[4, 512, 32]" in text and "i8[512, 128]" not in text.split("->")[0]


def test_a_word_that_is_none() -> None:
    with pytest.raises(Exception, match="activations"):
        compiled(Coded(64, 48), "i4")(torch.randn(2, 64))

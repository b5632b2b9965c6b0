"""Option activations: rows that products multiply by codes become integers of 8, 16 or 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

import dlc

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
def test_weights_of_a_float_model(activations: str) -> None:
    """Their codes of eight bits are multiplied so; those of four, with a scale for 32 terms, are not."""
    model = nn.Sequential(nn.Linear(128, 96), nn.ReLU(), nn.Linear(96, 64)).eval()
    x = torch.randn(40, 128)
    exact, coarse = compiled(model, "exact", weights="int8"), compiled(model, activations, weights="int8")
    want = exact(x)
    torch._dynamo.reset()
    error = (coarse(x) - want).norm() / want.norm()
    assert 0 < error < {"i8": 3e-2, "i16": 2e-4, "i32": 1e-6}[activations]
    torch._dynamo.reset()
    same = compiled(model, "exact", weights="int4")(x)
    torch._dynamo.reset()
    assert compiled(model, activations, weights="int4")(x).equal(same)


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

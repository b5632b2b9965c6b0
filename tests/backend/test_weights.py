"""Option weights: products of codes have the values of decoded weights, and no float copy is kept."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

import dlc
from dlc import _C

pytestmark = pytest.mark.in_turn(2)

OPTIONS = {"freeze": True, "strict": True, "tier": "tcc"}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


# ---- what the formats mean ----


def int8(w: Tensor) -> Tensor:
    """w: [columns, terms]."""
    step = w.abs().amax(1, keepdim=True) * (1.0 / 127)
    step = torch.where(step == 0, 1, step)
    return (w / step).round().clamp(-127, 127) * step


def int4(w: Tensor, zeros: bool) -> Tensor:
    groups = nn.functional.pad(w, (0, -w.shape[1] % 32)).reshape(w.shape[0], -1, 32)
    least = groups.amin(2, keepdim=True).clamp(max=0)
    most = groups.amax(2, keepdim=True).clamp(min=0)
    step = (most - least) * (1.0 / 15) if zeros else torch.where(most > -least, most, least) * (-1.0 / 8)
    step = step.to(torch.bfloat16).float()
    step = torch.where(step == 0, 1, step)
    zero = (-least / step).round().clamp(0, 15) if zeros else torch.full_like(step, 8)
    codes = ((groups / step).round() + zero).clamp(0, 15)
    return ((codes - zero) * step).reshape(w.shape[0], -1)[:, : w.shape[1]]


def decoded(w: Tensor, format: str) -> Tensor:
    wide = w.float()
    return int8(wide) if format == "int8" else int4(wide, format == "int4 with zero points")


def compiled(model: Any, weights: str, **more: Any) -> Callable[..., Tensor]:
    run = torch.compile(model, backend="dlc", options=OPTIONS | {"weights": weights} | more)

    def call(*args: Any) -> Any:
        with torch.no_grad():
            return run(*args)

    return call


def explained(model: nn.Module, weights: str, *args: Any, **more: Any) -> list[Any]:
    with torch.no_grad():
        report = dlc.explain(model, *args, options=OPTIONS | {"weights": weights} | more)
    return [weight for graph in report.graphs for weight in graph.weights]


def with_decoded(model: nn.Module, weights: list[Any]) -> nn.Module:
    """The model with the f32 numbers that the codes stand for."""
    tensors = model.state_dict(keep_vars=True)
    found = {id(tensors[weight.name]): weight for weight in weights}  # a tied weight has several names
    made = copy.deepcopy(model).float()
    state = {}
    for name, tensor in tensors.items():
        weight = found.get(id(tensor))
        coded = weight is not None and weight.why is None
        state[name] = decoded(tensor.detach(), weight.format) if coded else tensor.detach().float()
    made.load_state_dict(state)
    return made


def wide(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def check(model: nn.Module, weights: str, *args: Tensor) -> list[Any]:
    """The bits are those that dlc computes in float32 with the decoded weights, rounded once."""
    said = explained(model, weights, *args)
    torch._dynamo.reset()
    ours = compiled(model, weights, products="own")(*args)
    torch._dynamo.reset()
    floats = torch.compile(with_decoded(model, said), backend="dlc", options=OPTIONS | {"products": "own"})
    with torch.no_grad():
        assert torch.equal(ours, floats(*(wide(a, torch.float32) for a in args)).to(ours.dtype))
    return said


def values(kind: str, *shape: int) -> Tensor:
    x = torch.randn(*shape)
    if kind == "heavy-tailed":
        x = x.sign() * x.abs() ** 2
    if kind == "outliers":
        x[..., ::97] *= 100
    return x


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("of", ["activations", "weights"])
@pytest.mark.parametrize("kind", ["normal", "heavy-tailed", "outliers"])
def test_values(kind: str, of: str, weights: str) -> None:
    """The error to the decoded model in float64 is at most 1.5 of eager's in float32."""
    layer = nn.Linear(1024, 300)
    with torch.no_grad():
        layer.weight.copy_(values(kind if of == "weights" else "normal", 300, 1024))
    said = check(layer, weights, values(kind if of == "activations" else "normal", 3, 1024))
    model = with_decoded(layer, said)
    call = compiled(layer, weights)
    for rows in (1, 3, 64):
        mine = theirs = 0.0
        for _ in range(64 // rows):
            x = values(kind if of == "activations" else "normal", rows, 1024)
            with torch.no_grad():
                exact = nn.functional.linear(x.double(), model.weight.double(), model.bias.double())
                mine += (call(x) - exact).square().sum().item()
                theirs += (model(x) - exact).square().sum().item()
        assert mine <= 1.5**2 * theirs, rows
    assert said[0].why is None or kind != "normal"


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("terms", [1, 2, 31, 32, 33, 64, 255, 257])
@pytest.mark.parametrize("columns", [15, 16, 17, 33])
def test_sizes(columns: int, terms: int, weights: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing becomes codes
        check(nn.Linear(terms, columns), weights, torch.randn(3, terms))


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_short_floats(rows: int, dtype: torch.dtype, weights: str) -> None:
    """Codes stand for f32 numbers, which the product is computed with: one rounding is left."""
    layer = nn.Linear(200, 48, bias=False).to(dtype)
    (weight,) = check(layer, weights, torch.randn(rows, 200).to(dtype))
    assert weight.why is None


class Conv1D(nn.Module):
    """As in GPT-2: the weight is [terms, columns], here a part of a larger one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(96, 100)[:, 2:98:2])
        self.bias = nn.Parameter(torch.randn(48))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_addmm_of_a_weight_that_is_not_contiguous(weights: str) -> None:
    model, x = Conv1D(), torch.randn(5, 96)
    assert not model.weight.is_contiguous()
    said = explained(model, weights, x)
    assert [weight.why for weight in said] == [None]
    torch._dynamo.reset()
    ours = compiled(model, weights)(x)
    with torch.no_grad():
        exact = x.double() @ decoded(model.weight.t(), said[0].format).t().double() + model.bias.double()
    assert (ours - exact).abs().max() <= 2e-6 * exact.abs().max()


class Tied(nn.Module):
    def __init__(self, words: int = 100, width: int = 64) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.inner = nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.table.weight

    def forward(self, words: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(self.table(words))))


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("shape", [(1,), (3, 7), (1, 1)])
def test_tied_table(shape: tuple[int, ...], weights: str) -> None:
    said = check(Tied(), weights, torch.randint(0, 100, shape))
    assert [weight.why for weight in said] == [None, None]


class Decoder(nn.Module):
    """A step of decoding as in Llama: norms, a cache of keys and values, a gated network."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        h = self.norms[0](x)
        q, k, v = (f(h).reshape(1, 1, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        a = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.o(a.transpose(1, 2).reshape(1, 1, -1))
        h = self.norms[1](x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_decoding_step(weights: str) -> None:
    cache = torch.randn(2, 1, 4, 9, 16)
    said = check(Decoder(), weights, torch.randn(1, 1, 64), cache[0], cache[1])
    assert sum(weight.why is None for weight in said) == 7


def test_convolutions_stay() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 16, 20)
    )
    said = check(model, "int8", torch.randn(2, 3, 8, 8))
    why = {weight.name: weight.why for weight in said}
    assert why["5.weight"] is None
    assert why["0.weight"]
    assert why["2.weight"]


class Batched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 32, 48))

    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(x, self.w)


def test_what_stays_float_says_why() -> None:
    with pytest.warns(UserWarning, match="changes nothing in a graph: w stays float: products of a batch"):
        said = explained(Batched(), "int8", torch.randn(4, 5, 32))
    assert said[0].why == "products of a batch read it"


def test_noise() -> None:
    layer = nn.Linear(1024, 64)
    with torch.no_grad():
        layer.weight.copy_(values("outliers", 64, 1024))
    with pytest.warns(UserWarning, match="codes would lose too much"):
        (weight,) = explained(layer, "int8", torch.randn(3, 1024))
    assert weight.decibels == weight.decibels
    with torch.no_grad():
        layer.weight[0, 0] = float("nan")
    with pytest.warns(UserWarning, match="NaN"):
        explained(layer, "int8", torch.randn(3, 1024))


def test_gradients_are_told_of() -> None:
    layer = nn.Linear(32, 32)
    with pytest.warns(UserWarning, match="records gradients"):
        torch.compile(layer, backend="dlc", options=OPTIONS | {"weights": "int8"})(torch.randn(2, 32))


def test_needs_freeze() -> None:
    with pytest.raises(Exception, match="'freeze': True, 'weights': 'int8'"):
        torch.compile(nn.Linear(4, 4), backend="dlc", options={"weights": "int8"})(torch.randn(2, 4))


@pytest.mark.parametrize("capture", ["direct", "aot"])
def test_both_ways(capture: str) -> None:
    layer, x = nn.Linear(64, 64), torch.randn(3, 64)
    assert [w.why for w in explained(layer, "int8", x, capture=capture)] == [None]


@pytest.mark.parametrize(("weights", "each"), [("int8", 1.0), ("int4", 0.5)])
def test_memory(weights: str, each: float) -> None:
    """Codes and their numbers are all that is kept, and all that a call reads of weights."""
    model = nn.Sequential(nn.Linear(512, 2048, bias=False), nn.Linear(2048, 1024, bias=False)).eval()
    x = torch.randn(1, 512)
    before = _C.prepared_bytes()
    call = compiled(model, weights)
    call(x)
    numel = 512 * 2048 + 2048 * 1024
    kept = _C.prepared_bytes() - before
    per_group = 3 / 32 if weights == "int4" else 4 / 512
    assert kept <= numel * (each + per_group)
    torch._dynamo.reset()
    with torch.no_grad():
        report = dlc.explain(model, x, options=OPTIONS | {"weights": weights})
    (graph,) = report.graphs
    assert graph.bytes <= numel * (each + per_group) + 4 * (512 + 2 * 2048 + 1024) + 64
    assert graph.workspace <= 1 << 20, "blocks of 256 columns by 256 terms, and no copy of a weight"


def test_changed_weight_gets_new_codes() -> None:
    layer, x = nn.Linear(64, 64, bias=False), torch.randn(3, 64)
    call = compiled(layer, "int8")
    first = call(x)
    with torch.no_grad():
        layer.weight.mul_(2)
    assert torch.allclose(call(x), 2 * first, rtol=1e-6)


def test_rows_alone_have_the_same_bits() -> None:
    layer, x = nn.Linear(300, 70), torch.randn(64, 300)
    call = compiled(layer, "int4")
    whole = call(x)
    for row in (0, 13, 63):
        assert torch.equal(call(x[row : row + 1])[0], whole[row])


@pytest.mark.parametrize("cut", [slice(5, None), slice(None, None, 2), (slice(None), slice(0, 32))])
def test_rows_of_a_part_of_a_table(cut: Any) -> None:
    """The codes of the whole table were read at the positions in the part: other rows, or no compile."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(64, 96))

        def forward(self, i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return nn.functional.embedding(i, self.table[cut]), nn.functional.linear(x, self.table)

    model, i, x = Tied().eval(), torch.tensor([0, 3, 20]), torch.randn(4, 96)
    with pytest.warns(UserWarning, match="a gather reads other parts of it than rows"):
        rows, product = compiled(model, "int8")(i, x)
    assert torch.equal(rows, model(i, x)[0])
    torch.testing.assert_close(product, model(i, x)[1])

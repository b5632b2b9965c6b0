"""dlc.quantize: the choice by signal to noise, its report, and its state in another process."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

import dlc

OPTIONS = {"strict": True, "tier": "tcc"}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


class Encoder(nn.Module):
    """The channels of its second layer's input differ by a factor of 100, as in encoders of text."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 32)
        with torch.no_grad():
            self.two.weight[:, 5] = 0
            self.two.weight[:, 5] += 1e-3 * torch.randn(64)
            self.one.weight[5] *= 100

    def forward(self, x: Tensor) -> Tensor:
        return self.three(torch.relu(self.two(torch.relu(self.one(x)))))


def signal(ours: Tensor, exact: Tensor) -> float:
    noise = (ours.double() - exact.double()).square().sum()
    return float(10 * torch.log10(exact.double().square().sum() / noise))


def batches(n: int = 3) -> list[Tensor]:
    return [torch.randn(40 + k, 64) for k in range(n)]


@pytest.mark.parametrize("weights", ["int8", "int4", "auto"])
def test_layers_keep_the_bound(weights: str) -> None:
    """Each layer that became codes has the signal that its row says, on the data of the profile."""
    model, data = Encoder().eval(), batches()
    q = dlc.quantize(model, data, weights=weights, snr=18.0, options=OPTIONS)
    assert [w.name for w in q.report.weights] == ["one.weight", "three.weight", "two.weight"]
    for weight in q.report.weights:
        assert (weight.why is None) == (weight.decibels >= 18.0)
    coded = [w for w in q.report.weights if w.why is None]
    assert coded
    if weights == "int8":
        assert all(w.format == "int8" for w in coded)


def test_the_signal_is_that_of_the_layer() -> None:
    """Measured here, with another sum: of a model that is one layer."""
    layer = nn.Linear(96, 48, bias=False)
    data = [torch.randn(30, 96), torch.randn(50, 96)]
    q = dlc.quantize(layer, data, weights="int8", activations="exact", options=OPTIONS)
    (weight,) = q.report.weights
    assert weight.rows == "exact"
    step = layer.weight.abs().amax(1, keepdim=True) * (1.0 / 127)
    codes = (layer.weight / step).round()
    with torch.no_grad():
        x = torch.cat(data)
        found = signal(x @ (codes * step).t(), x @ layer.weight.t())
        assert abs(found - weight.decibels) < 0.01
        assert abs(signal(q(x), layer(x)) - weight.decibels) < 0.01


def test_the_signal_is_that_of_codes_and_rows() -> None:
    """What rounding rows takes is measured, and the result has the sum of both errors."""
    layer = nn.Linear(96, 48, bias=False)
    data = [torch.randn(30, 96), torch.randn(50, 96)]
    found = {}
    for rows in ("exact", "i32", "i16", "i8"):
        torch._dynamo.reset()
        q = dlc.quantize(layer, data, weights="int8", activations=rows, options=OPTIONS)
        (weight,) = q.report.weights
        assert weight.rows == rows
        x = torch.cat(data)
        with torch.no_grad():
            measured = signal(q(x), layer(x))
        assert abs(measured - weight.decibels) < 0.5
        found[rows] = weight.decibels
    assert found["exact"] == found["i32"] >= found["i16"] > found["i8"] + 1


class Outlier(nn.Module):
    """One channel of its input is a thousand times the others, and the result hardly depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 32, bias=False)
        with torch.no_grad():
            self.layer.weight[:, 7] *= 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x * torch.ones(64).index_fill(0, torch.tensor(7), 1000))


def test_rows_have_the_fewest_bits_that_suffice() -> None:
    """An outlier takes digits, so its row gets more of them; rows of weights in four bits are floats."""
    found = {}
    for name, model in (("usual", nn.Linear(64, 32, bias=False)), ("outlier", Outlier())):
        for snr in (5.0, 30.0):
            torch._dynamo.reset()
            q = dlc.quantize(model, [torch.randn(50, 64)], weights="int8", snr=snr, options=OPTIONS)
            (weight,) = q.report.weights
            assert weight.decibels >= snr and weight.why is None
            assert weight.rows in str(q.report) and weight.rows in q.report._repr_html_()
            found[name, snr] = weight.rows
    assert found == {
        ("usual", 5.0): "i8",
        ("usual", 30.0): "i8",
        ("outlier", 5.0): "i16",
        ("outlier", 30.0): "i16",
    }
    torch._dynamo.reset()
    codes = dlc.quantize(nn.Linear(64, 32), [torch.randn(50, 64)], weights="int4", options=OPTIONS)
    assert [w.rows for w in codes.report.weights] == ["exact"]


def test_auto_takes_the_fewest_bits_that_suffice() -> None:
    model, data = Encoder().eval(), batches()
    formats = {}
    for snr in (5.0, 30.0, 200.0):
        torch._dynamo.reset()
        q = dlc.quantize(model, data, snr=snr, options=OPTIONS)
        formats[snr] = {w.name: w.format for w in q.report.weights}
    assert all(f.startswith("int4") for f in formats[5.0].values())
    assert "int8" in formats[30.0].values()
    assert set(formats[200.0].values()) == {"float"}


def test_accuracy_on_data_that_it_has_not_seen() -> None:
    model = Encoder().eval()
    q = dlc.quantize(model, batches(), weights="int8", options=OPTIONS)
    unseen = torch.randn(200, 64)
    with torch.no_grad():
        assert signal(q(unseen), model(unseen)) > 25


def test_is_deterministic() -> None:
    model, data = Encoder().eval(), batches()
    found = []
    for _ in range(2):
        torch._dynamo.reset()
        q = dlc.quantize(copy.deepcopy(model), data, snr=20.0, options=OPTIONS)
        found.append((str(q.report), {k: v.tolist() for k, v in q.state.items()}, q(data[0])))
    assert found[0][:2] == found[1][:2]
    assert torch.equal(found[0][2], found[1][2])


def test_again_and_again() -> None:
    """Dynamo stopped compiling after a few: a model was float, and its report empty."""
    model, data = nn.Sequential(nn.Linear(64, 32)).eval(), batches(1)
    for snr in range(9):
        q = dlc.quantize(model, data, snr=snr, weights="int8", options=OPTIONS)
        assert [w.format for w in q.report.weights] == ["int8"]


def test_state_is_saved(tmp_path: Path) -> None:
    files = pytest.importorskip("safetensors.torch")
    model, data = Encoder().eval(), batches()
    q = dlc.quantize(model, data, snr=20.0, options=OPTIONS)
    files.save_file(q.state, tmp_path / "q.safetensors")
    torch._dynamo.reset()
    again = dlc.quantize(model, state=files.load_file(tmp_path / "q.safetensors"), snr=20.0, options=OPTIONS)
    assert torch.equal(again(data[0]), q(data[0]))
    assert str(again.report) == str(q.report)


def test_report() -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten(), nn.Linear(16 * 36, 32), nn.Linear(32, 4)).eval()
    q = dlc.quantize(model, [torch.randn(2, 3, 8, 8)], weights="int8", options=OPTIONS)
    text = str(q.report)
    rows = {w.name: w for w in q.report.weights}
    assert rows["2.weight"].why is None
    assert rows["0.weight"].why
    assert rows["3.weight"].why == "its product has fewer than 16 columns"
    assert "its product has fewer than 16 columns" in text
    assert q.report.after < q.report.before
    page = q.report._repr_html_()
    assert page.count("<tr>") == len(rows) + 2
    assert rows["2.weight"].before == 4 * 16 * 36 * 32
    assert rows["2.weight"].after == 16 * 36 * 32 + 4 * 32


def test_dicts_tuples_and_the_original() -> None:
    model = Encoder().eval()
    before = copy.deepcopy(model.state_dict())
    x = torch.randn(7, 64)
    a = dlc.quantize(model, [{"x": x}], weights="int8", options=OPTIONS)
    torch._dynamo.reset()
    b = dlc.quantize(model, [(x,)], weights="int8", options=OPTIONS)
    assert torch.equal(a(x=x), b(x))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"batches": []}, "batches is empty"),
        ({}, "takes batches to profile, or the state"),
        ({"batches": [torch.ones(1, 64)], "weights": "int2"}, "'auto', 'int8', 'int4', not 'int2'"),
        ({"batches": [torch.ones(1, 64)], "activations": "i4"}, "'i16', 'i8', not 'i4'"),
        ({"batches": [torch.ones(1, 64)], "snr": "high"}, "snr is a number of decibels"),
        ({"state": {"no.weight": torch.zeros(4)}}, "has no 'no.weight'"),
        ({"state": {"one.weight": torch.zeros(3)}}, "not a tensor of 6 numbers"),
    ],
)
def test_mistakes(more: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        dlc.quantize(Encoder(), **more)  # type: ignore[arg-type]


def test_not_a_module() -> None:
    with pytest.raises(TypeError, match=r"takes a torch\.nn\.Module"):
        dlc.quantize(len, [torch.ones(1)])  # type: ignore[arg-type]

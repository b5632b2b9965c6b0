"""What has no builder is a call of the eager overload."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from dlc import _C, CaptureError
from tests.capture.graphs import calls, graphs, text_of

X = torch.randn(4, 6)


def call_lines(text: str) -> list[str]:
    return [line.strip().split("  @")[0] for line in text.splitlines() if " = call " in line]


def test_operands_stay_in_place() -> None:
    (line,) = call_lines(
        text_of(lambda x, y: torch.addmm(y, x, x.t(), beta=2), z := torch.complex(X, X), z[:, 0])
    )
    assert 'target="aten.addmm.default"' in line
    assert re.search(r'args="\(\$0, \$1, \$2\) beta=2"', line)


def test_sizes_are_arguments() -> None:
    text = text_of(lambda x: torch.roll(x, (1,), (0,)).sort(0)[0].view(-1), X, dynamic=True)
    assert calls(text) == ["aten.sort.default"]
    text = text_of(lambda x: x.new_empty((x.shape[0] * 2, 3)).normal_(), X, dynamic=True)
    assert calls(text) == ["aten.normal_functional.default"]


def test_lists_of_tensors() -> None:
    def count(x: Tensor, bins: Tensor) -> Tensor:
        return torch.ops.aten._histogramdd_from_bin_tensors(x, [bins, bins])

    (line,) = call_lines(text_of(count, X[:, :2].contiguous(), torch.arange(4.0)))
    assert 'args="($0, [$1, $1]' in line


def test_several_results() -> None:
    text = text_of(lambda x: torch.sort(x, 1), X)
    assert re.search(r"let (\w+): f32\[4, 6\], (\w+): i64\[4, 6\] = call", text)


def test_results_that_are_none() -> None:
    x, w = torch.randn(1, 2, 5, 5, requires_grad=True), torch.randn(3, 2, 3, 3)
    _, backward = graphs(F.conv2d, x, w, backward=True)
    assert "aten.convolution_backward.default" in calls(_C.walk(backward))


@pytest.mark.parametrize("effect", ["dropout", "rand", "bernoulli"])
def test_random_numbers_have_an_effect(effect: str) -> None:
    functions = {
        "dropout": lambda x: F.dropout(x),
        "rand": lambda x: torch.rand_like(x) + x,
        "bernoulli": torch.bernoulli,
    }
    lines = call_lines(text_of(functions[effect], X.sigmoid()))
    assert lines and all("effect=1" in line for line in lines)


def test_others_have_none() -> None:
    (line,) = call_lines(text_of(lambda x: x.sort(0)[0], X))
    assert "effect=1" not in line


def test_constant_tensors() -> None:
    table = torch.arange(40.0)  # the numbers of a short one are in the program
    gm = make_fx(lambda x: x.sum() + table, tracing_mode="fake", _allow_non_fake_inputs=True)(X)
    assert calls(_C.walk(gm)) == ["operator.itemgetter"]
    assert not calls(text_of(lambda x: x + torch.tensor(2.5), X))


def test_products_of_complex_numbers_are_calls() -> None:
    text = text_of(lambda x: torch.view_as_real(torch.complex(x, x).cumprod(-1) * 2).sum(-1), X)
    assert calls(text) == ["aten.cumprod.default"]


def test_other_dtypes_are_calls() -> None:
    assert calls(text_of(lambda x: x.chalf(), X)) == ["aten._to_copy.default"]
    assert calls(text_of(lambda x: x.to(torch.uint16), X)) == ["aten._to_copy.default"]


def test_large_constants_are_left_to_eager() -> None:
    """Eager raises for constants that a dtype cannot hold."""
    assert calls(text_of(lambda x: x == 300, torch.zeros(3, dtype=torch.uint8))) == ["aten.eq.Scalar"]


def test_integer_division_by_a_tensor_may_raise() -> None:
    i = torch.arange(1, 5)
    assert calls(text_of(lambda a, b: a // b, i, i)) == ["aten.floor_divide.default"]


def test_unsupported_tensors_are_refused_with_the_operator() -> None:
    with pytest.raises(CaptureError, match=r"not torch\.strided"):
        text_of(lambda x: x.to_sparse(), X)


def test_a_module_without_meta_is_refused() -> None:
    gm = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    with pytest.raises(CaptureError, match="does not say what its result is"):
        _C.walk(gm)


def test_not_a_graph() -> None:
    with pytest.raises(AttributeError):
        _C.walk(3)  # type: ignore[arg-type]


def test_python_errors_pass_through() -> None:
    class Strange:
        @property
        def graph(self) -> Tensor:
            raise KeyError("no graph")

    with pytest.raises(KeyError, match="no graph"):
        _C.walk(Strange())  # type: ignore[arg-type]

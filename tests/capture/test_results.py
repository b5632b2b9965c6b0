"""What a graph returns: freshness, aliases, strides, writes to inputs."""

import re

import pytest
import torch
from torch import Tensor

from dlc import _C, CaptureError
from tests.capture.graphs import calls, check, graphs, text_of

X = torch.randn(4, 6)


def results(text: str) -> list[str]:
    """The lines of the signature after the arrow."""
    signature = text[: text.index(") {")]
    last = signature[signature.index(") -> (") + 6 :]
    return [line.strip().rstrip(",") for line in re.split(r",\s*(?=[a-z]\w*(?:\[|\b(?! of)))", last)]


def test_fresh_and_dense() -> None:
    assert results(text_of(lambda x: x + 1, X)) == ["f32[4, 6]"]


def test_strides_of_a_result() -> None:
    assert "f32[6, 4] strides=[1, 6]" in text_of(lambda x: (x + 1).t(), X)


def test_strides_of_a_parameter() -> None:
    assert "f32[6, 4] strides=[1, 6]" in text_of(lambda x: x + 1, X.t()).split("->")[0]
    assert "strides=[0, 1]" in text_of(lambda x: x + 1, X[0].expand(4, 6)).split("->")[0]


def test_view_of_a_parameter() -> None:
    assert "f32[3, 6] view of arg0_1" in text_of(lambda x: x[1:], X)
    assert "f32[6, 4] strides=[1, 6] view of arg0_1" in text_of(lambda x: x.detach().t(), X)


def test_views_of_one_intermediate() -> None:
    """y itself is not returned: it becomes a result so that its views share it."""
    text = text_of(lambda x: ((y := x + 1).t(), y.view(-1)), X)
    assert text.count("view of result 0") == 2
    assert "f32[4, 6],\n" in text


def test_views_of_a_result() -> None:
    text = text_of(lambda x: ((y := x.exp()).view(-1), y), X)
    assert text.count("view of result") == 1


def test_views_of_a_copy() -> None:
    """A copy that folds into its source still has storage of its own."""
    text = text_of(lambda x: ((y := x.clone()).view(-1), y.t()), X)
    assert calls(text) == ["aten.clone.default"]
    assert text.count("view of result 0") == 2
    assert "view of arg0_1" not in text


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_equal_results_are_two_tensors(n: int, dynamic: bool) -> None:
    """Without a call of torch's, unless their strides differ."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.exp(), (x * 1).exp(), x.exp().sum(0), (x * 1).exp().sum(0)

    assert not calls(text_of(function, X))
    x = torch.randn(n, 6)
    made = torch.compile(function, backend="dlc", dynamic=dynamic)(x)
    for have, want in zip(made, function(x), strict=True):
        torch.testing.assert_close(have, want)
        assert have.stride() == want.stride()
    places = [t.data_ptr() for t in made if t.numel()]
    assert len(set(places)) == len(places)
    made[0].zero_()
    torch.testing.assert_close(made[1], x.exp())


def test_one_result_twice() -> None:
    text = text_of(lambda x: (y := x + 1, y), X)
    assert not calls(text)


def test_write_to_a_parameter() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.exp()
        x.mul_(2)
        return y + x

    text = text_of(function, X)
    assert "into arg0_1" in text
    check(function, X)


def test_write_of_another_dtype_and_shape() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.copy_(y)
        return x.sum() + 1

    check(function, X, torch.arange(6))


def test_numbers_and_none() -> None:
    gm = torch.fx.symbolic_trace(lambda x: (None, 3, x))
    for node, val in zip(gm.graph.nodes, (X, None), strict=True):
        node.meta["val"] = val
    assert "view of x" in _C.walk(gm)


def test_size_as_a_result() -> None:
    text = text_of(lambda x: (x + 1, x.shape[0] * 2), X, dynamic=True)
    assert "size dim=2*s" in text


def test_dtype_views_are_calls() -> None:
    text = text_of(lambda x: (x + 1).view(torch.int32), X)
    assert calls(text) == ["aten.view.dtype"]


def test_copy_of_a_dtype_view_is_a_copy() -> None:
    """The call's result shares storage with its operand, so its copy must be another tensor."""
    text = text_of(lambda x: x.view(torch.uint16).clone(), X)
    assert calls(text) == ["aten.view.dtype", "aten.detach.default", "aten.clone.default"]
    check(lambda x: x.view(torch.int32).clone(), X)


def test_writes_that_are_not_functional_are_refused() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    gm = make_fx(lambda x: (x + 1).mul_(2), tracing_mode="fake")(X)
    with pytest.raises(CaptureError, match=r"mul_\.Tensor: it writes to its arguments"):
        _C.walk(gm)


def test_gradients() -> None:
    x = X.clone().requires_grad_()
    forward, backward = graphs(lambda x: torch.nn.functional.gelu(x).softmax(-1), x, backward=True)
    assert not calls(_C.walk(forward)) + calls(_C.walk(backward))

"""Three results with equal values were two tensors, and a copy had the strides of what it copied."""

import re

import pytest
import torch


def test_three_equal_results_are_three_tensors() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, 1 + x, x.add(1)

    torch._dynamo.reset()
    results = torch.compile(fn, backend="dlc")(torch.zeros(3))
    for k, result in enumerate(results):
        result.fill_(k)
    assert [result[0].item() for result in results] == [0, 1, 2]


def test_a_copy_has_strides_of_its_own() -> None:
    torch._dynamo.reset()
    fn = torch.compile(lambda x: (x.t().contiguous(), x.t().clone()), backend="dlc")
    assert [result.stride() for result in fn(torch.randn(4, 6))] == [(4, 1), (1, 6)]


def test_results_that_passes_find_equal(capfd: pytest.CaptureFixture[str]) -> None:
    """Two values for the one who captured the graph, one for those who rewrote it."""

    def fn(x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        viewed = torch.exp(x.view(6)).view(2, 3) * 3, torch.exp(x) * 3
        return *viewed, torch.exp(b.expand(4, 3)), torch.exp(b).expand(4, 3).clone()

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="dlc", options={"dump": "canonicalise"})
    results = compiled(torch.zeros(2, 3), torch.zeros(3))
    for k, result in enumerate(results):
        result.fill_(k)
    assert [result[0, 0].item() for result in results] == [0, 1, 2, 3]
    returned = re.findall(r"^ *\+? *ret (.*)$", capfd.readouterr().err, re.M)[-1].split(", ")
    assert len(set(returned)) < len(returned)  # else the passes do not find it any more


def test_views_of_results_that_passes_find_equal() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = torch.exp(x.view(6)).view(2, 3) * 3, torch.exp(x) * 3
        return a, b, b[1:], b[:, 0]

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="dlc", options={"strict": True, "capture": "direct"})
    a, b, row, column = compiled(torch.zeros(2, 3))
    b.fill_(1)
    row.fill_(2)
    column.fill_(4)
    assert a.tolist() == [[3, 3, 3]] * 2 and b.tolist() == [[4, 1, 1], [4, 2, 2]]


def test_views_of_two_equal_copies() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = x.clone(), x.clone()
        return a[1:], a[:-1], b[1:], b[:-1]

    torch._dynamo.reset()
    results = torch.compile(fn, backend="dlc", options={"strict": True})(torch.zeros(4))
    for k, result in enumerate(results):
        result.fill_(k)
    assert [result.tolist() for result in results] == [[1, 1, 0], [1, 1, 1], [3, 3, 2], [3, 3, 3]]

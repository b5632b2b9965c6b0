"""Three results with equal values were two tensors, and a copy had the strides of what it copied."""

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

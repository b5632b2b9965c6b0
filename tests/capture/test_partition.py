"""Training's joint graph cut by dlc: what is saved, what is computed again, what is left to functorch."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import dlc
from benchmarks.training import saved, saved_bytes
from dlc import backend  # noqa: F401 - sets the extension up
from dlc.decompositions import decompositions
from dlc.partition import Partitioner
from examples.programs import MODELS
from tests.models.runs import assert_steps, exact_model, step
from tests.models.runs import train as train_model


class Cut:
    """A function's joint graph, partitioned by dlc."""

    def __init__(self, fn: Callable[..., Any], *args: Any, budget: float = 1.0, **kwargs: Any) -> None:
        self.partitioner = Partitioner(budget, products="library")
        torch._dynamo.reset()
        result = torch.compile(fn, backend=self._backend(), **kwargs)(*args)
        self.loss = sum(t.sum() for t in (result if isinstance(result, tuple) else (result,)))
        assert "error" not in self.partitioner.summary

    def _backend(self) -> Any:
        return aot_autograd(
            fw_compiler=lambda graph, _: graph.forward,
            bw_compiler=lambda graph, _: graph.forward,
            decompositions=decompositions(),
            partition_fn=self._partition,
            keep_inference_input_mutations=True,
        )

    def _partition(self, joint: GraphModule, inputs: Any, **how: Any) -> tuple[GraphModule, GraphModule]:
        self.joint, self.inputs, self.how = joint, inputs, how
        self.forward, self.backward = self.partitioner(joint, inputs, **how)
        return self.forward, self.backward

    def functorch(self) -> GraphModule:
        """Its backward of the same graph."""
        return min_cut_rematerialization_partition(copy.deepcopy(self.joint), self.inputs, **self.how)[1]


def targets(graph: GraphModule) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("name", ["mlp", "gpt", "resnet"])
def test_never_more_bytes_than_functorch(name: str) -> None:
    model = MODELS[name].build(small=True).train()
    cut = Cut(model, *MODELS[name].arguments(small=True))
    assert 0 < saved_bytes(cut.backward) <= saved_bytes(cut.functorch())
    assert cut.partitioner.summary["bytes"] == saved_bytes(cut.backward)


def test_a_graph_of_another_torch_is_made_as_any_graph_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is put together from its parts where these are known: the nodes and their names are the same."""
    drop = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.Softmax(-1))
    quick = Cut(drop, torch.randn(4, 8, requires_grad=True))
    monkeypatch.setattr("dlc.partition._KNOWN", False)
    plain = Cut(drop, torch.randn(4, 8, requires_grad=True))
    for a, b in ((quick.forward, plain.forward), (quick.backward, plain.backward)):
        a.graph.lint()
        assert str(a.graph) == str(b.graph)
        assert len(a.graph.nodes) == len(b.graph.nodes)
        calls = a.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
        assert [n.name for n in calls] == [
            n.name for n in b.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
        ]


def test_products_and_random_draws_are_never_computed_again() -> None:
    drop = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 8), nn.Softmax(-1))
    cut = Cut(drop.train(), torch.randn(4, 8))
    assert "aten.native_dropout.default" in targets(cut.forward)
    assert not any("dropout.default" in t or "rand" in t for t in targets(cut.backward))
    assert sum("mm" in t for t in targets(cut.forward)) == 2
    assert sum("mm" in t for t in targets(cut.backward)) == 3


def test_statistics_that_are_saved_replace_reductions() -> None:
    cut = Cut(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 8)), torch.randn(4, 64, requires_grad=True))
    (norm,) = [n for n in cut.backward.graph.nodes if str(n.target) == "aten.native_layer_norm.default"]
    names = {node.name for node in saved(cut.backward)}
    assert set(norm.meta["dlc_known"].values()) == names
    text = dlc._C.walk(cut.backward)
    assert text.count("native_layer_norm") > text.count("native_layer_norm_backward")
    assert " rsqrt " not in text
    assert "amax" not in text


def test_a_row_of_logits_is_not_reduced_again() -> None:
    """Its greatest element and the logarithm of its sum are passed on: 8 bytes for two passes over it."""
    logits = torch.randn(256, 512, requires_grad=True)
    cut = Cut(nn.functional.cross_entropy, logits, torch.arange(256))
    assert {node.name for node in saved(cut.backward)} >= {"amax", "log"}
    text = dlc._C.walk(cut.backward)
    assert "amax" not in re.findall(r" = (\w+) ", text)
    assert len(re.findall(r" = sum ", text)) == 1  # of the gradient


def train(fn: Callable[..., Any], *args: Tensor) -> list[Tensor]:
    """fn's result and the gradients, from one state of the random numbers."""
    torch.manual_seed(3)
    result = fn(*args)
    inputs = [a for a in args if a.requires_grad]
    return [result, *torch.autograd.grad(result.square().sum(), inputs)]


def test_dropout_keeps_eagers_stream(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        h = torch.nn.functional.dropout(x * w, 0.4).tanh()
        return torch.nn.functional.dropout(h, 0.2) + torch.rand(3, 5) * w

    args = torch.randn(3, 5, requires_grad=True), torch.randn(5, requires_grad=True)
    for actual, expected in zip(train(compiler(f), *args), train(f, *args), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


class Noisy(torch.autograd.Function):
    """Draws in its backward too, and keeps a tensor where autograd does not look."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.kept = x.exp()
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * ctx.kept + torch.rand_like(x)


def test_autograd_functions(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor) -> Tensor:
        return Noisy.apply(x * 2) + torch.rand(4)

    x = torch.randn(4, requires_grad=True)
    for actual, expected in zip(train(compiler(f), x), train(f, x), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


def test_inputs_that_are_written_to_are_not_kept(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, buffer: Tensor) -> Tensor:
        y = x * (buffer + 1)
        with torch.no_grad():
            buffer.add_(5)
        return y

    results = []
    for fn in (f, compiler(f)):
        x, buffer = torch.arange(4.0, requires_grad=True), torch.ones(4)
        y = fn(x, buffer)
        y.sum().backward()
        results.append((y.detach(), x.grad, buffer))
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_sizes_that_change(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        h = (x @ w).relu()
        return torch.nn.functional.layer_norm(h.view(x.shape[0] * 2, -1), (3,)).sum(0) / x.shape[0]

    compiled = compiler(f, dynamic=True)
    for n in (4, 7, 5):
        args = torch.randn(n, 5, requires_grad=True), torch.randn(5, 6, requires_grad=True)
        for actual, expected in zip(train(compiled, *args), train(f, *args), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def region(x: Tensor, w: Tensor) -> Tensor:
    return torch.mm(torch.mm(x, w).sin(), w).cos()


@pytest.mark.in_turn(3)
def test_a_memory_budget(compiler: Callable[..., Any]) -> None:
    model = MODELS["gpt"].build(small=True).train()
    (tokens,) = MODELS["gpt"].arguments(small=True)
    all_, some, least = (Cut(model, tokens, budget=b).partitioner.summary for b in (1.0, 0.5, 0.0))
    assert all_["bytes"] > some["bytes"] > least["bytes"] > 0
    assert some["bytes"] <= (all_["bytes"] + least["bytes"]) / 2
    assert all_["recomputed"] < some["recomputed"] < least["recomputed"]

    narrow, runs = compiler(model, options={"memory_budget": 0}), []
    for seed in range(16):
        inputs = MODELS["gpt"].arguments(small=True, seed=seed)
        actual = step(model, narrow, inputs)
        runs.append((actual, train_model(model, inputs), train_model(exact_model(model), inputs)))
    assert_steps(runs)


def products(cut: Cut) -> int:
    return targets(cut.backward).count("aten.mm.default")


def test_checkpoints_are_computed_again() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(region, x, w, use_reentrant=False)

    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    cut, plain = Cut(f, x, w), Cut(region, x, w)
    assert saved(cut.backward) == []
    assert len(saved(plain.backward)) == 3
    assert (
        sum("mm" in t for t in targets(cut.backward)) == sum("mm" in t for t in targets(plain.backward)) + 2
    )


def test_checkpoint_policies() -> None:
    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        mm = op == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if mm else CheckpointPolicy.PREFER_RECOMPUTE

    def contexts() -> Any:
        return create_selective_checkpoint_contexts(policy)

    def f(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(region, x, w, use_reentrant=False, context_fn=contexts)

    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    cut = Cut(f, x, w)
    assert products(cut) == products(Cut(region, x, w))
    assert {"aten.sin.default", "aten.cos.default"} <= set(targets(cut.backward))


def test_a_checkpoint_with_dropout(compiler: Callable[..., Any]) -> None:
    def body(x: Tensor, w: Tensor) -> Tensor:
        return torch.nn.functional.dropout(torch.mm(x, w).tanh(), 0.5).exp()

    def f(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(body, x, w, use_reentrant=False)

    args = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    for actual, expected in zip(train(compiler(f), *args), train(f, *args), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_a_second_backward_is_an_error_as_in_torch(compiler: Callable[..., Any]) -> None:
    x = torch.randn(4, requires_grad=True)
    (gradient,) = torch.autograd.grad(compiler(torch.tanh)(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()


@pytest.mark.in_turn(3)
def test_what_cannot_be_cut_is_left_to_functorch(compiler: Callable[..., Any]) -> None:
    def policy(*args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_CPU_OFFLOAD

    def contexts() -> Any:
        return create_selective_checkpoint_contexts(policy)

    def f(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(region, x, w, use_reentrant=False, context_fn=contexts)

    args = tuple(torch.randn(4, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert "partitioned by functorch: the checkpoint policy MUST_CPU_OFFLOAD" in str(dlc.explain(f, *args))
    for actual, expected in zip(train(compiler(f), *args), train(f, *args), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.in_turn(3)
def test_explain_says_what_is_saved() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.mm(x, x).sin()

    report = dlc.explain(f, torch.randn(8, 8, requires_grad=True))
    assert "saves 256 bytes for the backward (1 tensor); computed again: 0 values" in str(report)

"""What programs are made of besides operators: control flow, checkpoints, transforms, subclasses, hooks.

Each case once in eager and once under dlc: outputs, what became of the arguments, gradients. No graph runs
eagerly, which the fixture's strict mode sees to. Control flow is part of the graph's plan.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_each
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import dlc
from dlc.report import collect

X = torch.linspace(-2, 2, 48).view(6, 8).clone()
Y = X.flip(1).cos().clone()
YES, NO = torch.ones(2), -torch.ones(2)

Call = Callable[..., Any]


def close(mine: Any, theirs: Any) -> None:
    for a, b in zip(tree_leaves(mine), tree_leaves(theirs), strict=True):
        if isinstance(b, Tensor):
            torch.testing.assert_close(a, b, check_stride=True)
        else:
            assert a == b


def counted(call: Call) -> dict[str, float]:
    """What the call adds to the counters."""
    before = dlc.counters()
    call()
    return {name: value - before[name] for name, value in dlc.counters().items()}


def forward(function: Call, args: tuple[Any, ...]) -> Any:
    args = copy.deepcopy(args)
    torch.manual_seed(0)
    return function(*args), args


def backward(function: Call, args: tuple[Any, ...]) -> Any:
    """Outputs and gradients of the floating arguments."""
    leaves = [
        a.clone().requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args
    ]
    torch.manual_seed(0)
    results = function(*leaves)
    sum(
        t.square().sum() for t in tree_leaves(results) if isinstance(t, Tensor) and t.requires_grad
    ).backward()
    return results, [a.grad for a in leaves if isinstance(a, Tensor)]


# -- control flow --------------------------------------------------------------------------------------


def branch(p: Tensor, x: Tensor) -> Tensor:
    return torch.cond(p.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() + 1, (x,))


def branch_closed(p: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return torch.cond(p.sum() > 0, lambda x: (x * y).softmax(-1), lambda x: (x + y).cos() * y.sum(0), (x,))


def nested_branch(p: Tensor, x: Tensor) -> Tensor:
    def inner(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 1, lambda x: x * 2, lambda x: x.exp(), (x,))

    return torch.cond(p.sum() > 0, inner, lambda x: x.cos() + 1, (x,)) + 1


def loop(n: Tensor, x: Tensor) -> Any:
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.25 + 1), (n, x))


def branch_in_loop(n: Tensor, x: Tensor) -> Any:
    def body(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, torch.cond(i % 2 == 0, lambda x: x.sin() + 1, lambda x: x * 0.5, (x,))

    return while_loop(lambda i, x: i < 5, body, (n, x))


def running(c: Tensor, xs: Tensor) -> Any:
    return scan(lambda c, x: (c * 0.9 + x, (c + x).sin()), c, xs)


def mapped(xs: Tensor, y: Tensor) -> Any:
    return map_each(lambda x, y: x.sin() * y + y, xs, y)


def associative(xs: Tensor) -> Any:
    return associative_scan(lambda a, b: a * 0.5 + b, xs, 0, combine_mode="generic")


#: A function and its arguments.
FLOW: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "cond_true": (branch, (YES, X)),
    "cond_false": (branch, (NO, X)),
    "cond_closed": (branch_closed, (YES, X, Y)),
    "cond_closed_false": (branch_closed, (NO, X, Y)),
    "cond_nested": (nested_branch, (YES, X)),
    "while_loop": (loop, (torch.tensor(0), X)),
    "while_loop_none": (loop, (torch.tensor(7), X)),
    "cond_in_loop": (branch_in_loop, (torch.tensor(0), X)),
    "scan": (running, (torch.zeros(8), X)),
    "map": (mapped, (X, Y[0])),
    "associative_scan": (associative, (X,)),
}


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FLOW)
def test_control_flow(name: str, dynamic: bool, compiler: Call) -> None:
    function, args = FLOW[name]
    compiled = compiler(function, fullgraph=True, dynamic=dynamic)
    close(forward(compiled, args), forward(function, args))
    counts = counted(lambda: close(forward(compiled, args), forward(function, args)))
    assert (counts["calls"], counts["eager_calls"], counts["graphs"]) == (1, 0, 0), (
        "a body is a plan of its own"
    )


@pytest.mark.parametrize(
    "name", ["cond_true", "cond_false", "cond_closed", "scan", "map", "associative_scan"]
)
def test_gradients_of_control_flow(name: str, compiler: Call) -> None:
    function, args = FLOW[name]
    compiled = compiler(function, fullgraph=True)
    close(backward(compiled, args), backward(function, args))
    counts = counted(lambda: close(backward(compiled, args), backward(function, args)))
    assert counts["eager_calls"] == counts["graphs"] == 0
    assert counts["calls"] == 2, "a body is a plan of its own"


def test_bodies_keep_one_plan_for_all_sizes(compiler: Call) -> None:
    compiled = compiler(branch, fullgraph=True, dynamic=True)
    close(compiled(YES, X), branch(YES, X))
    for rows in (3, 9, 17):
        x = torch.randn(rows, 5)
        counts = counted(lambda x=x: close(compiled(NO, x), branch(NO, x)))
        assert (counts["graphs"], counts["eager_calls"]) == (0, 0)


def test_bodies_are_reported(compiler: Call) -> None:
    with collect() as reports:
        compiler(branch, fullgraph=True)(YES, X)
    (report,) = reports
    assert (report["kind"], report["kernel_count"]) == ("inference", 3)
    assert "= branch " in report["kernels"] and "  branch (" in report["plan"]


# -- functions of functions ----------------------------------------------------------------------------


class Exponential(torch.autograd.Function):
    """Its gradient is half of what it should be."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return g * x.exp() * 0.5


@torch.library.custom_op("dlc_tests::add_into", mutates_args=("y",))
def add_into(x: Tensor, y: Tensor) -> Tensor:
    y.add_(x)
    return x * 2


@add_into.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x)


LINEAR = nn.Linear(8, 8)


def autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return F.gelu(LINEAR(x)).float().softmax(-1)


def some_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        a = LINEAR(x)
        with torch.autocast("cpu", enabled=False):
            b = LINEAR(a.float())
    return b.sin() + a


def broken(x: Tensor) -> Tensor:
    y = x.sin() * 2
    torch._dynamo.graph_break()
    return y * 2 + 1


def attention(q: Tensor) -> Tensor:
    q = q.view(1, 2, 3, 8)
    return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1)


def checkpointed(x: Tensor) -> Tensor:
    return checkpoint(lambda x: F.dropout(F.gelu(LINEAR(x)).sin(), 0.5), x, use_reentrant=False) * 2


ALL: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "checkpoint": (checkpointed, (X,)),
    "autograd_function": (lambda x: Exponential.apply(x).sin(), (X,)),
    "vmap": (lambda x, y: torch.func.vmap(lambda a: (a * y).softmax(-1))(x), (X, Y[0])),
    "vmap_of_grad": (lambda x: torch.func.vmap(torch.func.grad(lambda a: (a * a.sin()).sum()))(x), (X,)),
    "grad": (lambda x: torch.func.grad(lambda a: a.sin().sum())(x), (X,)),
    "jvp": (lambda x, t: torch.func.jvp(lambda a: a.sin() * a, (x,), (t,)), (X, Y)),
    "jacrev": (lambda x: torch.func.jacrev(lambda a: a.sin().sum(1))(x), (X,)),
    "jacfwd": (lambda x: torch.func.jacfwd(lambda a: a.sin().sum(1))(x), (X,)),
    "hessian": (lambda x: torch.func.hessian(lambda a: (a.sin() * a).sum())(x), (X[0],)),
    "autocast": (autocast, (X,)),
    "some_autocast": (some_autocast, (X,)),
    "graph_break": (broken, (X,)),
    "flex_attention": (attention, (X,)),
    "strings": (lambda d: {k: v.sin() for k, v in d.items()}, ({"a": YES, "b": NO},)),
}
FORWARD_ONLY = {"strings", "flex_attention"}


@pytest.mark.parametrize("name", ALL)
def test_outputs(name: str, compiler: Call) -> None:
    function, args = ALL[name]
    compiled = compiler(function)
    for _ in range(2):
        with torch.no_grad():
            close(forward(compiled, args), forward(function, args))


@pytest.mark.parametrize("name", [name for name in ALL if name not in FORWARD_ONLY])
def test_gradients(name: str, compiler: Call) -> None:
    function, args = ALL[name]
    compiled = compiler(function)
    for _ in range(2):
        close(backward(compiled, args), backward(function, args))


def test_custom_operator_that_writes(compiler: Call) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return add_into(x + 1, y).sin() + y

    close(forward(compiler(function, fullgraph=True), (X, Y)), forward(function, (X, Y)))


def test_compiled_in_compiled(compiler: Call) -> None:
    inner = compiler(lambda x: x.sin() + 1)
    close(compiler(lambda x: inner(x) * 2)(X), (X.sin() + 1) * 2)


def test_compiled_autograd(compiler: Call) -> None:
    mine, theirs = copy.deepcopy(LINEAR), copy.deepcopy(LINEAR)

    def step(model: nn.Module, x: Tensor) -> Tensor:
        loss = model(x).sin().sum()
        loss.backward()
        return loss.detach()

    with torch._dynamo.config.patch(compiled_autograd=True):
        loss = compiler(step)(mine, X)
    close([loss, mine.weight.grad], [step(theirs, X), theirs.weight.grad])


def test_exception_in_the_function(compiler: Call) -> None:
    def function(x: Tensor) -> Tensor:
        if x.shape[0] == 6:
            raise ValueError("six rows")
        return x + 1

    compiled = compiler(function)
    for _ in range(2):
        with pytest.raises(ValueError, match="six rows"):
            compiled(X)
        close(compiled(X[:3]), X[:3] + 1)


def test_exception_in_a_call(compiler: Call) -> None:
    """A call raises what eager raises; the compiled function can be called again."""
    compiled = compiler(lambda x: torch.linalg.cholesky(x @ x.t() + 1) * 2)
    good, bad = torch.eye(3), torch.zeros(3, 3)
    with torch.no_grad():
        close(compiled(good), torch.linalg.cholesky(good @ good.t() + 1) * 2)
        with pytest.raises(torch.linalg.LinAlgError):
            compiled(bad)
        close(compiled(good), torch.linalg.cholesky(good @ good.t() + 1) * 2)


def test_hooks(compiler: Call) -> None:
    def model() -> nn.Module:
        made = nn.Sequential(copy.deepcopy(LINEAR), nn.ReLU())
        made[0].register_forward_pre_hook(lambda m, args: (args[0] + 1,))
        made[0].register_forward_hook(lambda m, args, out: out * 2)
        return made

    mine, theirs, found = model(), model(), []
    for each, call in ((mine, compiler(mine)), (theirs, theirs)):
        x, seen = X.clone().requires_grad_(), []
        x.register_hook(seen.append)
        call(x).square().sum().backward()
        found.append([x.grad, seen, [p.grad for p in each.parameters()]])
    close(*found)


def test_subclass(compiler: Call) -> None:
    pair = TwoTensor(X, Y)
    with torch.no_grad():
        mine = compiler(lambda a: a.sin() + 1)(pair)
    assert type(mine) is TwoTensor
    close([mine.a, mine.b], [X.sin() + 1, Y.sin() + 1])


def test_gradient_of_a_subclass(compiler: Call) -> None:
    found = []
    for call in (compiler(lambda a: a.sin() * a), lambda a: a.sin() * a):
        pair = TwoTensor(X.clone(), Y.clone()).requires_grad_()
        call(pair).sum().backward()
        found.append([pair.grad.a, pair.grad.b])
    close(*found)


def test_jagged_tensors(compiler: Call) -> None:
    parts = [torch.randn(2, 8), torch.randn(5, 8), torch.randn(1, 8)]
    found = []
    for call in (compiler(lambda a: a.sin() * 2 + 1), lambda a: a.sin() * 2 + 1):
        nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
        y = call(nested)
        y.values().square().sum().backward()
        found.append([y.values(), nested.grad.values()])
    close(*found)


def test_inference_mode(compiler: Call) -> None:
    with torch.inference_mode():
        close(compiler(lambda x: F.gelu(x) + x.view(-1).view(6, 8))(X), F.gelu(X) + X)


def test_double_backward_is_refused_by_torch(compiler: Call) -> None:
    x = X.clone().requires_grad_()
    (g,) = torch.autograd.grad(compiler(lambda x: (x.sin() * x).sum())(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        g.sum().backward()

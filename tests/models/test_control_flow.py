"""torch.cond, while_loop, scan and map: loops and branches of one plan, against eager.

Values are the same bits where eager's are from elementwise kernels of the same formula.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._higher_order_ops.map import map as map_each
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import dlc
from dlc.artifact import describe, rebuild
from dlc.options import parse
from dlc.report import collect

from .test_language import Call, backward, close, counted, forward

pytestmark = pytest.mark.in_turn(2)

X = torch.linspace(-2, 2, 48).view(6, 8).clone()
W = X.flip(0).cos().clone()
YES, NO = torch.ones(2), -torch.ones(2)


def compiled(function: Call, **options: Any) -> Call:
    torch._dynamo.reset()
    dynamic = options.pop("dynamic", None)
    return torch.compile(  # type: ignore[no-any-return]
        function,
        backend="dlc",
        fullgraph=True,
        dynamic=dynamic,
        options={"strict": True, "verify": True, **options},
    )


def check(function: Call, *args: Any, plan: int = 1, **options: Any) -> Call:
    """As eager, twice; a call runs one plan, and no graph eagerly."""
    run = compiled(function, **options)
    close(forward(run, args), forward(function, args))
    counts = counted(lambda: close(forward(run, args), forward(function, args)))
    assert (counts["calls"], counts["eager_calls"], counts["eager_graphs"]) == (plan, 0, 0)
    return run


def as_eager(cases: dict[str, tuple[Call, tuple[Any, ...]]]) -> Callable[[str, bool], None]:
    """A test of each case by its name, with constant sizes and with symbols."""

    @pytest.mark.parametrize("dynamic", [False, True])
    @pytest.mark.parametrize("name", cases)
    def test(name: str, dynamic: bool) -> None:
        function, args = cases[name]
        with torch.no_grad():
            check(function, *args, dynamic=dynamic)

    return test


def closed(n: Tensor, x: Tensor, w: Tensor) -> Any:
    """The condition and the body read what is outside of the loop."""
    limit = w.sum() * 0 + 4
    return while_loop(lambda i, x: i < limit, lambda i, x: (i + 1, (x * w).tanh() + x), (n, x))


def doubled(n: Tensor, x: Tensor) -> Any:
    """One value twice, a value that is also returned, one that stays."""
    y = x * 2
    i, a, b, c = while_loop(
        lambda i, a, b, c: i < 3, lambda i, a, b, c: (i + 1, b + 1, b + 1, c.clone()), (n, y, y.clone(), x)
    )
    return i, a, b, c, y


def swapped(n: Tensor, x: Tensor, w: Tensor) -> Any:
    return while_loop(lambda i, a, b: i < 5, lambda i, a, b: (i + 1, b.clone(), a + b), (n, x, w))


def loop_in_loop(n: Tensor, x: Tensor) -> Any:
    def outer(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        j, y = while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y * 0.5 + i), (torch.zeros_like(i), x))
        return i + 1, y + j

    return while_loop(lambda i, x: i < 4, outer, (n, x))


def until_small(x: Tensor) -> Any:
    return while_loop(lambda x: x.abs().max() > 0.1, lambda x: (x * 0.7,), (x,))


def in_rows(n: Tensor, x: Tensor) -> Any:
    """Results and operands of other shapes, with reductions and a product."""
    y = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, F.softmax(x @ x.T @ x, 1)), (n, x))[1]
    return y.sum(1), y.t()


def lstm(h: Tensor, c: Tensor, xs: Tensor, w: Tensor, u: Tensor) -> Any:
    def step(state: tuple[Tensor, Tensor], x: Tensor) -> Any:
        h, c = state
        i, f, o, g = (x @ w + h @ u).split(h.shape[-1], -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h.clone()

    return scan(step, (h, c), xs)


def along_columns(c: Tensor, xs: Tensor) -> Any:
    return scan(lambda c, x: (c * 0.9 + x, (c + x).sin()), c, xs, dim=1, reverse=True)


def draws(p: Tensor, x: Tensor) -> Tensor:
    return torch.cond(p.sum() > 0, lambda x: F.dropout(x, 0.5, True), lambda x: x * 2, (x,))


def called(p: Tensor, x: Tensor) -> Tensor:
    """Operators of eager's in both bodies."""
    return torch.cond(
        p.sum() > 0, lambda x: torch.cumsum(x.bernoulli(), 1), lambda x: x.bernoulli() + 1, (x,)
    )


def called_in_steps(n: Tensor, x: Tensor) -> Any:
    return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, torch.linalg.matrix_exp(x * 0.1) + i), (n, x))


def called_on_rows(c: Tensor, xs: Tensor) -> Any:
    return scan(lambda c, x: (torch.linalg.matrix_exp(c * 0.1) + x, torch.linalg.matrix_exp(x * 0.1)), c, xs)


def mapped_pairs(xs: Any, w: Tensor) -> Any:
    return map_each(lambda x, w: (x[0] * w + x[1], x[0].sum()), xs, w)


SQUARE = X[:, :6].clone()
H = 8
STATE = (
    torch.zeros(4, H),
    torch.zeros(4, H),
    torch.randn(7, 4, 5),
    torch.randn(5, 4 * H) / 3,
    torch.randn(H, 4 * H) / 3,
)
CASES: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "closed": (closed, (torch.tensor(0), X, W)),
    "doubled": (doubled, (torch.tensor(0), X)),
    "doubled_none": (doubled, (torch.tensor(3), X)),
    "swapped": (swapped, (torch.tensor(0), X, W)),
    "swapped_views": (swapped, (torch.tensor(0), X.t(), W.t())),
    "loop_in_loop": (loop_in_loop, (torch.tensor(0), X)),
    "until_small": (until_small, (X,)),
    "in_rows": (in_rows, (torch.tensor(0), SQUARE)),
    "lstm": (lstm, STATE),
    "along_columns": (along_columns, (torch.zeros(6), X)),
    "draws": (draws, (YES, X)),
    "draws_not": (draws, (NO, X)),
    "called": (called, (YES, X.abs() / 4)),
    "called_not": (called, (NO, X.abs() / 4)),
    "called_in_steps": (called_in_steps, (torch.tensor(0), SQUARE)),
    "called_on_rows": (called_on_rows, (SQUARE, torch.stack([SQUARE, SQUARE + 1, SQUARE * 2]))),
    "map": (mapped_pairs, ((X, W), W[0].clone())),
}


test_as_eager = as_eager(CASES)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("threads", [1, 2])
def test_tiers_and_threads(tier: str, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            for name in ("swapped", "loop_in_loop", "lstm", "doubled"):
                function, args = CASES[name]
                check(function, *args, tier=tier)
            large = torch.randn(300, 1000)
            check(swapped, torch.tensor(0), large, large.cos(), tier=tier)
    finally:
        torch.set_num_threads(before)


def test_inference_mode() -> None:
    with torch.inference_mode():
        check(closed, torch.tensor(0), X.clone(), W.clone())


def test_same_bits_as_eager() -> None:
    function, args = CASES["swapped"]
    with torch.no_grad():
        mine, theirs = compiled(function)(*args), function(*args)
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def branches(p: Tensor, x: Tensor, w: Tensor) -> Any:
    """Of several results, in one another; an operand that one of them does not read."""

    def no(x: Tensor, w: Tensor) -> Any:
        y = torch.cond(w[0, 0] > 0, lambda x, w: x * w, lambda x, w: x - w, (x, w))
        return y, x + 1

    return torch.cond(p.sum() > 0, lambda x, w: (x.sin(), w.cos()), no, (x, w))


def branch_in_loop(n: Tensor, x: Tensor) -> Any:
    def step(i: Tensor, x: Tensor) -> Any:
        return i + 1, torch.cond(x[0, 0] > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    return while_loop(lambda i, x: i < 4, step, (n, x))[1]


def with_a_product(n: Tensor, x: Tensor, w: Tensor, b: Tensor) -> Any:
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, (x @ w).sin() + b), (n, x))[1]


def times_a_size(n: Tensor, x: Tensor) -> Any:
    rows = x.shape[0]
    return while_loop(lambda i, x: i < rows, lambda i, x: (i + 1, x * rows / 4), (n, x))


def row_of_data(n: Tensor, x: Tensor) -> Any:
    return while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s * 0.5 + x[i.item()]), (n, x[0] * 0))


def rows_in_rows(c: Tensor, xs: Tensor) -> Any:
    def step(c: Tensor, x: Tensor) -> Any:
        d, ys = scan(lambda c, r: (c * 0.5 + r, c.sin()), c, x)
        return d, ys.sum(0)

    return scan(step, c, xs)


def of_a_tree(c: Tensor, xs: Tensor) -> Any:
    def step(s: Any, x: Any) -> Any:
        return {"a": s["a"] * x["p"] + x["q"][0]}, [s["a"].sin()]

    return scan(step, {"a": c}, {"p": xs, "q": (xs.cos(),)})


def branch_of_rows(c: Tensor, xs: Tensor) -> Any:
    def step(c: Tensor, x: Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda c, x: c.sin() + x, lambda c, x: c.cos() * x, (c, x))
        return y, y * 2

    return scan(step, c, xs)


def mapped_twice(xs: Tensor, w: Tensor) -> Any:
    return map_each(lambda x, w: map_each(lambda y, w: y * w.sum() + y.sin(), x, w), xs, w)


def over_a_batch(x: Tensor) -> Any:
    return torch.vmap(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)))(x)


ZERO = torch.tensor(0)
GRADIENTS: dict[str, tuple[Call, tuple[Any, ...]]] = {
    **{name: CASES[name] for name in ("lstm", "along_columns", "draws", "closed", "swapped", "in_rows")},
    **{name: CASES[name] for name in ("doubled", "doubled_none", "loop_in_loop", "until_small")},
    "map": (lambda x, w, v: mapped_pairs((x, w), v), (X, W, W[0].clone())),
    "branches": (branches, (YES, X, W)),
    "branches_not": (branches, (NO, X, W)),
    "branch_in_loop": (branch_in_loop, (ZERO, X)),
    "with_a_product": (with_a_product, (ZERO, SQUARE, SQUARE.t() / 9, SQUARE[0].clone())),
    "times_a_size": (times_a_size, (ZERO, X)),
    "row_of_data": (row_of_data, (ZERO, X)),
    "rows_in_rows": (rows_in_rows, (torch.zeros(6), torch.stack([SQUARE, SQUARE + 1]))),
    "of_a_tree": (of_a_tree, (torch.zeros(8), X)),
    "branch_of_rows": (branch_of_rows, (torch.zeros(8), X)),
    "mapped_twice": (mapped_twice, (X.view(2, 4, 6), W[0, :6].clone())),
    "over_a_batch": (over_a_batch, (X,)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    """Two plans, which run all bodies."""
    function, args = GRADIENTS[name]
    run = compiled(function)
    with collect() as reports:
        close(backward(run, args), backward(function, args))
    assert [r["kind"] for r in reports] == ["forward", "backward"]
    counts = counted(lambda: close(backward(run, args), backward(function, args)))
    assert (counts["calls"], counts["eager_calls"]) == (2, 0)


@pytest.mark.parametrize("name", ["closed", "loop_in_loop", "rows_in_rows", "times_a_size"])
def test_gradients_of_sizes_that_change(name: str) -> None:
    function, args = GRADIENTS[name]
    run = compiled(function, dynamic=True)
    close(backward(run, args), backward(function, args))
    more = [torch.cat([a, a * 0.5], -1) if isinstance(a, Tensor) and a.dim() else a for a in args]
    close(backward(run, tuple(more)), backward(function, tuple(more)))


def test_gradients_of_other_numbers_of_steps() -> None:
    """The memory of the steps grows. A loop of no step has torch's gradient, which is that of one step."""
    run = compiled(until_small)
    for factor in (1.0, 0.01, 1e20, 3.0):
        x = torch.tensor([[0.1, -2.0, 1.0]]) * factor
        close(backward(run, (x,)), backward(until_small, (x,)))


def test_a_row_of_data_that_there_is_not() -> None:
    run = compiled(row_of_data)
    with pytest.raises(IndexError):
        run(torch.tensor(0), X[:3].clone().requires_grad_())


def test_sizes_change_between_calls() -> None:
    run = compiled(closed, dynamic=True)
    with torch.no_grad():
        for rows, columns in [(6, 8), (3, 9), (17, 5), (2, 300)]:
            x = torch.randn(rows, columns)
            close(run(torch.tensor(0), x, x.cos()), closed(torch.tensor(0), x, x.cos()))


def test_rows_change_between_calls() -> None:
    run = compiled(along_columns, dynamic=True)
    with torch.no_grad():
        for rows, steps in [(6, 8), (3, 2), (5, 31)]:
            c, xs = torch.randn(rows), torch.randn(rows, steps)
            close(run(c, xs), along_columns(c, xs))


def test_an_index_out_of_range_in_a_step() -> None:
    def function(x: Tensor, at: Tensor) -> Any:
        return while_loop(
            lambda at, s: s.sum() < 100, lambda at, s: (at + 1, s + x[at] + 1), (at, torch.zeros(1))
        )

    x = torch.zeros(5)
    with torch.no_grad():
        run = compiled(function)
        with pytest.raises(IndexError):
            run(x, torch.tensor([0]))
        close(run(x + 60, torch.tensor([0])), function(x + 60, torch.tensor([0])))


def test_an_operator_that_raises_in_a_step() -> None:
    def function(n: Tensor, x: Tensor) -> Any:
        return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x.bernoulli() + i), (n, x))

    x = torch.rand(3, 3)
    with torch.no_grad():
        run = compiled(function)
        with pytest.raises(RuntimeError, match="p_in"):
            run(torch.tensor(0), x)
        close(run(torch.tensor(4), x), (torch.tensor(4), x))


def test_an_argument_that_is_written_after_the_loop() -> None:
    def function(n: Tensor, x: Tensor) -> Any:
        i, y = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (n, x))
        x.add_(y)
        return i, y, x.sum()

    with torch.no_grad():
        check(function, torch.tensor(0), X.clone())


def test_what_is_no_loop_of_a_program_is_called() -> None:
    """A call in the body needs the operand as it lies in eager: the bodies are plans of their own."""

    def function(p: Tensor, x: Tensor) -> Tensor:
        return torch.cond(
            p.sum() > 0,
            lambda y: torch.linalg.matrix_exp(y.contiguous()),
            lambda y: y.contiguous() + 1,
            (x.t(),),
        )

    x = SQUARE * 0.1
    with torch.no_grad(), collect() as reports:
        run = compiled(function)
        close(forward(run, (YES, x)), forward(function, (YES, x)))
    assert [r["kind"] for r in reports] == ["body", "body", "inference"]
    assert reports[-1]["calls"][-1][0] == "cond"


def test_a_program_with_calls_in_bodies_is_written_and_read() -> None:
    """Guards of torch's own keep such functions from aot_compile: the graph alone."""

    def function(n: Tensor, x: Tensor) -> Any:
        def step(i: Tensor, x: Tensor) -> Any:
            y = torch.cond(x[0, 0] > 1, lambda x: torch.linalg.matrix_exp(x * 0.1), lambda x: x.cos(), (x,))
            return i + 1, y.contiguous() + 0.5

        return while_loop(lambda i, x: i < 4, step, (n, x))

    with torch.no_grad(), collect() as reports:
        want = compiled(function)(torch.tensor(0), SQUARE)
        (report,) = reports
        again = rebuild(describe(report["callable"]).header(), memoryview(b""), parse({}))
        close(again([torch.tensor(0), SQUARE]), want)


def test_explain_and_verify() -> None:
    with torch.no_grad():
        check(CASES["loop_in_loop"][0], *CASES["loop_in_loop"][1], verify="run")
    with torch.no_grad():
        text = str(dlc.explain(swapped, torch.tensor(0), X, W))
    assert "loop" in text


def run_as_profiled(run: Callable[[], Any]) -> list[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return [event.name for event in profile.events() if event.name.startswith("dlc::")]


def test_profilers_see_loops_and_their_kernels() -> None:
    with torch.no_grad():
        run = compiled(swapped)
        run(torch.tensor(0), X, W)
        names = run_as_profiled(lambda: run(torch.tensor(0), X, W))
    assert sum(name.startswith("dlc::while_loop") for name in names) == 1
    assert sum(name.startswith("dlc::add") for name in names) >= 5

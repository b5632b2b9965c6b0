"""torch.compile(fn, fullgraph=True, backend="dlc").aot_compile: saved here, loaded in another process."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dlc
from tests.fresh import run
from tests.tolerance import assert_like_eager


def compiled(fn: Any, *args: Any, **options: Any) -> Any:
    torch._dynamo.reset()
    wrapped = torch.compile(fn, fullgraph=True, backend="dlc", options={"tier": "tcc"} | options)
    wrapped = wrapped.forward if isinstance(fn, nn.Module) else wrapped
    return wrapped.aot_compile((args, {}))


def reloaded(fn: Any, external: dict[str, Any] | None = None) -> Any:
    data = type(fn).serialize(fn, external).serialized_data
    return torch.compiler.load_compiled_function(io.BytesIO(data), external_data=external)


def dynamic(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.randn(shape).to(dtype)
    torch._dynamo.mark_dynamic(x, 0)
    return x


# -- what is saved here and loaded there ---------------------------------------------------------------


def pointwise(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x * 2 + y).sigmoid()


def norm(x: Tensor, y: Tensor) -> Any:
    s = torch.softmax(x + y, -1)
    return s, s.t(), x.shape[0], None, x


def with_calls(x: Tensor, y: Tensor) -> Any:
    values, order = torch.sort(x * 2, 0)
    return values.cumsum(0, dtype=torch.float64), order + 1, (x @ y.t())[1:]


def with_constants(x: Tensor, y: Tensor) -> Tensor:
    table = torch.tensor([[1.5, -0.0], [float("nan"), 2.0]])
    return x[:, :2] * table.sum(1) + torch.tensor(3, dtype=torch.int8) + y[0, 0]


def writes(x: Tensor, y: Tensor) -> Any:
    x.mul_(y)
    return x + 1, y[1:]


CASES = (pointwise, norm, with_calls, with_constants, writes)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of all cases in a process that loads them, with the arguments; nothing is traced there."""
    folder: Path = tmp_path_factory.mktemp("aot")
    torch.manual_seed(0)
    cases = {case.__name__: [torch.randn(n, 4).clone() for n in (7, 7)] for case in CASES}
    with torch.no_grad():
        for case in CASES:
            x, y = dynamic(5, 4), dynamic(5, 4)
            compiled(case, x, y).save_compiled_function(str(folder / case.__name__))
    model = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6))
    trained = compiled(model, torch.randn(3, 4))
    trained.save_compiled_function(str(folder / "model"), external_data={"model": model})
    torch.save([cases, model.state_dict()], folder / "arguments")
    done = run(f"""
        import torch
        from torch import nn
        from pathlib import Path
        folder = Path({str(folder)!r})
        cases, weights = torch.load(folder / "arguments")
        def load(name, **external):
            with open(folder / name, "rb") as file:
                return torch.compiler.load_compiled_function(file, external_data=external)
        with torch.no_grad():
            results = {{name: (load(name)(*args), args) for name, args in cases.items()}}
        model = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6))
        model.load_state_dict(weights)
        y = load("model", model=model)(torch.ones(3, 4))
        (y * torch.arange(6)).sum().backward()
        results["model"] = y.detach(), [p.grad for p in model.parameters()]
        import dlc
        assert dlc.counters()["eager_calls"] == 0
        torch.save(results, folder / "results")
    """)
    assert done.returncode == 0, done.stderr
    return {"arguments": cases, "model": model, "results": torch.load(folder / "results")}


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_results_in_another_process(case: Callable[..., Any], there: dict[str, Any]) -> None:
    args = there["arguments"][case.__name__]
    eager = [arg.clone() for arg in args]
    want = case(*eager)
    have, after = there["results"][case.__name__]
    torch.testing.assert_close(have, want, equal_nan=True)
    torch.testing.assert_close(after, eager)


def test_training_in_another_process(there: dict[str, Any]) -> None:
    model = there["model"]
    have, gradients = there["results"]["model"]
    y = model(torch.ones(3, 4))
    (y * torch.arange(6)).sum().backward()
    torch.testing.assert_close(have, y.detach())
    torch.testing.assert_close(gradients, [p.grad for p in model.parameters()])


# -- in this process -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_dtypes_sizes_and_strides(dtype: torch.dtype) -> None:
    def f(x: Tensor) -> Tensor:
        return (x * 2 - 1).abs() + x

    with torch.no_grad():
        fast = reloaded(compiled(f, dynamic(4, 6, dtype=dtype)))
        for x in torch.ones(2, 6), torch.randn(9, 6), torch.randn(9, 12)[:, :6].contiguous():
            assert_like_eager(fast, f, x.to(dtype))


def test_the_bits_are_those_of_torch_compile() -> None:
    x, y = torch.randn(33, 4), torch.randn(33, 4)
    with torch.no_grad():
        fast = reloaded(compiled(norm, dynamic(5, 4), dynamic(5, 4)))
        want = torch.compile(norm, backend="dlc", options={"tier": "tcc"})(x, y)
        assert all(torch.equal(a, b) for a, b in zip(fast(x, y)[:2], want[:2], strict=True))


def test_results_share_memory_as_in_eager() -> None:
    with torch.no_grad():
        x = torch.randn(5, 4)
        s, transposed, *_, same = reloaded(compiled(norm, dynamic(5, 4), dynamic(5, 4)))(x, x + 1)
    assert same is x
    assert transposed.data_ptr() == s.data_ptr()


def test_storage_of_inputs_is_addressed_as_in_eager() -> None:
    def f(x: Tensor) -> Tensor:
        return x.as_strided((2, 2), (1, 2)) * 2

    x = torch.randn(9)[4:]
    with torch.no_grad():
        assert torch.equal(reloaded(compiled(f, x))(x), f(x))


def test_weights_are_those_that_are_given_when_it_is_loaded() -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    first, second, x = model(), model(), torch.randn(3, 4)
    with torch.no_grad():
        fast = compiled(first, x)
        data = type(fast).serialize(fast, {"m": first}).serialized_data
        other = torch.compiler.load_compiled_function(io.BytesIO(data), external_data={"m": second})
        torch.testing.assert_close(other(x), second(x))
        nn.init.zeros_(second[0].weight)
        torch.testing.assert_close(other(x), second(x))


def test_guards_and_what_happens_without_them() -> None:
    with torch.no_grad():
        fast = reloaded(compiled(pointwise, dynamic(5, 4), dynamic(5, 4)))
        bad = torch.randn(3, 4, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="GuardManager check failed"):
            fast(bad, bad)
        fast.disable_guard_check()
        for worse in bad, torch.randn(3, 5), torch.randn(4, 3).t(), torch.randn(3, 4, device="meta"):
            with pytest.raises(RuntimeError, match="the artifact was compiled for other arguments"):
                fast(worse, worse)
        x = torch.randn(3, 4)
        torch.testing.assert_close(fast(x, x), pointwise(x, x))


def in_range(low: int, high: int) -> Tensor:
    x = torch.randn(2 * low, 3)
    torch._dynamo.mark_dynamic(x, 0, min=low, max=high)
    return x


def shifted(x: Tensor) -> Any:
    return x[60:] * 2, x[:64].sum(0), x.flip(0)[7]


@pytest.mark.parametrize("rows", [0, 1, 8, 63, 4097, 5000])
def test_sizes_outside_of_the_range_without_guards(rows: int) -> None:
    with torch.no_grad():
        fast = reloaded(compiled(shifted, in_range(64, 4096)))
        fast.disable_guard_check()
        for inside in (64, 100, 4096):
            x = torch.randn(inside, 3)
            torch.testing.assert_close(fast(x), shifted(x))
        with pytest.raises(RuntimeError, match="a size outside of its range"):
            fast(torch.randn(rows, 3))
        torch.testing.assert_close(fast(x), shifted(x))


def test_sizes_that_are_no_multiples_without_guards() -> None:
    def f(x: Tensor) -> Any:
        torch._check(x.shape[0] % 8 == 0)
        return x.view(x.shape[0] // 8, 8, 3).sum(1), x.reshape(-1, 24) + 1

    with torch.no_grad():
        example = torch.randn(32, 3)
        torch._dynamo.maybe_mark_dynamic(example, 0)
        fast = reloaded(compiled(f, example))
        assert "% 8" in fast._artifacts.compiled_fn._packed.header["graph"]["text"]
        fast.disable_guard_check()
        for rows in (16, 24, 64):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(fast(x), f(x))
        for rows in (17, 20, 23, 63):
            with pytest.raises(RuntimeError, match="compiled for other arguments"):
                fast(torch.randn(rows, 3))


@pytest.mark.parametrize("left", [0, 4, 44])
def test_memory_that_is_gone_without_guards(left: int) -> None:
    """A storage can be made smaller under a tensor."""
    with torch.no_grad():
        fast = reloaded(compiled(pointwise, dynamic(5, 4), dynamic(5, 4)))
        fast.disable_guard_check()
        whole = torch.randn(16)
        x, y = whole[4:].view(3, 4), torch.randn(3, 4)
        torch.testing.assert_close(fast(x, y), pointwise(x, y))
        whole.untyped_storage().resize_(left)
        with pytest.raises(RuntimeError, match="memory that is gone"):
            fast(x, y)
        whole.untyped_storage().resize_(64)
        fast(x, y)


def test_autocast_and_grad_modes_inside() -> None:
    weight = nn.Parameter(torch.randn(4, 4))

    def casts(x: Tensor, w: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ w + 1

    def records(x: Tensor, w: Tensor) -> Any:
        with torch.enable_grad():
            y = x @ w
        return y.detach() * 2, y

    x = torch.randn(3, 4)
    with torch.no_grad():
        assert_like_eager(reloaded(compiled(casts, x, weight)), casts, x, weight)
        assert (
            reloaded(compiled(records, x, weight))(x, weight)[1].requires_grad
            == records(x, weight)[1].requires_grad
        )


def test_random_numbers_are_eager_s() -> None:
    def f(x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5) * 2 + torch.rand_like(x)

    with torch.no_grad():
        fast, x = reloaded(compiled(f, torch.ones(50))), torch.ones(50)
        torch.manual_seed(0)
        have = [fast(x), fast(x)]
        torch.manual_seed(0)
        assert all(map(torch.equal, have, [f(x), f(x)]))


def test_options_are_kept_but_those_of_the_machine(tmp_path: Path) -> None:
    def f(x: Tensor) -> Tensor:
        return (x * 0.625 + 3).tanh()

    x = torch.randn(3)
    with torch.no_grad():
        fast = compiled(f, x, cache=tmp_path / "here", cc="cc", tier="gcc", strict=True, dump="", tune=False)
        before = dlc.counters()
        again = reloaded(fast)
        torch.testing.assert_close(again(x), f(x))
    after = dlc.counters()
    kept = again._artifacts.compiled_fn._packed.header["options"]
    assert kept == {"tier": "gcc", "strict": True, "tune": False}
    assert after["graphs"] - before["graphs"] == 1
    assert after["tcc_compiles"] == before["tcc_compiles"]


def test_options_that_are_wrong() -> None:
    with pytest.raises(ValueError, match="unknown dlc option 'speed'"):
        compiled(pointwise, torch.ones(3), torch.ones(3), speed=1)


def test_an_operator_without_a_form_in_a_file_is_named() -> None:
    def f(x: Tensor) -> Tensor:
        def yes(y: Tensor) -> Tensor:  # a call in it wants y as it lies in eager, so the cond is one, too
            return torch.linalg.matrix_exp(y.contiguous())

        return torch.cond(x.sum() > 0, yes, lambda y: y.contiguous() + 1, (x.t(),))

    with torch.no_grad(), pytest.raises(dlc.ArtifactError, match="cond"):
        compiled(f, torch.ones(3, 3))


# -- tensor literals where AOTAutograd compiles, under fake tensors --------------------------------------

TABLE = [float(k) for k in range(36)]  # too many to be written in the program


def writes_literals(x: Tensor) -> Any:
    x.add_(torch.tensor(TABLE).reshape(6, 6)).mul_(torch.tensor([2, 3, 4, 5, 6, 7]))
    return x.sum() + torch.tensor(3, dtype=torch.int8), x[1:]


def writes_to_a_literal(x: Tensor) -> Tensor:
    table = torch.tensor(TABLE)
    table.add_(1)
    return x.copy_(table.reshape(6, 6)) * table.sum()


def returns_views(x: Tensor) -> Any:
    return x[1:], x.sum() + torch.tensor(TABLE), torch.tensor([[1.5, -0.0]])


def chooses(x: Tensor) -> Tensor:
    return torch.where(x > 0, torch.tensor(TABLE).reshape(6, 6), x[torch.tensor([0, 1, 1, 2, 5, 4])])


def looks_up(x: Tensor) -> Tensor:
    return nn.functional.embedding(torch.tensor([0, 1, 2, 1]), x) * torch.tensor(
        [1.0, 2.0, float("nan"), 4.0, 5.0, 6.0]
    )


@pytest.mark.parametrize(
    "f", [writes_literals, writes_to_a_literal, returns_views, chooses, looks_up], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("gradients", [False, True], ids=["inference", "training"])
def test_tensor_literals(f: Callable[..., Any], gradients: bool) -> None:
    """The second time it is called as well: a literal is a new tensor at each call."""

    def run(function: Callable[..., Any], x: Tensor) -> Any:
        leaf = x.clone().requires_grad_(gradients)
        argument = leaf * 1 if f in (writes_literals, writes_to_a_literal) else leaf
        results = function(argument)
        tensors = results if isinstance(results, tuple) else (results,)
        if gradients:
            sum((y.double().nan_to_num() * 3).sum() for y in tensors if y.requires_grad).backward()
        return [y.detach() for y in tensors], argument.detach(), leaf.grad

    with torch.set_grad_enabled(gradients):
        example = torch.randn(6, 6).requires_grad_(gradients)
        fast = reloaded(compiled(f, example * 1 if f in (writes_literals, writes_to_a_literal) else example))
        for _ in range(2):
            x = torch.randn(6, 6)
            torch.testing.assert_close(run(fast, x), run(f, x), equal_nan=True)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor(TABLE).sum()


def test_tensor_literals_in_a_model_that_is_trained() -> None:
    model, x = nn.Sequential(Scaled()), torch.randn(4, 3)
    fast = reloaded(compiled(model, x), {"model": model})
    want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    torch.testing.assert_close(fast(x), model(x))
    torch.testing.assert_close(torch.autograd.grad(fast(x).square().sum(), list(model.parameters())), want)

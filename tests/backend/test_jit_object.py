"""dlc.jit: what it refuses, and what its objects are besides functions."""

import copy
import gc
import pickle
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dlc
from dlc import CaptureError
from tests.backend.jitted import jit, little
from tests.tolerance import assert_like_eager

SCALE = 2.0
TABLE = torch.ones(3)


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        [1.0],
        {"a": 1},
        object(),
        np.longdouble(1),
        torch.randn(3, device="meta"),
        torch.eye(3).to_sparse(),
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.randn(3, dtype=torch.complex64).conj().imag,
        np.array(["a"]),
        np.zeros(3, np.longdouble),
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
        ([1],),
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_arguments_that_cannot_be_taken_are_named(bad: Any) -> None:
    fast = jit(little)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"little\(\): argument 'y'"):
            fast(1.0, bad)


def test_arrays_and_tensors_do_not_mix() -> None:
    with pytest.raises(TypeError, match="'x' is a NumPy array and argument 'y' a tensor"):
        jit(little)(np.ones(3), torch.ones(3))


def test_a_tensor_that_is_not_an_argument() -> None:
    def f(x: Tensor) -> Tensor:
        return x + TABLE

    near = torch.ones(3)

    def g(x: Tensor) -> Tensor:
        return x + near

    def h(x: Tensor) -> Tensor:
        return g(x) * 2

    for fn, name in (f, "TABLE"), (g, "near"), (h, "near"):
        with pytest.raises(TypeError, match=f"'{name}', a tensor"):
            jit(fn)(torch.ones(3))
        assert torch.equal(jit(fn, constants=True)(torch.ones(3)), fn(torch.ones(3)))


def test_a_list_and_a_module_that_are_not_arguments() -> None:
    weights, layer = [1.0, 2.0], torch.nn.Linear(3, 3)

    def f(x: Tensor) -> Tensor:
        return x * weights[0]

    def g(x: Tensor) -> Tensor:
        return layer(x)

    with pytest.raises(TypeError, match="'weights', a list"):
        jit(f)(torch.ones(3))
    with pytest.raises(TypeError, match="'layer', a Linear"):
        jit(g)(torch.ones(3))
    assert torch.equal(jit(f, constants=True)(torch.ones(3)), torch.ones(3))


def test_a_constant_that_needs_a_gradient() -> None:
    w = torch.randn(3, requires_grad=True)

    def f(x: Tensor) -> Tensor:
        return x * w

    with pytest.raises(TypeError, match=r"'w'.*requires a gradient"):
        jit(f, constants=True)(torch.ones(3))


def test_an_error_writes_nothing() -> None:
    def f(x: Tensor) -> Tensor:
        x.add_(1)
        return x if x.sum() > 0 else -x

    def g(x: Tensor) -> Tensor:
        return TABLE.add_(x)

    x = torch.zeros(3)
    with pytest.raises(CaptureError):
        jit(f)(x)
    assert torch.equal(x, torch.zeros(3))
    with pytest.raises(CaptureError, match="writes to a tensor that is not an argument"):
        jit(g, constants=True)(x)
    assert torch.equal(TABLE, torch.ones(3))


def test_attributes_of_classes_and_modules() -> None:
    class Settings:
        scale = 2.0
        weights = torch.ones(3)

    def f(x: Tensor) -> Tensor:
        return x * Settings.scale

    def g(x: Tensor) -> Tensor:
        return x * Settings.weights

    fast, x = jit(f), torch.ones(3)
    assert torch.equal(fast(x), x * 2)
    Settings.scale = 3.0
    with pytest.raises(RuntimeError, match=r"f\(\) reads 'scale'"):
        fast(x)
    with pytest.raises(TypeError, match=r"'Settings.weights', a tensor"):
        jit(g)(x)


def test_numbers_may_be_read_while_they_stay() -> None:
    def f(x: Tensor) -> Tensor:
        return x * SCALE

    fast = jit(f)
    x = torch.ones(3)
    assert torch.equal(fast(x), x * 2)
    globals()["SCALE"] = 4.0 / 2  # an equal value
    assert torch.equal(fast(x), x * 2)
    try:
        globals()["SCALE"] = 3.0
        with pytest.raises(RuntimeError, match="'SCALE'"):
            fast(x)
    finally:
        globals()["SCALE"] = 2.0
    assert torch.equal(fast(x), x * 2)


def test_a_closure_that_changes() -> None:
    factor = 2

    def f(x: Tensor) -> Tensor:
        return x * factor

    fast, fixed = jit(f), jit(f, constants=True)
    x = torch.ones(3)
    assert torch.equal(fast(x), x * 2)
    assert torch.equal(fixed(x), x * 2)
    factor = 3
    with pytest.raises(RuntimeError, match="'factor'"):
        fast(x)
    assert torch.equal(fixed(x), x * 2)


def test_branching_on_data() -> None:
    def f(x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x

    line = f.__code__.co_firstlineno + 1
    where = rf"f\(\) cannot be compiled: it decides by the values of a tensor \(.*test_jit_object.py:{line}\)"
    with pytest.raises(CaptureError, match=where):
        jit(f)(torch.ones(3))


def test_exceptions_inside() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        if n == 0:
            raise KeyError("nothing")
        return x + n

    fast = jit(f)
    x = torch.ones(2)
    for _ in range(2):
        with pytest.raises(KeyError, match="nothing"):
            fast(x, 0)
    assert torch.equal(fast(x, 1), x + 1)


def test_what_tracing_does_not_do_is_a_capture_error() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.linalg.solve(x @ x.t() + torch.eye(3), x)

    def g(x: Tensor) -> Tensor:
        if x.shape[0] != 3:
            raise AssertionError("three")
        return x

    with pytest.raises(CaptureError, match=r"f\(\) cannot be compiled"):
        jit(f)(torch.randn(3, 3))
    for constants in True, False:
        with pytest.raises(AssertionError, match="three"):
            jit(g, constants=constants)(torch.ones(2))


def test_an_index_out_of_range() -> None:
    def f(x: Tensor, i: Tensor) -> Tensor:
        return x[i] * 2

    fast = jit(f)
    x = torch.randn(4)
    assert torch.equal(fast(x, torch.tensor([1, 3])), x[[1, 3]] * 2)
    with pytest.raises(IndexError):
        fast(x, torch.tensor([1, 4]))


def test_functions_that_cannot_be_taken() -> None:
    with pytest.raises(TypeError, match="any number of arguments"):
        dlc.jit(lambda *xs: xs[0])
    with pytest.raises(TypeError, match="function written in Python"):
        dlc.jit(torch.add)
    with pytest.raises(ValueError, match="tier"):
        dlc.jit(little, tier="fast")
    with pytest.raises(ValueError, match="unknown dlc option"):
        dlc.jit(little, speed=1)


# -- the object ----------------------------------------------------------------------------------------


def test_decorators() -> None:
    @dlc.jit
    def plain(x: Tensor) -> Tensor:
        """Doubles."""
        return x * 2

    @dlc.jit(tier="gcc", cache=False)
    def waiting(x: Tensor) -> Tensor:
        return x * 2

    assert plain.__name__ == "plain"
    assert plain.__doc__ == "Doubles."
    x = torch.randn(3)
    assert torch.equal(plain(x), waiting(x))


def test_one_inside_another() -> None:
    @dlc.jit
    def inner(x: Tensor) -> Tensor:
        return x * 2

    @dlc.jit
    def outer(x: Tensor) -> Tensor:
        return inner(x) + 1

    before = dlc.counters()["graphs"]
    assert torch.equal(outer(torch.ones(3)), torch.full((3,), 3.0))
    assert dlc.counters()["graphs"] - before == 1


@dlc.jit
def by_name(x: Tensor) -> Tensor:
    return x + 1


def test_pickling_is_by_name_and_copies_are_the_same() -> None:
    assert pickle.loads(pickle.dumps(by_name)) is by_name
    fast = jit(little)
    again = pickle.loads(pickle.dumps(fast))  # made again of the function, which has a name
    assert torch.equal(again(torch.ones(2), 1.0), fast(torch.ones(2), 1.0))
    with pytest.raises(TypeError, match=r"<lambda> is compiled by dlc\.jit and cannot be pickled"):
        pickle.dumps(jit(lambda x: x))
    assert copy.copy(fast) is fast
    assert copy.deepcopy([fast])[0] is fast


class Layer:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    @dlc.jit(constants=True)
    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale

    @dlc.jit
    def strict(self, x: Tensor) -> Tensor:
        return x * self.scale

    def plain(self, x: Tensor, /, *, k: int = 1) -> Tensor:
        return x * self.scale + k


def test_methods() -> None:
    a, b, x = Layer(2.0), Layer(3.0), torch.ones(3)
    for _ in range(2):
        assert torch.equal(a.forward(x), x * 2)
        assert torch.equal(b.forward(x), x * 3)
    with pytest.raises(TypeError, match=r"argument 'self' is of type Layer.*self\.f = dlc\.jit\(self\.f\)"):
        a.strict(x)
    fast = dlc.jit(b.plain, constants=True)
    assert torch.equal(fast(x, k=2), b.plain(x, k=2))


def test_transforms_of_functions_see_the_function() -> None:
    fast, x = jit(little), torch.randn(3, 4)
    assert torch.equal(torch.vmap(fast)(x, x), little(x, x))
    gradient = torch.func.grad(lambda x: fast(x, x).sum())(x)
    assert torch.equal(gradient, torch.func.grad(lambda x: little(x, x).sum())(x))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        have, want = (torch.autograd.forward_ad.unpack_dual(f(dual, x)).tangent for f in (fast, little))
    assert torch.equal(have, want)


def test_modes_see_operators() -> None:
    def f(x: Tensor) -> Tensor:
        return x + torch.ones(3)

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen += 1
            return func(*args, **(kwargs or {}))

    fast, x = jit(f), torch.ones(3)
    fast(x)
    with Count() as count:
        torch.testing.assert_close(fast(x), f(x))
    assert count.seen >= 2
    with torch.device("meta"):
        assert fast(torch.ones(3)).device.type == "meta"
    torch.testing.assert_close(fast(x), f(x))


def test_inside_torch_compile() -> None:
    fast = jit(little)
    compiled = torch.compile(lambda x: fast(x, x) + 1, backend="dlc", options={"tier": "tcc"})
    x = torch.randn(5)
    assert torch.equal(compiled(x), little(x, x) + 1)


def test_states_of_torch() -> None:
    def f(x: Tensor) -> Tensor:
        return x @ x + torch.ones(2, 2)

    def product(x: Tensor) -> Tensor:
        return x @ x

    fast = jit(f)
    x = torch.randn(2, 2)
    assert fast(x).dtype == torch.float32
    for dtype in torch.bfloat16, torch.float16:
        with torch.autocast("cpu", dtype):
            assert_like_eager(fast, f, x)
            assert jit(product)(x).dtype == product(x).dtype == dtype
    torch.set_default_dtype(torch.float64)
    try:
        assert fast(x).dtype == f(x).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.inference_mode():
        made = fast(x)
        assert made.is_inference()
        torch.testing.assert_close(fast(made), f(made))
    torch.testing.assert_close(fast(made), f(made))


def test_eight_threads_call_first_at_once(compiles: Callable[[], int]) -> None:
    fast = jit(little)
    start = threading.Barrier(8)
    failures: list[Exception] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        start.wait()
        try:
            for n in range(2, 40):
                x, y = torch.randn(2, n * (seed + 1), generator=generator).unbind()
                assert torch.equal(fast(x, y), torch.relu(x * 2 + y))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert compiles() == 1


def test_calls_leave_nothing_behind() -> None:
    def f(x: Any, s: float) -> Any:
        return x * s, {"t": x.T}, x.shape[0]

    fast = jit(f)
    tensor, array = torch.randn(3, 4), np.ones((3, 4))

    def many(count: int) -> None:
        for _ in range(count):
            fast(tensor, 1.5)
            fast(array, 1.5)
            with pytest.raises(TypeError):
                fast(tensor, [])

    many(100)
    gc.collect()
    tracemalloc.start()
    try:
        many(1000)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        many(10_000)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_a_function_that_is_not_used_any_more_is_freed() -> None:
    def f(x: Tensor) -> Tensor:
        return x * 2

    fast = jit(f)
    fast(torch.ones(3))
    gone = weakref.ref(fast)
    del fast
    gc.collect()
    assert gone() is None

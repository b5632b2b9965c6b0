"""Functions of dlc.jit that write to their arguments: the caller's arrays hold what NumPy puts there."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dlc
from dlc import CaptureError
from tests.backend.jitted import jit

pytestmark = pytest.mark.in_turn(2)

# x: (6, 4) of floats, y: (6, 4); i: of ints, some twice; m: of bools; k: a float.
STATEMENTS = (
    "x[2:5] = k", "x[2:5] = y[1:4]", "x += 1", "x *= y", "x[...] = y", "x[m] = k", "x[x > 2] = 0",
    "x[m] *= 2", "x[m] += y[m]", "x[m, 1] = 3", "x[:, m[:4]] = 7", "x[m, :2] = 5",
    "np.add(x, y, out=x)", "np.sqrt(abs(x), out=x)", "np.multiply(x[1:], y[1:], out=x[1:])",
    "np.add(x, y, out=x, where=m[:, None])", "np.cumsum(x, axis=0, out=x)", "np.copyto(x, y)",
    "np.copyto(x, y, where=m[:, None])", "x.fill(k)", "x.sort(axis=0)", "np.put(x, i, k)",
    "np.add.at(x, i, 1.0)", "np.fill_diagonal(x, k)", "x[i] = y[i]", "x[i] = k", "x[i, 1] += 5",
    # slices that overlap: NumPy reads all before it writes
    "x[1:] = x[:-1]", "x[:-1] = x[1:]", "x[:] = x[::-1]", "x[1:4] = x[:3]", "x[1:, 1:] += x[:-1, :-1]",
    "x[1:] += x[:-1]", "np.add(x[1:], x[:-1], out=x[:-1])",
    # steps below zero
    "x[::-1] = y", "x[::-2] = k", "x[5:0:-2] = y[:3]", "x[::-1, ::-2] = y[:, :2]", "x[4:1:-1, 0] = y[:3, 0]",
    "x[::-1][1:3] = y[:2]", "x[::-1][m] = k", "x[::-1][i] = k",
    # by names of views
    "v = x[1]; v += k; x[0] = v", "v = x[::-1]; v[0] = k; v[1:3] += y[:2]", "v = x.T; v[1:3, :2] = k",
    "v = x.ravel(); v[3] = k; v[::-1][0] = 9", "v = x[::-2][:, ::-1]; v *= 2; v[1:, 2] = 0",
    "v = np.flip(x, 1); v[0] = v[1]; np.multiply(v, 2, out=v)", "v = x[:, 1]; x += 1; y[:] = v[:, None]",
    "v = x[n]; v += 1; v[0] = k", "v = x[n, 1:]; v[:] = y[n, :3]", "v = x[np.array(2)]; v += 1; y[0] = v",
    "w = x.copy(); x[:] = y; y[:] = w", "x[2, 3] = k; x[2] += x[3]; y -= x", "x[0] = x[1].max(); y[0] = x[0]",
    "x.T[:] = y.T * 2", "x.reshape(-1, 3)[1] = 0", "x[np.newaxis, 1:, None] = k",
)  # fmt: skip


def arguments(n: int, dtype: Any, layout: Callable[[Any], Any]) -> list[Any]:
    g = np.random.default_rng(n)
    x, y = (layout((g.standard_normal((n, 4)) * 4).astype(dtype)) for _ in range(2))
    return [x, y, np.array([1, 4, 1, 3]), g.random(n) > 0.4, 2.5, np.int64(2)]


def program(statement: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {"np": np}
    exec(f"def function(x, y, i, m, k, n):\n    {statement}", scope)
    return scope["function"]


def is_like(fast: Callable[..., Any], function: Callable[..., Any], make: Callable[[], list[Any]]) -> None:
    expected, given = make(), make()
    result, ours = function(*expected), fast(*given)
    for a, b in zip(expected, given, strict=True):
        np.testing.assert_array_equal(a, b)
    if result is not None:
        for a, b in zip(result, ours, strict=True):
            np.testing.assert_array_equal(a, b)
            assert type(a) is type(b)
            assert [np.may_share_memory(a, x) for x in expected] == [np.may_share_memory(b, x) for x in given]


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.T.copy().T,
    "stepped": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: x[::-1],
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()),
}


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_caller_sees_what_is_written(statement: str) -> None:
    function = program(statement)
    fast = jit(function)
    for n in (6, 9):
        is_like(fast, function, lambda n=n: arguments(n, np.float64, LAYOUTS["dense"]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arguments_of_all_layouts(layout: str) -> None:
    def function(x: Any, y: Any, i: Any, m: Any, k: float, n: Any) -> Any:
        x[1:] += x[:-1]
        y[::-1][m] = k
        x[2, ::-1] = y[n]
        np.minimum(x, y, out=y)

    fast = jit(function)
    for dtype in (np.float32, np.float64, np.int32):
        is_like(fast, function, lambda dtype=dtype: arguments(6, dtype, LAYOUTS[layout]))


def everything(x: Any, y: Any, i: Any, m: Any, k: float, n: Any) -> Any:
    x[1:] = x[:-1] * k
    x[m] += 1
    y[::-1] -= x
    y[i] = k
    v = y[n]
    v *= 2
    return x[1:], v.max(), y.T


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_both_tiers(tier: str) -> None:
    is_like(jit(everything, tier=tier), everything, lambda: arguments(7, np.float64, LAYOUTS["dense"]))


def test_values_are_cast_to_the_array_s_dtype() -> None:
    def function(x: Any, y: Any) -> Any:
        x[1:] = y[1:]
        x += 3

    def same_kind(x: Any, y: Any) -> Any:
        x += y

    fast = jit(function)
    for dtype in ("int8", "int32", "int64", "float32", "complex64"):
        y = np.array([1.5, 2.7, -3.2, 0])
        is_like(fast, function, lambda dtype=dtype, y=y: [np.arange(4).astype(dtype), y])
    is_like(jit(same_kind), same_kind, lambda: [np.arange(4, dtype="float32"), np.arange(4.0)])
    for call in (same_kind, jit(same_kind)):
        with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output from"):
            call(np.arange(4), np.arange(4.0))


def test_returned_views_share_the_argument_s_memory() -> None:
    def function(x: Any) -> Any:
        x[0] = 5
        x *= 2
        return x, x[1:, 0], x.T, x[None, 2], x.reshape(-1), x[0, 0]

    def sorted_(x: Any) -> Any:
        x[:] = np.sort(x, axis=0)  # a call of NumPy
        return x, x[2:]

    for f in (function, sorted_):
        is_like(jit(f), f, lambda: [np.arange(12.0)[::-1].reshape(4, 3).copy()])
    x = np.ones((4, 3))
    same, *views = jit(function)(x)
    assert same is x
    x[:] = 7
    assert all((view == 7).all() for view in views[:4])


def test_generators_shuffle_arguments() -> None:
    def function(x: Any, rng: Any) -> Any:
        rng.shuffle(x)
        x += rng.random()
        return (x[1:],)

    x, y = np.arange(9.0), np.arange(9.0)
    (view,) = jit(function)(x, np.random.default_rng(5))
    function(y, np.random.default_rng(5))
    np.testing.assert_array_equal(x, y)
    assert np.may_share_memory(view, x)


def adds(x: Any, y: Any) -> None:
    x += y


def doubles_first(x: Any) -> None:
    x[0] *= 2


def sorts(x: Any) -> None:
    x[:] = np.sort(x)


APART: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "halves": lambda z: (z[:10], z[10:]),
    "even and odd": lambda z: (z[::2], z[1::2]),
    "columns": lambda z: (z.reshape(4, 5)[:, 0], z.reshape(4, 5)[:, 3]),
    "blocks": lambda z: (z.reshape(4, 5)[:, :2], z.reshape(4, 5)[:, 3:]),
    "crossed": lambda z: (z.reshape(4, 5)[1:3, 1:3], z.reshape(4, 5)[1:3, 3:]),
}
TOGETHER: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "the same": lambda z: (z, z),
    "shifted": lambda z: (z[1:], z[:-1]),
    "transposed": lambda z: (z[:16].reshape(4, 4), z[:16].reshape(4, 4).T),
    "one element": lambda z: (z[::2], z[8:9]),
    "steps of two and three": lambda z: (z[:12:2], z[1:19:3]),
    "read backwards": lambda z: (z, z[::-1]),
    "written backwards": lambda z: (z[::-1], z),
}


@pytest.mark.parametrize("name", APART)
def test_arguments_in_one_array_that_do_not_overlap(name: str) -> None:
    x, y = np.arange(20.0), np.arange(20.0)
    jit(adds)(*APART[name](x))
    adds(*APART[name](y))
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", TOGETHER)
def test_arguments_that_overlap_are_refused(name: str) -> None:
    z, fast = np.arange(20.0), jit(adds)
    for _ in range(2):
        with pytest.raises(
            CaptureError,
            match=r"writes to its argument 'x'.*, which shares memory with y: give it a copy of x or of y",
        ):
            fast(*TOGETHER[name](z))
    np.testing.assert_array_equal(z, np.arange(20.0))
    fast(z[:10], z[10:].copy())


def test_the_message_has_the_line() -> None:
    line = adds.__code__.co_firstlineno + 1
    z = np.arange(4.0)
    with pytest.raises(CaptureError, match=rf"test_jit_writes.py:{line}"):
        jit(adds)(z, z)


def test_elements_that_share_memory_are_refused() -> None:
    z = np.lib.stride_tricks.as_strided(np.arange(10.0), (4, 4), (8, 8))
    with pytest.raises(CaptureError, match="elements of which share memory"):
        jit(doubles_first)(z)
    fast = jit(lambda x: x.add_(1))
    fast(torch.ones(3, 3))
    with pytest.raises(CaptureError, match="elements of which share memory"):
        fast(torch.ones(3).expand(3, 3))


@pytest.mark.parametrize("function", [doubles_first, sorts])
@pytest.mark.parametrize("layout", ["dense", "reversed", "swapped"])
def test_what_is_read_only_is_not_written(function: Callable[..., Any], layout: str) -> None:
    z = LAYOUTS[layout](np.arange(4.0))
    z.flags.writeable = False
    fast = jit(function)
    for _ in range(2):
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            fast(z)
    np.testing.assert_array_equal(z, LAYOUTS[layout](np.arange(4.0)))
    w = np.arange(4.0)[::-1].copy()
    fast(w)  # the others are


def test_a_read_only_view_of_what_is_written() -> None:
    def function(x: Any, y: Any) -> None:
        x[:] = np.sort(x) + y

    z = np.arange(4.0)
    view = z[:]
    view.flags.writeable = False
    with pytest.raises(CaptureError, match="which shares memory with y"):
        jit(function)(z, view)
    np.testing.assert_array_equal(z, np.arange(4.0))


@pytest.mark.parametrize("view", ["np.broadcast_to(x, (2, 4))", "np.diagonal(x[None])"])
def test_views_that_numpy_makes_read_only(view: str) -> None:
    scope: dict[str, Any] = {"np": np}
    exec(f"def function(x):\n    y = {view}\n    y[0] = 1", scope)
    for call in (scope["function"], jit(scope["function"])):
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            call(np.arange(4.0))


def test_scalars_are_no_arrays() -> None:
    def function(x: Any, k: Any) -> Any:
        k += 1
        return (x * k, k)

    def with_call(x: Any, k: Any) -> Any:
        k += 1
        return (np.sort(x) * k, k)

    for f in (function, with_call):
        fast = jit(f)
        for k in (np.float64(2), np.float32(3), np.array(4.0)):
            is_like(fast, f, lambda k=k: [np.arange(3.0), k.copy()])


def test_sizes_cost_no_compile(compiles: Callable[[], int]) -> None:
    fast = jit(adds)
    fast(np.zeros(8), np.ones(8))
    count = compiles()
    for n in (5, 9, 30):
        x = np.arange(float(n))
        fast(x, np.ones(n))
        np.testing.assert_array_equal(x, np.arange(1.0, n + 1))
    assert compiles() == count


# -- tensors -------------------------------------------------------------------------------------------


def test_tensors_are_written_and_the_counter_of_versions_moves() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x.add_(y)
        x[1:] = x[:-1] * 2
        return x, x[1:]

    a, b, y = torch.arange(5.0), torch.arange(5.0), torch.ones(5)
    expected, before = function(a, y), b._version
    ours = jit(function)(b, y)
    assert torch.equal(a, b) and b._version > before
    assert ours[0] is b and torch.equal(ours[1], expected[1])
    ours[1].zero_()
    assert torch.equal(b[1:], torch.zeros(4))
    with pytest.raises(CaptureError, match="which shares memory with y"):
        jit(function)(b[1:], b[:-1])


def test_a_tensor_of_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(3)
        dlc.jit(lambda x: x.add_(1))(x)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        jit(lambda x: x.add_(1))(x)
    assert torch.equal(x, torch.full((3,), 2.0))


def test_a_module_writes_to_its_arguments() -> None:
    class Adds(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4), requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            x += self.weight
            return x[1:]

    model, x = Adds().eval(), torch.zeros(4)
    jit(model)(x)
    assert torch.equal(x, torch.ones(4))
    with pytest.raises(CaptureError, match="which shares memory with self"):
        jit(model)(model.weight.data)

"""Loops and branches of functions of arrays: NumPy's values, and the bits of single steps."""

import inspect
import linecache
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlc
from benchmarks.arrays.programs import PROGRAMS as BENCHMARKED
from dlc import CaptureError
from dlc.arrays import bodies, flow
from dlc.arrays.scope import in_numpys_meaning
from dlc.arrays.value import MAX_STEPS
from tests.backend.jitted import jit
from tests.backend.loop_programs import PROGRAMS, Program, floats
from tests.backend.random_loops import random_loops

#: Programs whose loops are captured step by step.
UNROLLED = ("grows", "lists", "draws")


def leaves(value: Any) -> list[Any]:
    return [value] if not isinstance(value, tuple) else [leaf for item in value for leaf in leaves(item)]


def run(call: Callable[..., Any], program: Program) -> tuple[list[Any], list[Any]]:
    given = program.arguments()
    found = leaves(call(*given))
    arrays = [a for a in given if isinstance(a, np.ndarray)]
    shared = [[np.may_share_memory(f, a) for a in arrays] for f in found if isinstance(f, np.ndarray)]
    return [*found, *arrays], shared


def assert_like(ours: list[Any], theirs: list[Any], tolerance: float = 0.0) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert type(a) is type(b)
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
            assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has been taken as a whole."""
    taken: list[str] = []
    node = flow.node

    def noted(operator: Any, name: str, *args: Any) -> Any:
        taken.append(name)
        return node(operator, name, *args)

    monkeypatch.setattr(flow, "node", noted)
    return taken


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numpys_values(name: str, whole: list[str]) -> None:
    program = PROGRAMS[name]
    expected, fast = run(program.function, program), jit(program.function)
    for _ in range(2):
        ours = run(fast, program)
        assert_like(ours[0], expected[0], 1e-12)
        assert ours[1] == expected[1]
    assert bool(whole) == (name not in UNROLLED and "rebound_" not in name)


@pytest.mark.parametrize("name, count", [("heat", 1), ("k_means", 1 + 5 * 2)])
def test_a_body_is_traced_once(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """k_means has a loop of five steps in its loop, which are captured one by one: a branch in each."""
    frames: list[Any] = []
    begin = bodies.Frame.__init__

    def noted(self: bodies.Frame) -> None:
        begin(self)
        frames.append(self)

    monkeypatch.setattr(bodies.Frame, "__init__", noted)
    program = BENCHMARKED[name]
    jit(program.function)(*program.arguments(program.small))
    assert len(frames) == count


def nested(depth: int) -> Any:
    """A function of loops in loops, each of which has a number of its own and changes those around it."""
    lines, indent = ["def function(x, c):", "    s0 = 0.0"], "    "
    for k in range(depth):
        lines += [f"{indent}for i{k} in range(len(x)):"]
        indent += "    "
        lines += [f"{indent}s{k + 1} = 0.0"]
    lines += [f"{indent}if x[i{depth - 1}] > 0.5:", f"{indent}    c += 1", f"{indent}s{depth} += x[i0]"]
    for k in range(depth, 0, -1):
        lines += [f"{indent}s{k - 1} += s{k}"]
        indent = indent[4:]
    text = "\n".join([*lines, "    return s0, c"])
    found: dict[str, Any] = {}
    file = f"<nested {depth}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), found)
    return found["function"]


def test_the_number_of_runs_of_bodies_grows_with_the_depth_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with two to the power of it: what a loop carries is known when it is traced again."""
    frames = 0
    begin = bodies.Frame.__init__

    def noted(self: bodies.Frame) -> None:
        nonlocal frames
        frames += 1
        begin(self)

    monkeypatch.setattr(bodies.Frame, "__init__", noted)
    counts = []
    for depth in (1, 2, 3, 4):
        frames, x, function = 0, np.abs(floats(17)), nested(depth)
        assert_like(leaves(jit(function)(x, np.int64(0))), leaves(function(x, np.int64(0))), 1e-9)
        counts.append(frames)
    print(counts)
    more = np.diff(counts)
    assert max(more) <= 2 * min(more)


def test_an_interrupt_comes_between_steps() -> None:
    """Arrays have the values of one step, or those before the call. The function can be called again."""

    def function(x: Any, y: Any, limit: float) -> Any:
        while x[0] < limit:
            x += 1.0
            y[:] = x * 2

    fast, x, y = jit(function), np.zeros(50_000), np.zeros(50_000)
    fast(x, y, 20.0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    threading.Timer(0.5, lambda: __import__("_thread").interrupt_main()).start()
    with pytest.raises(KeyboardInterrupt):
        fast(x, y, 1e12)
    done = x[0]
    print(done)
    assert done >= 20 and (x == done).all() and (y == 2 * done).all()
    fast(x, y, done + 30)
    assert (x == done + 30).all() and (y == 2 * done + 60).all()


def test_an_interrupt_ends_the_loop_of_a_kernel() -> None:
    """The steps are one kernel, without launches of their own."""

    def function(a: Any, steps: int) -> None:
        for _ in range(steps):
            for j in range(1, len(a)):
                a[j] = a[j - 1] * 0.5 + a[j]

    fast = jit(function)
    for steps in (1000, 2000):  # so that the next call compiles nothing
        fast(np.ones(64), steps)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fast(np.ones(64), 1_000_000_000)
    assert time.monotonic() - start < 10


MOVING_AVERAGE, MANDELBROT = (
    Program(BENCHMARKED[name].function, lambda n=name, more=more: (*BENCHMARKED[n].arguments(25)[:1], *more))
    for name, more in (("moving_average", (0.1,)), ("mandelbrot", (30,)))
)


@pytest.mark.parametrize(
    "program",
    [*(PROGRAMS[name] for name in ("relaxed_in_place", "rows", "within_loops")), MOVING_AVERAGE, MANDELBROT],
    ids=lambda program: program.function.__name__,
)
def test_the_bits_of_single_steps(
    program: Program, whole: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = run(jit(program.function), program)
    count = whole.count("scan")
    monkeypatch.setattr(flow, "SHORT", MAX_STEPS)
    single = run(jit(program.function), program)
    assert count and whole.count("scan") == count
    assert_like(loops[0], single[0])


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_both_tiers(tier: str) -> None:
    def function(x: Any, limit: float) -> Any:
        steps, error = 0, 1.0
        while error > limit:
            old = x.copy()
            for i in range(1, len(x)):
                x[i] = 0.5 * (x[i - 1] + old[i])
                if x[i] > 1:
                    x[i] = 1
            error = np.abs(x - old).max()
            steps += 1
        return steps, x[::2]

    program = Program(function, lambda: (floats(25), 1e-4))
    expected, ours = run(function, program), run(jit(function, tier=tier), program)
    assert_like(ours[0], expected[0], 1e-12)
    assert ours[1] == expected[1]


def test_sizes_cost_no_compile(compiles: Callable[[], int]) -> None:
    function = MOVING_AVERAGE.function
    fast = jit(function)
    fast(floats(30), 0.5)
    count = compiles()
    for n in (25, 40, 1000):
        x = floats(n)
        np.testing.assert_allclose(fast(x, 0.25), function(x, 0.25), rtol=1e-12)
    assert compiles() == count


def test_ranges_of_sizes(compiles: Callable[[], int]) -> None:
    def function(x: Any) -> Any:
        for i in range(len(x) - 2, -1, -1):
            x[i] += 0.5 * x[i + 1]
        for j in range(1, len(x), 3):
            x[j] = j
        for k in range(len(x) - 1, 2, -2):
            x[k] -= x[k - 1]
        return i, j, k

    fast, count = jit(function), 0
    for n in (60, 61, 62, 63, 100):
        x, y = floats(n), floats(n)
        assert fast(x) == function(y)
        np.testing.assert_allclose(x, y, rtol=1e-12)
        count = count or compiles()
    assert compiles() == count


def test_many_steps_take_no_longer_to_compile() -> None:
    def function(x: Any, n: int) -> Any:
        for k in range(n):
            x = x * 0.999 + k
        return x

    np.testing.assert_allclose(jit(function)(floats(4), 100_000), function(floats(4), 100_000), rtol=1e-9)


def test_an_index_that_is_no_place_raises() -> None:
    def function(x: Any) -> None:
        for i in range(len(x)):
            x[i] = x[i + 1]

    for call in (function, jit(function)):
        with pytest.raises(IndexError):
            call(np.arange(20.0))


def test_a_number_of_python_s_beside_a_scalar_becomes_one() -> None:
    def function(x: Any) -> Any:
        return x[0] if x[0] > 0 else 0.0

    for x in (np.ones(2), -np.ones(2)):
        assert type(jit(function)(x)) is np.float64
        assert jit(function)(x) == function(x)


def test_one_truth_value() -> None:
    def function(x: Any) -> Any:
        return x if x > 1 else -x

    for call in (function, jit(function)):
        np.testing.assert_array_equal(call(np.array([3.0])), [3.0])
        with pytest.raises(ValueError, match="array with more than one element is ambiguous"):
            call(np.arange(3.0))


# -- what is refused -----------------------------------------------------------------------------------


def leaves_a_list(x: Any) -> Any:
    s = 0.0
    for weight, k in zip([1.0, 2.0, 3.0], range(3)):  # here  # noqa: B905
        s = s + x[k] * weight
        if s > 1e9:
            break
    return s


def rows_of_a_list(x: Any) -> Any:
    seen = []
    for v in x:  # here
        seen.append(v * 2)
    return seen[-1]


def exchanges_with_an_argument(x: Any) -> Any:
    new = x.copy()
    for _ in range(30):  # here
        new[1:-1] = 0.5 * (x[2:] + x[:-2])
        x, new = new, x
        if x[1] < 1e-2:
            break
    return x * 1


def appends(x: Any) -> Any:
    seen = []
    for _ in range(5000):  # here
        x = x + 1
        seen.append(x)
    return seen[-1]


def grows(x: Any) -> Any:
    for _ in range(5000):  # here
        x = np.concatenate([x, x])
    return x


def cuts(x: Any) -> Any:
    for i in range(len(x)):  # here
        x[i:] -= x[i:].mean()
    return x


def returns_within(x: Any) -> Any:
    seen = []
    for _ in range(20):
        x = x * 0.5
        seen.append(x)
        if x.sum() < 1:  # here
            return x
    return x


def other_dtypes(x: Any) -> Any:
    if x[0] > 0:  # here  # noqa: SIM108
        y = x.astype(np.float32)
    else:
        y = x
    return y


def written_after(x: Any) -> Any:
    if x[0] > 0:
        x = x / x.max()
    x[0] = 1  # here
    return x


def counts_down(x: Any) -> Any:
    while x.sum() > 0:  # here
        x = np.concatenate([x, -x])
    return x


REFUSED: dict[Callable[[Any], Any], str] = {
    leaves_a_list: "it decides by the values of an array, and it goes over what Python alone knows",
    rows_of_a_list: r"each is captured by itself, since it calls .append\(\) .line \d+",
    exchanges_with_an_argument: "new is the argument 'x' at its first step.*begin it with copies",
    appends: r"since it calls .append\(\) .line \d+",
    grows: r"since x is an array of float64 of shape .* before a step and an array of .* after it",
    cuts: "each is captured by itself, since a slice ends at a value of an array",
    returns_within: "it decides by the values of an array",
    other_dtypes: "y is an array of float32 of shape .* after one way of the branch and an array of float64",
    written_after: "shares its memory with another since a loop or a branch.*x.copy",
    counts_down: "a loop decides by values, and is not taken as a whole, since x is an array",
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_refused_with_the_line(function: Callable[[Any], Any]) -> None:
    lines, first = inspect.getsourcelines(function)
    line = next(first + k for k, text in enumerate(lines) if "# here" in text)
    with pytest.raises(CaptureError, match=REFUSED[function]) as raised:
        jit(function)(np.arange(1.0, MAX_STEPS + 10.0))
    assert f"test_jit_loops.py:{line}" in str(raised.value)


# -- functions whose source cannot be read ---------------------------------------------------------------


def test_a_function_without_a_source_is_captured_step_by_step() -> None:
    scope: dict[str, Any] = {"np": np}
    exec("def f(x):\n    for k in range(30):\n        x = x * 0.5 + k\n    return x", scope)
    np.testing.assert_allclose(jit(scope["f"])(floats(3)), scope["f"](floats(3)), rtol=1e-12)


WITHOUT_SOURCE = {
    "range(len(x))": "for k in range(len(x)):\n        x = x * 0.5 + k",
    "range of a value": "for k in range(x.astype(int)[0]):\n        x = x + k",
    "elements": "for v in x:\n        x = x + v",
    "many steps": "for k in range(5000):\n        x = x * 0.5 + k",
    "if": "if x[0] > 1:\n        x = x + 1",
    "while": "while x[0] > 1:\n        x = x / 2",
}


@pytest.mark.parametrize("name", WITHOUT_SOURCE)
def test_a_message_says_that_the_source_is_not_known(name: str) -> None:
    """As of a function that was typed in: what it would do in a file is not what it is told to change."""
    scope: dict[str, Any] = {}
    exec(f"def f(x):\n    {WITHOUT_SOURCE[name]}\n    return x", scope)
    with pytest.raises(CaptureError, match=r"the source of f\(\) is not known.*define it in a file"):
        jit(scope["f"])(floats(30))


def test_closures_defaults_and_functions_that_are_called() -> None:
    factor = 0.5

    def step(x: Any, k: Any, *, shift: float = 2.0) -> Any:
        if x[0] > shift:
            return x * factor
        return x + k

    def function(x: Any, n: int = 40) -> Any:
        for k in range(n):
            x = step(x, k, shift=3.0)
        return x

    np.testing.assert_allclose(jit(function)(floats(4)), function(floats(4)), rtol=1e-12)


def test_names_that_other_functions_read_or_assign() -> None:
    def reads(x: Any) -> Any:
        double = lambda: x * 2  # noqa: E731
        for _ in range(20):
            x = double() - x + 1
        return x

    def assigns(x: Any) -> Any:
        count = 0

        def more() -> None:
            nonlocal count
            count += 1

        for _ in range(20):
            x = x * 0.5 + count
            count = count + 1
            more()
        return x

    def ends(x: Any) -> Any:
        shifted = lambda: x + 1  # noqa: E731
        if x.shape[0] > 2:
            x = x * 2
            return shifted()
        return x

    def within(x: Any) -> Any:
        for k in range(20):
            x = np.piecewise(x, [x < 0, x >= 0], [lambda v, k=k: -v * k, lambda v: v * 0.5])
        return x

    for function in (reads, assigns, ends, within):
        np.testing.assert_allclose(jit(function)(floats(4)), function(floats(4)), rtol=1e-12)


def test_a_method() -> None:
    class Decay:
        rate = 0.9

        def __call__(self, x: Any) -> Any:
            for _ in range(30):
                x = x * self.rate if x.max() > 1e-3 else x
            return x

    decay = Decay()
    np.testing.assert_allclose(jit(decay.__call__)(floats(4)), decay(floats(4)), rtol=1e-12)


def test_a_torch_function_of_arrays_in_a_loop() -> None:
    import torch

    def function(x: Any) -> Any:
        for _ in range(20):
            x = torch.sigmoid(x) * 2
        return x

    x = floats(4)
    expected = x
    for _ in range(20):
        expected = 2 / (1 + np.exp(-expected))
    np.testing.assert_allclose(dlc.jit(function)(x), expected, rtol=1e-12)


# -- loops that are left -----------------------------------------------------------------------------------

ITEMS = ["range(n)", "range(7, -1, -2)", "reversed(range(1, n))", "x", "range(20)", "range(0)", "(3, 1, 2)"]
VALUES = ["a > b", "a % 3 == 1", "b + c > 5", "c < d", "d % 2", "n > 3", "a == 2 or b > 7", "not c"]
ASSIGNED = [
    "a = (a + 1) % 1000",
    "b = (a * 2 - d) % 50",
    "c = b % 7",
    "d = c - 1",
    "a += b % 3",
    "c, d = d, c",
]


def test_flags_leave_a_loop_as_python_does() -> None:
    """The rewritten functions, of numbers of Python's alone."""
    for seed in range(150):
        function, text = random_loops(seed, ITEMS, VALUES, ASSIGNED)
        rewritten = in_numpys_meaning(function)
        for n in (0, 1, 5):
            assert rewritten(tuple(range(n)), n) == function(tuple(range(n)), n), text


def test_random_loops_that_a_value_leaves() -> None:
    items = ["range(n)", "range(25, 2, -1)", "reversed(range(len(x)))", "x"]
    values = ["a > b", "x[3] > 0", "x[2] + b > 5", "c < d", "c < d and x[1] < 1"]
    changes = [
        "a = a + 1.0",
        "b = b + x[2]",
        "c = c * 0.5 + b",
        "d = x[4]",
        "x[3] = x[3] + 1",
        "d = abs(b - c)",
    ]
    right = 0
    for seed in range(8):
        function, text = random_loops(seed, items, values, changes)
        x, y = floats(22), floats(22)
        try:
            ours = jit(function)(y, 18)
        except CaptureError as error:
            assert f"<loops {seed}>:" in str(error), text
            continue
        np.testing.assert_allclose(ours, function(x, 18), rtol=1e-9, err_msg=text)
        np.testing.assert_allclose(y, x, rtol=1e-9, err_msg=text)
        right += 1
    assert right >= 2


def test_zip_of_two_lengths() -> None:
    def function(x: Any, y: Any) -> Any:
        s = 0.0
        for a, b in zip(x, y, strict=True):
            s += a * b
        return s

    for call in (function, jit(function)):
        with pytest.raises(ValueError, match=r"zip\(\) argument 2 is shorter than argument 1"):
            call(floats(25), floats(24))


def test_rows_of_every_number() -> None:
    def function(x: Any) -> Any:
        s, k = np.zeros(3), -1
        for k, row in enumerate(x):  # noqa: B007
            s = s * 0.5 + row
            if s[0] > 3:
                break
            row[1] += s[0]
        else:
            k = 100
        return s, k

    fast = jit(function)
    for n in (25, 1, 2, 0, 17):
        x, y = floats(n, 3), floats(n, 3)
        assert_like([*fast(y), y], [*function(x), x], 1e-12)

"""Bodies that a loop or a branch of the program cannot have: they run as Python does, or are refused.

A loop of more steps than are captured by themselves is refused, so these have few. No way is another result
than Python's.
"""

import copy
import inspect
import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlc import CaptureError
from dlc.arrays import flow
from tests.backend.jitted import jit

STEPS = 20


def floats(*shape: int) -> Any:
    return np.arange(1, int(np.prod(shape)) + 1).reshape(shape) / 4


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
    given = copy.deepcopy(arguments)
    found = function(*given)
    results = list(found) if isinstance(found, tuple) else [found]
    return [*results, *(a for a in given if isinstance(a, np.ndarray))]


def assert_python_s(function: Callable[..., Any], *arguments: Any) -> None:
    ours, theirs = outcome(jit(function), arguments), outcome(function, arguments)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype


# -- effects -------------------------------------------------------------------------------------------


def pops(x: Any) -> Any:
    weights = [1 + k / 100 for k in range(STEPS)]
    for _ in range(STEPS):
        x = x * weights.pop()
    return x


def adds_to_a_list(x: Any) -> Any:
    seen: list[int] = []
    for _ in range(STEPS):
        seen += [1]
    return x * len(seen)


def reads_an_iterator(x: Any) -> Any:
    numbers = iter(range(30))
    for _ in range(STEPS):
        x = x + next(numbers)
    return x


def sums_an_iterator(x: Any) -> Any:
    numbers = iter(range(30))
    for _ in range(STEPS):
        x = x + sum(numbers)
    return x


def _push(items: list[Any], value: Any) -> None:
    items.append(value)


def _increase(items: Any) -> Any:
    items[0] += 1
    return items[0]


def calls_what_appends(x: Any) -> Any:
    seen: list[Any] = []
    for _ in range(STEPS):
        _push(seen, 1.0)
        x = x + 1
    return x * len(seen)


def calls_what_writes_to_a_list(x: Any) -> Any:
    count = [0]
    for _ in range(STEPS):
        x = x + _increase(count)
    return x


def calls_what_counts(x: Any) -> Any:
    count = 0

    def more() -> int:
        nonlocal count
        count += 1
        return count

    for _ in range(STEPS):
        x = x + more()
    return x


def an_item_of_a_dict(x: Any) -> Any:
    d = {"n": 0}
    for _ in range(STEPS):
        d["n"] += 1
        x = x + 1
    return x * d["n"]


class Counter:
    n = 0


def an_attribute(x: Any) -> Any:
    o = Counter()
    for _ in range(STEPS):
        o.n += 1
        x = x + 1
    return x * o.n


def a_list_of_another_name(x: Any) -> Any:
    h = [0.0] * STEPS
    q = h
    for _ in range(STEPS):
        w = q
        w[3] = w[3] + 1.0
    return x * h[3]


def another_name_of_a_function(x: Any) -> Any:
    seen: list[int] = []
    more = seen.append
    for k in range(STEPS):
        more(k)
    return x * len(seen)


def while_of_an_effect(x: Any) -> Any:
    numbers = iter([3, 2, 1, 0, 5])
    while next(numbers):
        x = x + 1
    return x


def branches_of_python(x: Any) -> Any:
    seen: list[int] = []
    for k in range(STEPS):
        if k % 3 == 0:
            seen.append(k)
    return x * len(seen)


# -- functions that run later ----------------------------------------------------------------------------


def a_lambda_of_a_branch(x: Any, flag: bool) -> Any:
    f = None
    if flag:
        s = 2.0
        f = lambda v: v * s  # noqa: E731
    s = 3.0
    return f(x)  # type: ignore[misc]


def lambdas_of_a_loop(x: Any) -> Any:
    found: tuple[Any, ...] = ()
    for i in range(STEPS):
        found = (*found, lambda v: v * i)  # noqa: B023
    return found[0](x)


def a_generator_of_a_branch(x: Any, flag: bool) -> Any:
    g: Any = ()
    if flag:
        s = 2.0
        g = (v * s for v in (1.0, 2.0))
    s = 10.0
    return x * sum(g)


# -- views that leave a body -----------------------------------------------------------------------------


def a_name_of_another_name(a: Any) -> Any:
    b, c, t = a.copy(), a.copy(), np.zeros_like(a)
    for i in range(STEPS):
        b += 1.0
        t = t + c
        b = a * i
        c = b
    return t


def the_row_before(b: Any) -> Any:
    prev = np.zeros(3)
    for i in range(1, STEPS):
        b[i] += prev
        prev = b[i]
    b[-1] = 0
    return prev * 1


def a_row_written_after(x: Any) -> Any:
    y = x * 2
    z = y[0].copy()
    for i in range(1, STEPS):
        z = y[i]
    y[:] = 0
    return z * 1


def exchanged_and_written_after(x: Any, y: Any) -> Any:
    a, b = x, y
    for _ in range(STEPS + 1):
        a, b = b, a
    y[:] = 7
    return a * 1, b * 1


# -- numbers -------------------------------------------------------------------------------------------


def a_range_of_numpy_s_int(x: Any, n: Any) -> Any:
    for i in range(n):  # noqa: B007
        x = x + 1
    return x * i


def as_long_as_there_are(x: Any) -> Any:
    i = 0
    while i < len(x) and x[i] > 0:
        i += 1
    return i


def or_in_order(x: Any) -> Any:
    i = 0
    while not (i >= len(x) or x[i] < 0):
        i += 1
    return i


X = floats(5)
RIGHT: list[tuple[Any, ...]] = [
    *((f, X) for f in (pops, adds_to_a_list, reads_an_iterator, sums_an_iterator, calls_what_appends)),
    *((f, X) for f in (calls_what_writes_to_a_list, calls_what_counts, an_item_of_a_dict, an_attribute)),
    *((f, X) for f in (a_list_of_another_name, another_name_of_a_function, while_of_an_effect)),
    *((f, X) for f in (branches_of_python, lambdas_of_a_loop, a_name_of_another_name)),
    *((f, X, True) for f in (a_lambda_of_a_branch, a_generator_of_a_branch)),
    *((f, floats(20, 3)) for f in (the_row_before, a_row_written_after)),
    (exchanged_and_written_after, X, X * 2),
    (a_range_of_numpy_s_int, floats(3).astype(np.float32), np.int64(STEPS)),
    *((f, x) for f in (as_long_as_there_are, or_in_order) for x in (floats(20), floats(1), -floats(20))),
]


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case[0].__name__)
def test_python_s_values(case: tuple[Any, ...]) -> None:
    function, *arguments = case
    if function is exchanged_and_written_after:
        try:
            assert_python_s(function, *arguments)
        except CaptureError as error:
            assert "test_jit_loops_refused.py" in str(error)
        return
    assert_python_s(function, *arguments)


# -- what is refused -----------------------------------------------------------------------------------


def pops_by_a_value(x: Any) -> Any:
    weights = [1.0, 2.0]
    v = 0.0
    if x[0] > 0:  # here
        v = weights.pop()
    return x * v


def adds_by_a_value(x: Any) -> Any:
    seen: list[int] = []
    if x[0] > 0:  # here
        seen += [1]
    return x * len(seen)


def pops_while_by_a_value(x: Any) -> Any:
    weights = [1, 2, 3]
    while x[0] > 0 and len(weights) > 1:  # here
        x = x - weights.pop()
    return x


def views_of_two_ways(x: Any) -> Any:
    y = x * 2
    if x[0] > 0:  # here  # noqa: SIM108
        z = y[1:]
    else:
        z = y[:-1]
    y[:] = 0
    return z


def views_returned(x: Any) -> Any:
    if x[0] > 0:  # here
        return x[1:]
    return x[:-1]


def read_after_a_write(x: Any) -> Any:
    y = x + 1
    z = x if x[0] > 0 else y
    x[0] = 99
    return z.max()  # here


def an_int_or_a_float(x: Any) -> Any:
    k: float = 1
    if x[0] > 0:  # here
        k = 2.5
    return np.arange(3) * k + x[0]


def an_int_or_a_bool(x: Any) -> Any:
    n: Any = 0
    if x[0] > 0:  # here
        n = True
    return x * n


def views_of_a_long_loop(x: Any) -> Any:
    z = x[0:1]
    for _ in range(5000):  # here
        z = x[1:2]
    x[:] = 0
    return z


REFUSED = {
    pops_by_a_value: r"it calls .pop\(\)",
    adds_by_a_value: "it changes an object of type list",
    pops_while_by_a_value: "it decides by the values of an array",
    views_of_two_ways: r"z shares memory with an array from before: write .copy\(\)",
    views_returned: r"shares memory with an array from before: write .copy\(\)",
    read_after_a_write: "it reads an array after a write to another one",
    an_int_or_a_float: "k is a number of Python's after one way",
    an_int_or_a_bool: "n is .* after one way of the branch",
    views_of_a_long_loop: r"z shares memory with an array from before: write .copy\(\)",
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_refused_with_the_line(function: Callable[[Any], Any]) -> None:
    lines, first = inspect.getsourcelines(function)
    line = next(first + k for k, text in enumerate(lines) if "# here" in text)
    with pytest.raises(CaptureError, match=REFUSED[function]) as raised:
        jit(function)(floats(5))
    assert f"test_jit_loops_refused.py:{line}" in str(raised.value)


# -- random bodies -------------------------------------------------------------------------------------

STATEMENTS = [
    *("a[0] = b[1] + k", "b = a", "a, b = b, a", "b = a[::-1]", "b = a.copy()", "a = a * 0.5 + b", "a += b"),
    *("c = b", "c = a[1:]", "c[0] = 3", "b[1:] = a[:-1]", "c = a * 2", "t = t + c.sum()", "t = t + b[2]"),
]
WRITES = ["a[2] = 50", "b[2] = 60", "c[1] = 70", "x[2] = 80", "y[1] = 90", "t = t + 0"]


def random_program(seed: int) -> Callable[..., Any]:
    rng = random.Random(seed)
    head = rng.choice(["for k in range(18):", "if x[0] > 0:"])
    lines = [
        "def f(x, y):",
        f"    a, b, t, k, c = x, y, 0.0, 2, {rng.choice(['x', 'y * 2'])}",
        f"    {head}",
        *(f"        {rng.choice(STATEMENTS)}" for _ in range(rng.randrange(1, 4))),
        *(f"    {rng.choice(WRITES)}" for _ in range(2)),
        "    return a * 1, b * 1, c * 1, t",
    ]
    file, text = f"<aliases {seed}>", "\n".join(lines)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    return scope["f"]


def test_random_bodies_of_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    node = flow.node
    monkeypatch.setattr(flow, "node", lambda op, what, *rest: taken.append(what) or node(op, what, *rest))
    right = 0
    for seed in range(16):
        function = random_program(seed)
        try:
            assert_python_s(function, floats(5), floats(5) / 3)
            right += 1
        except (CaptureError, IndexError):
            continue
    assert right >= 4 and {"scan", "cond"} <= set(taken)

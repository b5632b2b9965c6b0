"""Loops and branches of NumPy programs, as they are written: test_jit_loops.py compiles them.

Those of benchmarks/arrays/programs.py are not repeated here: test_array_programs.py compiles them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any


class Program(NamedTuple):
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]


PROGRAMS: dict[str, Program] = {}


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def program(*arguments: Callable[[], tuple[Any, ...]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """arguments: makes new ones; several: the program is tested with each."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for k, make in enumerate(arguments):
            name = function.__name__ + (f"_{k}" if k else "")
            PROGRAMS[name] = Program(function, make)
        return function

    return add


# -- loops over ranges ---------------------------------------------------------------------------------


@program(lambda: (floats(20), 100), lambda: (floats(20), 0), lambda: (floats(20), 1))
def rebound(x: Array, n: int) -> Array:
    for _ in range(n):
        x = x * 0.5 + 1
    return x


@program(lambda: (floats(20),))
def relaxed_in_place(x: Array) -> None:
    for _ in range(50):
        x[1:-1] = 0.5 * (x[:-2] + x[2:])


@program(lambda: (floats(30),))
def summed_by_index(x: Array) -> tuple[Any, ...]:
    s, first = 0.0, 0
    for i in range(len(x)):
        s += x[i] * i
        first = i * 2 - 1
    return s, i, first


@program(lambda: (floats(30), 40), lambda: (floats(30), 41))
def exchanged_with_an_argument(u: Array, n: int) -> Array:
    new = u.copy()
    for _ in range(n):
        new[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u, new = new, u
    return u


@program(lambda: (floats(30),))
def exchanged_copies(x: Array) -> tuple[Array, Array]:
    u, new = x.copy(), x.copy()
    for k in range(33):
        new[1:-1] = u[1:-1] * 0.9 + k
        u, new = new, u
    return u, new


@program(lambda: (floats(20, 18),))
def nested(x: Array) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = x[i, j] * 2 + i - j


@program(lambda: (floats(40),))
def with_steps(x: Array) -> tuple[int, int]:
    for i in range(40, 0, -2):
        x[i % 7] += i
    for j in range(5, 200, 7):
        x[j % 40] -= j / 2
    return i, j


@program(lambda: (floats(20),))
def temporaries(x: Array) -> tuple[Array, Array]:
    for k in range(20):
        t = x * 2
        x = t - k
    return x, t


@program(lambda: (np.arange(5),), lambda: (np.arange(5, dtype=np.float32),), lambda: (np.arange(5.0),))
def promoted_by_the_first_step(x: Array) -> tuple[Array, Any]:
    total = 0
    for _ in range(20):
        x = x * 1.5
        total = total + x[1]
    return x, total


@program(lambda: (floats(20),))
def aliases(x: Array) -> tuple[Array, Array]:
    v, y = x[2:5], x
    for _ in range(20):
        v += 1
        x[0] = v[0]
        y[1] += 1
        y = y * 0.5
    return v, y


@program(lambda: (floats(20, 4),))
def rows(x: Array) -> None:
    for i in range(1, len(x)):
        row = x[i]
        row += x[i - 1]
        row[0] = i
        x[:, 1] -= x[i, 2]


@program(lambda: (floats(12, 12),))
def views_before_the_loop(x: Array) -> Array:
    inner, back = x[1:-1, 1:-1], x[::-1]
    for _ in range(20):
        inner *= 0.5
        back[0] = inner.sum(axis=0).max()
    return inner


@program(lambda: (floats(20), floats(100, seed=1)))
def a_view_that_a_branch_reads_first(x: Array, c: Array) -> None:
    v = x[1:5]
    for i in range(100):
        if c[i] > 0:
            c[i] = v[0] * 2
        c[i] += v[1]


@program(lambda: (floats(30), floats(25, seed=1)))
def values_that_each_step_makes(x: Array, c: Array) -> tuple[Any, ...]:
    for i in range(25):
        y = x * i
        m = c[i] * 2
        if m > 0:
            s, k = m + 1, 2
        else:
            s, k = m, 3
    return y, m, s, k


@program(lambda: (floats(20),))
def calls_of_numpy(x: Array) -> Array:
    for _ in range(20):
        x = np.sort(x * -1.1)
    return x


# -- while ---------------------------------------------------------------------------------------------


@program(lambda: (abs(floats(20)), 1e-6), lambda: (abs(floats(20)), 1e9))
def until_it_is_exact(x: Array, tolerance: float) -> tuple[Array, int]:
    steps, error = 0, 1.0
    while not error <= tolerance and steps < 1000:
        y = np.sqrt(x + 1)
        error = np.abs(y - x).max()
        x = y
        steps += 1
    return x * 1, steps


@program(lambda: (np.array([27]),), lambda: (np.array([1]),))
def collatz(start: Array) -> int:
    n, steps = start[0], 0
    while n != 1:
        if n % 2 == 0:  # noqa: SIM108
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


# -- branches ------------------------------------------------------------------------------------------

SIGNS = (lambda: (abs(floats(20)),), lambda: (-abs(floats(20)),))


@program(*SIGNS)
def returns(x: Array) -> Array:
    if x.sum() > 0:
        return x * 2
    return -x


@program(*SIGNS)
def assigns(x: Array) -> tuple[Any, ...]:
    y, k = x, np.float64(1.0)
    if x[0] > 0 and x[1] > 0:
        y, k = x - x.mean(), x[3]
    elif x[2] > 1 or not x[3] < 0:
        k = x.max()
    return y + 0, k


@program(*SIGNS)
def writes(x: Array) -> None:
    if x.max() > 0:
        x[0] = 100
        x[1:] *= 2
    else:
        x[::-1][:3] = 7


@program(*SIGNS)
def ends_early(x: Array) -> None:
    if x[0] > 0:
        return
    x[0] = 7
    if x[1] > -100:
        x[2] = x[0 if x[3] > 0 else 1]


@program(*SIGNS)
def within_loops(x: Array) -> tuple[Any, ...]:
    largest, place, rises = x[0], 0, 0
    for i in range(len(x)):
        if x[i] > largest:
            largest, place = x[i], i
        if i > 0 and x[i - 1] < x[i]:
            rises += 1
        if i % 3 == 0:
            x[i] = -x[i]
    return largest, place, rises


@program(lambda: (np.arange(3, 60),), lambda: (np.arange(20, dtype=np.int32),))
def sums_of_quotients(z: Array) -> tuple[Any, ...]:
    best, which, odd = 0, 0, 0
    for i in range(len(z)):
        n = 0
        for j in range(1, 25):
            if z[i] % j == 0:
                n += z[i] // j
                odd += j % 2
        if n > best:
            best, which = n, i
    return best, which, odd


@program(lambda: (floats(25).astype(np.float32), np.arange(25)))
def single_precision_at_the_first_step_alone(x: Array, z: Array) -> Any:
    k = 3
    for i in range(len(x)):
        x[i] = x[i] * k * 0.1 + k / 3
        k = k + z[i] % 2
    return k


@program(*SIGNS)
def numbers_of_python(x: Array) -> tuple[Any, ...]:
    best, k = -np.inf, 1 if x[0] > 0 else 2
    for i in range(len(x)):
        best = max(best, x[i])
        k = min(k + i, 12)
    scale = x.max() if x.max() > 1 else np.float64(1.0)
    return best, k, x / scale


# -- loops that are left ---------------------------------------------------------------------------------


@program(lambda: (floats(30),), lambda: (-abs(floats(30)),))
def the_first_over_a_limit(x: Array) -> tuple[int, int]:
    found = -1
    for i in range(len(x)):
        if x[i] > 0.5:
            found = i
            break
    return found, i


@program(lambda: (abs(floats(30)),), lambda: (floats(30) * 0,))
def breaks_or_else(x: Array) -> None:
    for i in range(len(x)):
        if x[i] > 1.0:
            x[i] = 100
            break
        x[i] -= 1
    else:
        x[0] = 77


@program(lambda: (abs(floats(30)), 1e-6))
def forever(x: Array, tolerance: float) -> Array:
    y = x
    while True:
        z = 0.5 * (y + 2 / (y + 0.1))
        if abs(z - y).max() < tolerance:
            break
        y = z
    return y * 1


@program(lambda: (abs(floats(20)), 1e-6), lambda: (abs(floats(20)), 1e-300))
def returns_from_a_loop(x: Array, tolerance: float) -> tuple[Array, int]:
    for k in range(60):
        y = np.sqrt(x + 1)
        error = abs(y - x).max()
        if error < tolerance:
            return y, k
        x = y
    return x * 1, -1


@program(lambda: (floats(20, 20) + 1,), lambda: (floats(20, 20) * 0,))
def returns_from_an_inner_loop(a: Array) -> tuple[int, int]:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > 2.0:
                return i, j
            a[i, j] *= 0.5
    return -1, -1


@program(lambda: (floats(25),))
def leaves_from_deep_within(x: Array) -> tuple[Any, ...]:
    s = 0.0
    for i in range(25):
        if x[i] > 0:
            if x[i] > 1:
                s -= 100
                if s < -250:
                    break
            else:
                s += 1
                continue
            s += 7
        s = s * 2
    else:
        s = -1.0
    return s, i


@program(lambda: (np.array([3.0, 1, 2, 9, 4] * 5),))
def sorted_by_exchanges(x: Array) -> None:
    n = len(x)
    for i in range(n):
        exchanged = False
        for j in range(0, n - i - 1):
            if x[j] > x[j + 1]:
                before = x[j]
                x[j] = x[j + 1]
                x[j + 1] = before
                exchanged = True
        if not exchanged:
            break


@program(lambda: (np.eye(3) * 3 + floats(3, 3), floats(3)))
def power_iteration(a: Array, v: Array) -> tuple[Any, ...]:
    value = 0.0
    for k in range(500):  # noqa: B007
        w = a @ v
        new = np.sqrt((w * w).sum())
        v = w / new
        if abs(new - value) < 1e-8 * abs(new):
            value = new
            break
        value = new
    else:
        value = -1.0
    return value, k


@program(lambda: (floats(5),))
def stops(x: Array) -> Array:
    for i in range(40):
        if i % 2:
            continue
        x = x + i
        if i == 25:
            break
    return x


# -- loops over other things than ranges -----------------------------------------------------------------


@program(lambda: (floats(20, 3)[::-1],), lambda: (floats(40, 6)[::2, 1::2],))
def over_rows(x: Array) -> Array:
    s = np.zeros(3)
    for row in x:
        s = s * 0.5 + row
        row[0] = s[1]
    return s


@program(lambda: (floats(20, 3), floats(25)))
def over_two_arrays(x: Array, y: Array) -> Array:
    s = np.zeros(3)
    for row, v in zip(x, y):  # noqa: B905
        s += row * v
        row[1] = v
    return s


@program(lambda: (floats(20, 3),))
def over_rows_with_numbers(x: Array) -> tuple[Any, ...]:
    s = 0.0
    for i, row in enumerate(x, 2):
        s += row[0] * i
        x[19 - i % 10, 0] = i
    return s, i


@program(lambda: (floats(25),))
def backwards(x: Array) -> Any:
    s = 0.0
    for i in reversed(range(2, 24, 1)):
        x[i] = s
        s += x[i - 1]
    for i in reversed(range(len(x))):
        s = s * 0.5 + x[i]
    for i, (v, w) in enumerate(zip(x[1:], reversed(x))):  # noqa: B905
        s = s * 0.25 + v * w - i
    return s


@program(lambda: (floats(25),), lambda: (np.arange(25, dtype=np.int32),))
def over_elements(x: Array) -> Any:
    s = 0.0
    for v in x:
        if v > 20:
            break
        if v < 0:
            continue
        s += v
    return s


@program(lambda: (floats(25),))
def calls_a_function_of_its_own(x: Array) -> Any:
    def first_sum(v: Array, n: int) -> Any:
        t = 0.0
        for k in range(n):
            t = t * 0.5 + v[k]
            if t > 1.5:
                return t * 2
        return t

    s = 0.0
    for i in range(20):
        s += first_sum(x, 25) * i
    return s


@program(lambda: (floats(20),), lambda: (-abs(floats(20)),))
def reads_a_name_that_dies_in_a_branch(x: Array) -> Array:
    y = x * 2
    if x[0] > 0:
        y = y + 1
        x = x * y
    y = x + 1
    return y


# -- captured step by step -----------------------------------------------------------------------------


@program(lambda: (floats(5),))
def grows(x: Array) -> Array:
    for _ in range(20):
        x = np.concatenate([x, x[:1]])
    return x


@program(lambda: (floats(5),))
def lists(x: Array) -> tuple[Any, ...]:
    seen, items = [], [0] * 20
    for i in range(20):
        x = x * 0.5
        seen.append(x.sum())
        items[i] = x[0]
    return np.array(seen), items[3]


@program(lambda: (np.random.default_rng(3), floats(5)))
def draws(rng: Any, x: Array) -> Array:
    for _ in range(20):
        x = x + rng.random()
    return x


@program(lambda: (floats(20),))
def leaves_with_a_value_that_is_assigned_later(x: Array) -> tuple[Any, ...]:
    y = z = x[0]
    for i in range(6):
        for j in range(20):
            y = x[j] * 2
            z = x[j] + 1
        if i == 3:
            break
        if i % 2:
            continue
        y = z = x[1] + i
    return y, z

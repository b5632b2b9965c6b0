"""Functions of a user of numba or numexpr, in the words of NumPy."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any
Make = Callable[..., Array]

FLOATS = ("float32", "float64")
NUMBERS = ("float32", "float64", "int64", "int32")
ALL = (*NUMBERS, "bool")
INTS = ("int64", "int32")


class Program(NamedTuple):
    function: Callable[..., Any]
    arguments: Callable[[Make, int], tuple[Any, ...]]
    dtypes: tuple[str, ...]


PROGRAMS: dict[str, Program] = {}


def program(
    arguments: Callable[[Make, int], tuple[Any, ...]] = lambda make, n: (make(n),),
    dtypes: tuple[str, ...] = FLOATS,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, arguments, dtypes)
        return function

    return add


def pair(make: Make, n: int) -> tuple[Array, Array]:
    return make(n), make(n)


def table(make: Make, n: int) -> tuple[Array]:
    return (make(n, 3),)


# -- statistics ----------------------------------------------------------------------------------------


@program(dtypes=NUMBERS)
def standardise(a: Array) -> Array:
    return (a - a.mean()) / a.std()


@program(table, NUMBERS)
def column_statistics(a: Array) -> tuple[Array, ...]:
    return a.mean(axis=0), a.std(axis=0, ddof=1), a.max(axis=0), a.min(axis=0), np.ptp(a, axis=0)


@program(dtypes=ALL)
def summary(a: Array) -> tuple[Array, ...]:
    return a.sum(), a.mean(), a.max(), a.min(), a.size, a.argmax(), a.any(), a.all()


@program(pair, NUMBERS)
def correlation(a: Array, b: Array) -> Array:
    p, q = a - np.mean(a), b - np.mean(b)
    return (p * q).sum() / np.sqrt((p**2).sum() * (q**2).sum())


@program()
def skewness(a: Array) -> Array:
    d = a - a.mean()
    return np.mean(d**3) / np.mean(d**2) ** 1.5


@program(lambda make, n: (make(n), abs(make(n)) + 1))
def weighted_mean(a: Array, w: Array) -> tuple[Array, Array]:
    mean = (a * w).sum() / w.sum()
    return mean, np.sqrt((w * (a - mean) ** 2).sum() / w.sum())


@program(dtypes=NUMBERS)
def minmax_scaled(a: Array) -> Array:
    low, high = a.min(), a.max()
    return np.where(high > low, (a - low) / np.maximum(high - low, 1), 0.0)


@program(lambda make, n: (make(n), 0.5), NUMBERS)
def counts_by_threshold(a: Array, threshold: float) -> tuple[Array, ...]:
    above = a > threshold
    return above.sum(), np.count_nonzero(above, axis=0), above.mean(), np.sum(~above), np.where(above, 1, -1)


@program()
def means_without_nan(a: Array) -> tuple[Array, ...]:
    b = np.where(a > 1, np.nan, a)
    return np.nanmean(b), np.nansum(b), np.isnan(b).sum()


# -- probabilities -------------------------------------------------------------------------------------


@program(table)
def softmax(a: Array) -> Array:
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@program(table)
def logsumexp(a: Array) -> Array:
    top = np.max(a, axis=1)
    return top + np.log(np.sum(np.exp(a - top[:, None]), axis=1))


@program(lambda make, n: (make(n), 0.25, 1.5))
def normal_density(x: Array, mean: float, sigma: float) -> Array:
    z = (x - mean) / sigma
    return np.exp(-0.5 * z**2) / (sigma * np.sqrt(2 * np.pi))


@program()
def entropy(a: Array) -> Array:
    p = abs(a) / np.abs(a).sum()
    return -(p * np.log(np.where(p > 0, p, 1))).sum()


@program(dtypes=NUMBERS)
def logistic(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


# -- stencils and windows ------------------------------------------------------------------------------


@program()
def smoothed(a: Array) -> Array:
    out = np.zeros_like(a)
    out[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
    return out


@program(lambda make, n: (make(n, n + 1), 0.1))
def heat_step(u: Array, k: float) -> Array:
    new = u.copy()
    new[1:-1, 1:-1] += k * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return new


@program(lambda make, n: (make(n), 3), FLOATS)
def moving_average(a: Array, width: int) -> Array:
    total = np.cumsum(np.concatenate([np.zeros(1, a.dtype), a]))
    return (total[width:] - total[:-width]) / width


@program(dtypes=NUMBERS)
def differences(a: Array) -> tuple[Array, Array]:
    return np.diff(a), np.diff(a, n=2)


@program(dtypes=NUMBERS)
def neighbours_on_a_ring(a: Array) -> Array:
    return np.roll(a, 1) + np.roll(a, -1) - 2 * a


@program(lambda make, n: (make(n), 0.5))
def trapezoids(y: Array, dx: float) -> Array:
    return np.sum((y[1:] + y[:-1]) * dx / 2)


@program(dtypes=ALL)
def reversed_sums(a: Array) -> Array:
    return np.cumsum(a[::-1])[::-1]


@program(dtypes=NUMBERS)
def running_returns(a: Array) -> tuple[Array, Array]:
    return np.cumsum(a), np.cumprod(1 + a / 100)


# -- geometry ------------------------------------------------------------------------------------------


@program(lambda make, n: (make(n, 2), make(4, 2)), NUMBERS)
def distances(p: Array, q: Array) -> Array:
    return np.sqrt(((p[:, None, :] - q[None, :, :]) ** 2).sum(axis=-1))


@program(lambda make, n: (make(n, 2), make(4, 2)))
def nearest(p: Array, q: Array) -> tuple[Array, Array]:
    d = ((p[:, None] - q) ** 2).sum(-1)
    return d.argmin(axis=1), d.min(axis=1)


@program(lambda make, n: (make(n), make(n), 0.3, -1.2))
def haversine(latitude: Array, longitude: Array, to_latitude: float, to_longitude: float) -> Array:
    a = np.sin((latitude - to_latitude) / 2) ** 2
    b = np.cos(latitude) * np.cos(to_latitude) * np.sin((longitude - to_longitude) / 2) ** 2
    return 2 * 6371.0 * np.arcsin(np.sqrt(a + b))


@program(pair)
def polar(x: Array, y: Array) -> tuple[Array, ...]:
    return np.hypot(x, y), np.arctan2(y, x), np.degrees(np.arctan2(y, x))


@program(table, FLOATS)
def normalised_rows(a: Array) -> Array:
    return a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-6)


@program(pair, NUMBERS)
def outer_products(a: Array, b: Array) -> tuple[Array, ...]:
    return np.outer(a, b), a[:, np.newaxis] + b, np.multiply.outer(a, b).T


@program(lambda make, n: (make(n, 3), make(3, 4), make(4)), FLOATS)
def layer(x: Array, w: Array, b: Array) -> tuple[Array, Array]:
    return np.tanh(x @ w + b), np.dot(b, b)


# -- formulas ------------------------------------------------------------------------------------------


@program(lambda make, n: (abs(make(n)) * 10 + 50, 60.0, 0.02, 0.3, 1.5))
def black_scholes(s: Array, k: float, r: float, sigma: float, t: float) -> tuple[Array, Array]:
    def cumulative(x: Array) -> Array:
        z = 1 / (1 + 0.2316419 * np.abs(x))
        poly = z * (
            0.319381530 + z * (-0.356563782 + z * (1.781477937 + z * (-1.821255978 + z * 1.330274429)))
        )
        tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * poly
        return np.where(x >= 0, 1 - tail, tail)

    d1 = (np.log(s / k) + (r + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
    d2 = d1 - sigma * np.sqrt(t)
    call = s * cumulative(d1) - k * np.exp(-r * t) * cumulative(d2)
    return call, call - s + k * np.exp(-r * t)


@program(lambda make, n: (make(n) / 4, make(n) / 4, 6))
def mandelbrot(re: Array, im: Array, steps: int) -> Array:
    x, y, count = np.zeros_like(re), np.zeros_like(im), np.zeros(re.shape, np.int32)
    for _ in range(steps):
        inside = x * x + y * y <= 4
        x, y = np.where(inside, x * x - y * y + re, x), np.where(inside, 2 * x * y + im, y)
        count += inside
    return count


@program(dtypes=NUMBERS)
def polynomial(x: Array) -> tuple[Array, Array]:
    return 3 * x**3 - 2.5 * x**2 + x - 7, np.polyval([2, -1, 3], x)


@program(lambda make, n: (make(n), 2.0))
def compound(a: Array, rate: float) -> Array:
    rate = rate / 100
    return a * (1 + rate) ** 12 - abs(a) * rate


@program(lambda make, n: (make(n),), NUMBERS)
def clipped_and_masked(a: Array) -> tuple[Array, ...]:
    b = a.copy()
    b[b < 0] = 0
    return b, np.clip(a, -1, 2), a.clip(0, None), np.maximum(a, 1), np.minimum(a, 0.5)


@program(dtypes=FLOATS)
def piecewise(a: Array) -> Array:
    return np.select([a < -1, a < 1], [-a, a**2], default=2 * a - 1)


@program(lambda make, n: (make(n), make(5)))
def interpolated(x: Array, values: Array) -> Array:
    at = np.clip(x + 2, 0, 3.999)
    k = at.astype(np.int64)
    part = at - k
    return values[k] * (1 - part) + values[k + 1] * part


@program(lambda make, n: (make(n) + 1j * make(n),))
def complex_arithmetic(z: Array) -> tuple[Array, ...]:
    return z * (1 + 2j), z.real - z.imag, np.abs(z), z.conj() * z, np.angle(z), z.sum()


# -- integers and bools --------------------------------------------------------------------------------


@program(pair, INTS)
def integer_arithmetic(a: Array, b: Array) -> tuple[Array, ...]:
    return a // 3, a % 4, a // b, a % b, a / 3, a * 2.0, -a, abs(a), a**2, divmod(a, 5)[1]


@program(dtypes=INTS)
def bits(a: Array) -> tuple[Array, ...]:
    return a << 2, a >> 1, a & 6, a | 1, a ^ 5, ~a, (a & 1).astype(bool)


@program(lambda make, n: (make(n) > 0, make(n) > 1), ("float64",))
def truth(a: Array, b: Array) -> tuple[Array, ...]:
    return a & b, a | ~b, a ^ b, a + b, a * 2, np.logical_and(a, b).any(), a.sum(), (a & b).mean()


@program(dtypes=INTS)
def hashed(a: Array) -> Array:
    h = a.astype(np.int64) * 31 + 7
    h = (h ^ (h >> 5)) & 0xFFFF
    return np.where(h % 2 == 0, h // 2, 3 * h + 1)


# -- shapes and new arrays -----------------------------------------------------------------------------


@program(dtypes=ALL)
def shapes(a: Array) -> tuple[Any, ...]:
    return a.shape, a.ndim, len(a), a.T, a[None], a[::-1].copy(), a[1:], a.astype(np.float32), np.tile(a, 2)


@program(dtypes=NUMBERS)
def sampled(a: Array) -> tuple[Array, ...]:
    t = np.linspace(0.0, 1.0, len(a))
    return t * a, np.arange(a.shape[0]) + a, np.sqrt(len(a)) * t, np.full(a.shape, 7), np.eye(3)


@program(table, NUMBERS)
def rearranged(a: Array) -> tuple[Array, ...]:
    x, y, z = a.T
    return np.stack([z, x]), np.concatenate([x, y]), np.hstack([a, a]), np.column_stack([x, z]), a.transpose()


@program(dtypes=FLOATS)
def written_by_parts(a: Array) -> Array:
    out = np.empty((2, len(a)))
    out[0] = a
    out[1, ::2] = 0
    out[1, 1::2] = 1
    out *= 2
    return out


def gauss_nodes(count: int) -> list[float]:
    return [math.cos(math.pi * (k + 0.5) / count) for k in range(count)]


@program(lambda make, n: (make(n), 4))
def quadrature(a: Array, count: int) -> Array:
    total = np.zeros_like(a)
    for node in gauss_nodes(count):
        total += np.exp(-((a * node) ** 2))
    return total * (np.pi / count)

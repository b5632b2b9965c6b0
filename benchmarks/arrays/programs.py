"""NumPy programs as they are written elsewhere: dlc.jit takes them unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any


class Program(NamedTuple):
    """function(*arguments(size)), which may write to its arguments; numba: does numba take it, too?"""

    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    small: int  # sizes: of tests,
    large: int  # and of the benchmark
    numba: bool


PROGRAMS: dict[str, Program] = {}


def program(
    arguments: Callable[[int], tuple[Any, ...]], small: int, large: int, *, numba: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, arguments, small, large, numba)
        return function

    return add


def uniform(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random(shape)


# -- stencils ------------------------------------------------------------------------------------------


@program(lambda n: (uniform(n, n), 0.1, 100), 12, 512)
def heat(u: Array, k: float, steps: int) -> None:
    for _ in range(steps):
        u[1:-1, 1:-1] += k * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])


@program(lambda n: (uniform(n), uniform(n, seed=1), 100), 30, 400_000)
def jacobi(a: Array, b: Array, steps: int) -> None:
    for _ in range(1, steps):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])


@program(lambda n: (uniform(n, n), uniform(n, n, seed=1), 100), 12, 256)
def gray_scott(u: Array, v: Array, steps: int) -> None:
    for _ in range(steps):
        lu = u[:-2, 1:-1] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1] + u[1:-1, 2:] + u[2:, 1:-1]
        lv = v[:-2, 1:-1] + v[1:-1, :-2] - 4 * v[1:-1, 1:-1] + v[1:-1, 2:] + v[2:, 1:-1]
        p, q = u[1:-1, 1:-1], v[1:-1, 1:-1]
        reaction = p * q * q
        p += 0.16 * lu - reaction + 0.06 * (1 - p)
        q += 0.08 * lv + reaction - 0.122 * q


@program(lambda n: ((uniform(n, n) > 0.6).astype(np.int64), 100), 16, 512, numba=False)
def life(z: Array, steps: int) -> None:
    for _ in range(steps):
        n = (
            z[:-2, :-2] + z[:-2, 1:-1] + z[:-2, 2:] + z[1:-1, :-2]
            + z[1:-1, 2:] + z[2:, :-2] + z[2:, 1:-1] + z[2:, 2:]
        )  # fmt: skip
        birth = (n == 3) & (z[1:-1, 1:-1] == 0)
        survive = ((n == 2) | (n == 3)) & (z[1:-1, 1:-1] == 1)
        z[...] = 0
        z[1:-1, 1:-1][birth | survive] = 1


@program(lambda n: (uniform(n, n), 1e-3, 500), 12, 256)
def laplace(p: Array, tolerance: float, most: int) -> int:
    error, steps = 1.0, 0
    while error > tolerance and steps < most:
        old = p.copy()
        p[1:-1, 1:-1] = 0.25 * (old[2:, 1:-1] + old[:-2, 1:-1] + old[1:-1, 2:] + old[1:-1, :-2])
        error = np.abs(p - old).max()
        steps += 1
    return steps


# -- an ocean ------------------------------------------------------------------------------------------


@program(lambda n: (uniform(n, n, 8) * 35, uniform(n, n, 8, seed=1) * 30, uniform(8, seed=2) * 500), 8, 150)
def equation_of_state(s: Array, t: Array, p: Array) -> Array:
    """The density of sea water by salinity, temperature and pressure in bar: UNESCO's polynomials of 1980."""
    root = s * np.sqrt(s)
    water = 999.842594 + t * (
        6.793952e-2 + t * (-9.09529e-3 + t * (1.001685e-4 + t * (-1.120083e-6 + t * 6.536332e-9)))
    )
    surface = (
        water
        + s * (0.824493 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9))))
        + root * (-5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6))
        + 4.8314e-4 * s * s
    )
    bulk = (
        19652.21
        + t * (148.4206 + t * (-2.327105 + t * (1.360477e-2 - t * 5.155288e-5)))
        + s * (54.6746 + t * (-0.603459 + t * (1.09987e-2 - t * 6.167e-5)))
        + root * (7.944e-2 + t * (1.6483e-2 - t * 5.3009e-4))
    )
    first = 3.239908 + t * (1.43713e-3 + t * (1.16092e-4 - t * 5.77905e-7))
    first += s * (2.2838e-3 + t * (-1.0981e-5 - t * 1.6078e-6)) + 1.91075e-4 * root
    second = 8.50935e-5 + t * (-6.12293e-6 + t * 5.2787e-8)
    second += s * (-9.9348e-7 + t * (2.0816e-8 + t * 9.1697e-10))
    return surface / (1 - p / (bulk + p * (first + p * second)))


@program(lambda n: (uniform(n, n, 12), uniform(n, n, 12, seed=1), uniform(n, n, 12, seed=2), 20), 6, 60)
def isoneutral(salt: Array, heat: Array, tracer: Array, steps: int) -> None:
    """Mixing of a tracer along surfaces of equal density and limited slope: the first and the last axis."""
    for _ in range(steps):
        rho = 0.8 * salt - 0.2 * heat
        across = 0.5 * (rho[1:, :, 1:] - rho[:-1, :, 1:] + rho[1:, :, :-1] - rho[:-1, :, :-1])
        down = np.minimum(
            0.5 * (rho[1:, :, 1:] - rho[1:, :, :-1] + rho[:-1, :, 1:] - rho[:-1, :, :-1]), -1e-3
        )
        slope = -across / down
        taper = 0.5 * (1 + np.tanh((0.2 - np.abs(slope)) / 0.05))
        dx = 0.5 * (tracer[1:, :, 1:] - tracer[:-1, :, 1:] + tracer[1:, :, :-1] - tracer[:-1, :, :-1])
        dz = 0.5 * (tracer[1:, :, 1:] - tracer[1:, :, :-1] + tracer[:-1, :, 1:] - tracer[:-1, :, :-1])
        fx = taper * (dx + slope * dz)
        fz = taper * slope * (dx + slope * dz)
        tracer[1:-1, :, 1:-1] += 0.02 * (
            fx[1:, :, :-1] - fx[:-1, :, :-1] + fx[1:, :, 1:] - fx[:-1, :, 1:]
            + fz[:-1, :, 1:] - fz[:-1, :, :-1] + fz[1:, :, 1:] - fz[1:, :, :-1]
        )  # fmt: skip


# -- points and graphs ---------------------------------------------------------------------------------


@program(lambda n: (uniform(n, 3), uniform(n, 3, seed=1), uniform(n, seed=2), 0.01, 50), 8, 300, numba=False)
def bodies(position: Array, velocity: Array, mass: Array, dt: float, steps: int) -> Array:
    energy = np.zeros(steps)
    for k in range(steps):
        d = position[None] - position[:, None]
        r2 = (d**2).sum(axis=-1) + 0.01
        velocity += dt * (d * (mass[None, :, None] / r2[..., None] ** 1.5)).sum(axis=1)
        position += dt * velocity
        energy[k] = 0.5 * (mass * (velocity**2).sum(axis=-1)).sum()
    return energy


@program(lambda n: (uniform(n, n),), 20, 400, numba=False)
def floyd_warshall(path: Array) -> None:
    for k in range(path.shape[0]):
        path[:] = np.minimum(path, path[:, k, None] + path[k])


@program(lambda n: (uniform(n, 2), uniform(5, 2, seed=1), 30), 40, 50_000, numba=False)
def k_means(x: Array, centres: Array, steps: int) -> Array:
    for _ in range(steps):
        nearest = ((x[:, None] - centres[None]) ** 2).sum(axis=-1).argmin(axis=1)
        for k in range(centres.shape[0]):
            mine = nearest == k
            count = mine.sum()
            if count > 0:
                centres[k] = (x * mine[:, None]).sum(axis=0) / count
    return nearest


@program(lambda n: (np.linspace(-2.25, 0.75, n) + 1j * np.linspace(-1.25, 1.25, n)[:, None], 60), 12, 400,
         numba=False)  # fmt: skip
def mandelbrot(c: Array, steps: int) -> tuple[Array, Array]:
    z, count = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for k in range(steps):
        inside = np.abs(z) < 2
        count[inside] = k
        z[inside] = z[inside] ** 2 + c[inside]
    count[count == steps - 1] = 0
    return z, count


# -- along an axis -------------------------------------------------------------------------------------


@program(lambda n: (uniform(n, n) + np.eye(n) * n,), 20, 60)
def lu(a: Array) -> None:
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


@program(lambda n: (np.random.default_rng(0), n, 100), 20, 100_000, numba=False)
def random_walks(rng: np.random.Generator, walks: int, steps: int) -> tuple[Array, Array]:
    path = np.cumsum(rng.normal(size=(steps, walks)), axis=0)
    return path[-1], np.abs(path).max(axis=0)


@program(lambda n: (uniform(n), 0.1), 30, 10_000)
def moving_average(x: Array, alpha: float) -> Array:
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = alpha * x[i] + (1 - alpha) * out[i - 1]
    return out


@program(lambda n: (uniform(n), uniform(n, seed=1) + 2, uniform(n, seed=2), uniform(n, seed=3)), 30, 10_000)
def thomas(a: Array, b: Array, c: Array, d: Array) -> None:
    n = len(d)
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    d[n - 1] /= b[n - 1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]

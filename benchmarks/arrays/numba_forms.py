"""The programs as numba compiles them best: loops over elements, without arrays in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any

FORMS: dict[str, Callable[..., Any]] = {}


def form(function: Callable[..., Any]) -> Callable[..., Any]:
    FORMS[function.__name__] = function
    return function


# -- stencils ------------------------------------------------------------------------------------------


@form
def heat(u: Array, k: float, steps: int) -> None:
    n, m = u.shape
    new = u.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                around = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1]
                new[i, j] = u[i, j] + k * (around - 4 * u[i, j])
        u[:, :] = new


@form
def jacobi(a: Array, b: Array, steps: int) -> None:
    for _ in range(1, steps):
        for i in range(1, len(a) - 1):
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1])
        for i in range(1, len(a) - 1):
            a[i] = 0.33333 * (b[i - 1] + b[i] + b[i + 1])


@form
def gray_scott(u: Array, v: Array, steps: int) -> None:
    n, m = u.shape
    new_u, new_v = u.copy(), v.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                p, q = u[i, j], v[i, j]
                lu = u[i - 1, j] + u[i, j - 1] - 4 * p + u[i, j + 1] + u[i + 1, j]
                lv = v[i - 1, j] + v[i, j - 1] - 4 * q + v[i, j + 1] + v[i + 1, j]
                reaction = p * q * q
                new_u[i, j] = p + (0.16 * lu - reaction + 0.06 * (1 - p))
                new_v[i, j] = q + (0.08 * lv + reaction - 0.122 * q)
        u[:, :] = new_u
        v[:, :] = new_v


@form
def life(z: Array, steps: int) -> None:
    n, m = z.shape
    new = np.zeros_like(z)
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                count = (
                    z[i - 1, j - 1] + z[i - 1, j] + z[i - 1, j + 1] + z[i, j - 1]
                    + z[i, j + 1] + z[i + 1, j - 1] + z[i + 1, j] + z[i + 1, j + 1]
                )  # fmt: skip
                new[i, j] = (count == 3) | ((count == 2) & (z[i, j] == 1))
        z[:, :] = new


@form
def laplace(p: Array, tolerance: float, most: int) -> int:
    n, m = p.shape
    old = p.copy()
    error, steps = 1.0, 0
    while error > tolerance and steps < most:
        error = 0.0
        old[:, :] = p
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                p[i, j] = 0.25 * (old[i + 1, j] + old[i - 1, j] + old[i, j + 1] + old[i, j - 1])
                error = max(error, abs(p[i, j] - old[i, j]))
        steps += 1
    return steps


# -- an ocean ------------------------------------------------------------------------------------------


@form
def equation_of_state(salt: Array, heat: Array, pressure: Array) -> Array:
    out = np.empty_like(salt)
    for i in range(salt.shape[0]):
        for j in range(salt.shape[1]):
            for k in range(salt.shape[2]):
                s, t, p = salt[i, j, k], heat[i, j, k], pressure[k]
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
                out[i, j, k] = surface / (1 - p / (bulk + p * (first + p * second)))
    return out


@form
def isoneutral(salt: Array, heat: Array, tracer: Array, steps: int) -> None:
    n, m, d = tracer.shape
    rho = np.empty_like(tracer)
    fx, fz = np.empty((n - 1, m, d - 1)), np.empty((n - 1, m, d - 1))
    for i in range(n):
        for j in range(m):
            for k in range(d):
                rho[i, j, k] = 0.8 * salt[i, j, k] - 0.2 * heat[i, j, k]
    for _ in range(steps):
        for i in range(n - 1):
            for j in range(m):
                for k in range(d - 1):
                    a, b, c, e = rho[i, j, k], rho[i, j, k + 1], rho[i + 1, j, k], rho[i + 1, j, k + 1]
                    slope = -(0.5 * (e - b + c - a)) / min(0.5 * (e - c + b - a), -1e-3)
                    taper = 0.5 * (1 + np.tanh((0.2 - abs(slope)) / 0.05))
                    a, b = tracer[i, j, k], tracer[i, j, k + 1]
                    c, e = tracer[i + 1, j, k], tracer[i + 1, j, k + 1]
                    flux = taper * (0.5 * (e - b + c - a) + slope * (0.5 * (e - c + b - a)))
                    fx[i, j, k] = flux
                    fz[i, j, k] = slope * flux
        for i in range(1, n - 1):
            for j in range(m):
                for k in range(1, d - 1):
                    x = fx[i, j, k - 1] - fx[i - 1, j, k - 1] + fx[i, j, k] - fx[i - 1, j, k]
                    z = fz[i - 1, j, k] - fz[i - 1, j, k - 1] + fz[i, j, k] - fz[i, j, k - 1]
                    tracer[i, j, k] += 0.02 * (x + z)


# -- points and graphs ---------------------------------------------------------------------------------


@form
def bodies(position: Array, velocity: Array, mass: Array, dt: float, steps: int) -> Array:
    n = len(mass)
    energy = np.zeros(steps)
    for step in range(steps):
        for i in range(n):
            ax = ay = az = 0.0
            for j in range(n):
                x = position[j, 0] - position[i, 0]
                y = position[j, 1] - position[i, 1]
                z = position[j, 2] - position[i, 2]
                r2 = x * x + y * y + z * z + 0.01
                f = mass[j] / (r2 * np.sqrt(r2))
                ax += x * f
                ay += y * f
                az += z * f
            velocity[i, 0] += dt * ax
            velocity[i, 1] += dt * ay
            velocity[i, 2] += dt * az
        total = 0.0
        for i in range(n):
            for k in range(3):
                position[i, k] += dt * velocity[i, k]
                total += mass[i] * velocity[i, k] ** 2
        energy[step] = 0.5 * total
    return energy


@form
def floyd_warshall(path: Array) -> None:
    n = path.shape[0]
    for k in range(n):
        for i in range(n):
            by = path[i, k]
            for j in range(n):
                path[i, j] = min(path[i, j], by + path[k, j])


@form
def k_means(x: Array, centres: Array, steps: int) -> Array:
    n, count = len(x), len(centres)
    nearest = np.zeros(n, np.int64)
    for _ in range(steps):
        sums, counts = np.zeros((count, 2)), np.zeros(count, np.int64)
        for i in range(n):
            best, least = 0, np.inf
            for k in range(count):
                d = (x[i, 0] - centres[k, 0]) ** 2 + (x[i, 1] - centres[k, 1]) ** 2
                if d < least:
                    best, least = k, d
            nearest[i] = best
            sums[best, 0] += x[i, 0]
            sums[best, 1] += x[i, 1]
            counts[best] += 1
        for k in range(count):
            if counts[k] > 0:
                centres[k, 0] = sums[k, 0] / counts[k]
                centres[k, 1] = sums[k, 1] / counts[k]
    return nearest


@form
def mandelbrot(c: Array, steps: int) -> tuple[Array, Array]:
    z, count = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            x = y = 0.0
            last = 0
            for k in range(steps):
                if x * x + y * y >= 4:
                    break
                last = k
                x, y = x * x - y * y + c[i, j].real, 2 * x * y + c[i, j].imag
            z[i, j] = complex(x, y)
            count[i, j] = last if last < steps - 1 else 0
    return z, count


# -- along an axis -------------------------------------------------------------------------------------


@form
def lu(a: Array) -> None:
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            by = a[i, k]
            for j in range(k + 1, n):
                a[i, j] -= by * a[k, j]


@form
def random_walks(rng: np.random.Generator, walks: int, steps: int) -> tuple[Array, Array]:
    at, most = np.zeros(walks), np.zeros(walks)
    for _ in range(steps):
        for i in range(walks):
            at[i] += rng.normal()
            most[i] = max(most[i], abs(at[i]))
    return at, most


@form
def moving_average(x: Array, alpha: float) -> Array:
    out = np.empty_like(x)
    value = out[0] = x[0]
    for i in range(1, len(x)):
        value = alpha * x[i] + (1 - alpha) * value
        out[i] = value
    return out


@form
def thomas(a: Array, b: Array, c: Array, d: Array) -> None:
    n = len(d)
    before, right = b[0], d[0]
    for i in range(1, n):
        w = a[i] / before
        before = b[i] = b[i] - w * c[i - 1]
        right = d[i] = d[i] - w * right
    d[n - 1] = right = right / before
    for i in range(n - 2, -1, -1):
        d[i] = right = (d[i] - c[i] * right) / b[i]

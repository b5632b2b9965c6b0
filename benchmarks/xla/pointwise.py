"""benchmarks/cases/pointwise.py in jax."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import erf, erfinv, logit

__all__ = ["erfinv", "logit"]


def chain(x: Any, y: Any) -> Any:
    return jnp.where(x > 0, jnp.tanh(x) * jax.nn.sigmoid(y), jnp.exp(-jnp.abs(y)) - x)


def fifteen(x: Any, y: Any, z: Any) -> Any:
    a = x * y + z
    b = jax.nn.sigmoid(a) - jnp.abs(x)
    c = jnp.maximum(b, y) * 0.5
    d = jnp.exp(-c * c)
    return jnp.where(d > z, jnp.sqrt(d) + a, jnp.tanh(b)) / (c * c + 1.0)


def cdf(x: Any) -> Any:
    return 0.5 * (1.0 + erf(x * math.sqrt(0.5)))


def black_scholes(spot: Any, strike: Any, years: Any) -> Any:
    deviation = 0.2 * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + 0.05 * years) / deviation
    discounted = strike * jnp.exp(-0.03 * years)
    call = spot * cdf(d1) - discounted * cdf(d1 - deviation)
    return call, call - spot + discounted


def mandelbrot(x: Any, y: Any) -> Any:
    re, im, count = x, y, jnp.zeros_like(x)
    for _ in range(16):
        re, im = re * re - im * im + x, 2 * re * im + y
        count = count + (re * re + im * im < 4)
        re, im = jnp.clip(re, -4, 4), jnp.clip(im, -4, 4)
    return count


def gelu_bias(x: Any, bias: Any) -> Any:
    return jax.nn.gelu(x + bias, approximate=False)


def gelu_residual(x: Any, bias: Any, residual: Any) -> Any:
    return jax.nn.gelu(x + bias, approximate=False) + residual


def swiglu(gate: Any, up: Any) -> Any:
    return jax.nn.silu(gate) * up


def mish(x: Any) -> Any:
    return x * jnp.tanh(jax.nn.softplus(x))


def softplus(x: Any) -> Any:
    return jax.nn.softplus(x)


def sines(x: Any) -> Any:
    return jnp.sin(x) * jnp.cos(x) + jnp.sin(2 * x)


def cartpole(state: Any, force: Any) -> Any:
    x, speed, angle, turning = (state[:, k] for k in range(4))
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (10 * force + 0.05 * turning * turning * sine) / 1.1
    twist = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
    pull = push - 0.05 * twist * cosine / 1.1
    x, angle = x + 0.02 * speed, angle + 0.02 * turning
    after = jnp.stack([x, speed + 0.02 * pull, angle, turning + 0.02 * twist], axis=-1)
    return after, (jnp.abs(x) > 2.4) | (jnp.abs(angle) > 0.2095)


def adam(weight: Any, grad: Any, mean: Any, square: Any) -> Any:
    mean = 0.9 * mean + 0.1 * grad
    square = 0.999 * square + 0.001 * grad * grad
    return weight - 1e-3 * mean / (jnp.sqrt(square) + 1e-8), mean, square


def adam_of_100(*arrays: Any) -> Any:
    steps = zip(*(arrays[k::4] for k in range(4)), strict=True)
    return [adam(*one) for one in steps]

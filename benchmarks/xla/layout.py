"""benchmarks/cases/layout.py in jax."""

from typing import Any

import jax.numpy as jnp


def rotary(x: Any, cosine: Any, sine: Any) -> Any:
    a, b = jnp.split(x, 2, -1)
    return x * cosine[:, None] + jnp.concatenate([-b, a], -1) * sine[:, None]


def transpose_add(x: Any, y: Any) -> Any:
    return x.T + y * 2


def join(x: Any, y: Any, z: Any) -> Any:
    return jnp.maximum(jnp.concatenate([x, y * 2, z + 1], -1), 0)


def concatenate(x: Any, y: Any) -> Any:
    return jnp.maximum(jnp.concatenate([x * 2, y + 1], -1), 0)


def stencil(u: Any) -> Any:
    middle = u[1:-1, 1:-1]
    return middle + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * middle)


def normalise(pictures: Any, mean: Any, deviation: Any) -> Any:
    return (pictures.transpose(0, 3, 1, 2).astype(jnp.float32) / 255 - mean) / deviation

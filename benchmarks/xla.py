"""The functions that XLA:CPU runs, through jax, with jax's own formulas."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor


def jax_functions() -> dict[str, Callable[..., Any]]:
    import jax
    import jax.numpy as jnp

    def chain(x: Any, y: Any) -> Any:
        return jnp.where(
            x > 0, jnp.tanh(x) * jax.nn.sigmoid(y), jnp.exp(-jnp.abs(y)) - x
        )  # fmt: skip

    def fifteen(x: Any, y: Any, z: Any) -> Any:
        a = x * y + z
        b = jax.nn.sigmoid(a) - jnp.abs(x)
        c = jnp.maximum(b, y) * 0.5
        d = jnp.exp(-c * c)
        return jnp.where(d > z, jnp.sqrt(d) + a, jnp.tanh(b)) / (c * c + 1.0)

    def cdf(x: Any) -> Any:
        return 0.5 * (1.0 + jax.scipy.special.erf(x * math.sqrt(0.5)))

    def black_scholes(spot: Any, strike: Any, years: Any) -> Any:
        deviation = 0.2 * jnp.sqrt(years)
        d1 = (jnp.log(spot / strike) + 0.05 * years) / deviation
        discounted = strike * jnp.exp(-0.03 * years)
        call = spot * cdf(d1) - discounted * cdf(d1 - deviation)
        return call, call - spot + discounted

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        d = x - mean
        return d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * weight + bias

    def softmax(x: Any) -> Any:
        return jax.nn.softmax(x, axis=-1)

    def softmax_bias(x: Any, bias: Any) -> Any:
        return jax.nn.softmax(x + bias, axis=-1)

    listed = (chain, fifteen, black_scholes, layer_norm, softmax, softmax_bias)
    return {f.__name__: f for f in listed}


FUNCTIONS = frozenset({"chain", "fifteen", "black_scholes", "layer_norm", "softmax", "softmax_bias"})


def ready(name: str, inputs: tuple[Tensor, ...]) -> Callable[[], Any]:
    """A call of the jitted function that returns when its result is there."""
    import jax

    function = jax.jit(jax_functions()[name])
    arrays = [jax.numpy.asarray(t.numpy()) for t in inputs]

    def call() -> Any:
        return jax.block_until_ready(function(*arrays))

    call()
    return call

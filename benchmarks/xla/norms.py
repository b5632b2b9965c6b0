"""benchmarks/cases/norms.py in jax."""

from typing import Any

import jax
import jax.numpy as jnp


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, axis=-1)


def softmax_bias(x: Any, bias: Any) -> Any:
    return jax.nn.softmax(x + bias, axis=-1)


def cross_entropy(logits: Any, target: Any) -> Any:
    found = jnp.take_along_axis(jax.nn.log_softmax(logits, -1), target[:, None], 1)
    return -found.mean()


def scaled(x: Any, axes: Any, epsilon: float = 1e-5) -> Any:
    """x with mean 0 and variance 1 along the axes."""
    d = x - x.mean(axes, keepdims=True)
    return d * jax.lax.rsqrt((d * d).mean(axes, keepdims=True) + epsilon)


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return scaled(x, -1) * weight + bias


def rms_norm(x: Any, weight: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def batch_norm(x: Any, weight: Any, bias: Any) -> Any:
    return scaled(x, (0, 2)) * weight[:, None] + bias[:, None]


def group_norm(x: Any, weight: Any, bias: Any) -> Any:
    groups = x.reshape(x.shape[0], 8, -1)
    return scaled(groups, -1).reshape(x.shape) * weight[:, None] + bias[:, None]


def causal_softmax(scores: Any) -> Any:
    at = jnp.arange(scores.shape[-1])
    return jax.nn.softmax(jnp.where(at > at[:, None], -jnp.inf, scores), axis=-1)


def mean_of_axis_0(x: Any) -> Any:
    return x.mean(0)


def mean_of_axis_1(x: Any) -> Any:
    return x.mean(1)


def mean_of_axis_2(x: Any) -> Any:
    return x.mean(2)


def var_of_axis_0(x: Any) -> Any:
    return x.var(0, ddof=1)


def var_of_axis_1(x: Any) -> Any:
    return x.var(1, ddof=1)


def var_of_axis_2(x: Any) -> Any:
    return x.var(2, ddof=1)


def norm_of_axis_0(x: Any) -> Any:
    return jnp.linalg.norm(x, axis=0)


def norm_of_axis_1(x: Any) -> Any:
    return jnp.linalg.norm(x, axis=1)


def norm_of_axis_2(x: Any) -> Any:
    return jnp.linalg.norm(x, axis=2)


def argmax(x: Any) -> Any:
    return x.argmax(-1)


def cumsum(x: Any) -> Any:
    return x.cumsum(-1)


def column_sum(x: Any) -> Any:
    return (x * x).sum(0)


def variance(x: Any) -> Any:
    return x.var(-1, ddof=1)


def mean_square_error(x: Any, y: Any) -> Any:
    return ((x - y) ** 2).mean()


def nearest(x: Any, y: Any) -> Any:
    return jnp.sqrt(((x[:, None] - y) ** 2).sum(-1)).min(1)


def embedding_sum(weight: Any, words: Any) -> Any:
    return weight[words].sum(1)

"""Operands to measure at."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

UNARY = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
atanh erf erfc erfinv lgamma sigmoid sqrt rsqrt reciprocal floor ceil trunc round abs""".split()  # noqa: SIM905
BINARY = "atan2 pow hypot fmod".split()  # noqa: SIM905
EXACT = "sqrt floor ceil trunc round abs fmod".split()  # noqa: SIM905
TYPES = {"f32": np.float32, "f64": np.float64}
BITS = {"f32": np.uint32, "f64": np.uint64}
SPECIAL = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 100.0, 1000.0, 1e-30, 1e30, float("inf")]


def edges(dtype: str) -> np.ndarray:
    """Zeros, infinities, a NaN, subnormals, the largest and some round numbers, of both signs."""
    t = TYPES[dtype]
    least, tiny, most = np.nextafter(t(0), t(1)), np.finfo(t).tiny, np.finfo(t).max
    sizes = np.array([least, 3 * least, tiny, tiny - least, most, *SPECIAL], dtype=t)
    return np.concatenate([sizes, -sizes, np.array([np.nan], dtype=t)])


def spread(dtype: str, count: int) -> np.ndarray:
    """Numbers evenly spaced among the bit patterns, the edges, and many of everyday size."""
    step = (1 << (32 if dtype == "f32" else 64)) // count | 1
    patterns = np.array([k * step for k in range(count)], dtype=BITS[dtype]).view(TYPES[dtype])
    rng = np.random.default_rng(7)
    everyday = [
        rng.normal(size=count),
        rng.normal(size=count) * 20,
        rng.uniform(-1, 1, count),
        1 + rng.normal(size=count) * 1e-3,
    ]
    return np.concatenate([patterns, edges(dtype), *(e.astype(TYPES[dtype]) for e in everyday)])


def every_float(step: int, chunk: int = 1 << 20) -> Iterator[np.ndarray]:
    """Every step-th float32 by bit pattern, in chunks."""
    for start in range(0, 1 << 32, step * chunk):
        stop = min(start + step * chunk, 1 << 32)
        count = -(-(stop - start) // step)
        yield (np.arange(count, dtype=np.uint32) * np.uint32(step) + np.uint32(start)).view(np.float32)

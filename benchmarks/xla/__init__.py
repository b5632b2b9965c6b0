"""The same functions in jax, with its own formulas, for XLA:CPU. jax is imported when one is wanted."""

from benchmarks.xla.run import floor, ready

__all__ = ["floor", "ready"]

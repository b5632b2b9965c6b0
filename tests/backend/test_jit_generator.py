"""Generators of NumPy's as arguments of dlc.jit: their stream bit for bit, in the program's order."""

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import _generator

from dlc import CaptureError
from dlc._C import fill_normals
from dlc.arrays.draws import _METHODS
from tests.backend.jitted import jit
from tests.fresh import run

X = np.arange(1.0, 7.0)
DRAWS = (
    "rng.random()", "rng.random(3)", "rng.random(x.shape, dtype=np.float32)",
    "rng.random(dtype=np.float32)", "rng.normal()", "rng.normal(2.0, 0.5, size=(2, len(x)))",
    "rng.normal(x, 2.0)", "rng.normal(x[0], size=x.shape)", "rng.normal(loc=x)",
    "rng.standard_normal((3, 4))", "rng.standard_normal(4, np.float32)", "rng.uniform(0, x)",
    "rng.integers(5)", "rng.integers(0, 10, size=x.shape[0])", "rng.integers(3, size=4, dtype=np.int8)",
    "rng.integers(0, 3, 5, endpoint=True)", "rng.integers(x.astype(int))", "rng.exponential(x)",
    "rng.standard_exponential(5, method='inv')", "rng.gamma(2.0, x)", "rng.standard_gamma(x)",
    "rng.beta(x, 2.0)", "rng.chisquare(3.0, 2)", "rng.noncentral_chisquare(3.0, x)", "rng.f(2.0, x)",
    "rng.noncentral_f(2.0, 3.0, x)", "rng.gumbel(x)", "rng.laplace(x, 2.0)", "rng.logistic(x)",
    "rng.lognormal(0.0, x)", "rng.pareto(x)", "rng.power(x)", "rng.rayleigh(x)", "rng.standard_cauchy(3)",
    "rng.standard_t(x)", "rng.vonmises(x, 2.0)", "rng.triangular(0.0, x, 9.0)", "rng.wald(x, 2.0)",
    "rng.weibull(x)", "rng.binomial(10, 0.5, 3)", "rng.geometric(1 / x)",
    "rng.hypergeometric(5, 5, 3, size=4)", "rng.logseries(1 / (x + 1))", "rng.poisson(x)",
    "rng.negative_binomial(3, 1 / x)", "rng.zipf(x + 1)", "rng.poisson(3.0, size=())",
    "rng.dirichlet([1, 2.0, 3])", "rng.dirichlet(x, size=2)",
    "rng.multivariate_normal([0, 1], np.eye(2), size=4)", "rng.multivariate_normal(x, np.eye(len(x)))",
    "rng.multinomial(5, [0.5, 0.5], size=2)", "rng.multinomial([5, 6], [0.5, 0.5])",
    "rng.multivariate_hypergeometric([5, 6, 7], 4, size=2)", "rng.choice(x)", "rng.choice(x, 3)",
    "rng.choice(x, 3, replace=False)", "rng.choice(len(x), (2, 2))",
    "rng.choice(5, size=3, p=[0.1, 0.2, 0.3, 0.2, 0.2])", "rng.choice([1, 2, 3], 4)",
    "rng.choice(x.reshape(2, 3), 2, axis=1)", "rng.permutation(x)", "rng.permutation(len(x))",
    "rng.permutation(x.reshape(2, 3), axis=1)", "rng.permuted(x.reshape(2, 3), axis=1)",
    "rng.random(out=np.empty_like(x))", "rng.shuffle(x.copy())",
)  # fmt: skip


def same(have: Any, want: Any) -> None:
    assert type(have) is type(want)
    if isinstance(want, tuple):
        for pair in zip(have, want, strict=True):
            same(*pair)
        return
    assert np.asarray(have).dtype == np.asarray(want).dtype
    np.testing.assert_array_equal(have, want)


def check(function: Callable[..., Any], *args: Any) -> None:
    fast = jit(function)
    for seed in (0, 1):
        ours, numpys = np.random.default_rng(seed), np.random.default_rng(seed)
        for _ in range(2):
            want = function(numpys, *copy.deepcopy(args))
            same(fast(ours, *args), want)
            assert ours.bit_generator.state == numpys.bit_generator.state


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("draw", DRAWS)
def test_draw(draw: str) -> None:
    check(eval(f"lambda rng, x: {draw}", {"np": np}), X)


def test_every_draw_is_here() -> None:
    assert not [name for name in _METHODS if f"rng.{name}(" not in " ".join(DRAWS)]


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_normal_numbers_have_the_bits_of_numpys(bits: str) -> None:
    """So many that all layers of the ziggurat and its tail come up, for dlc draws them itself."""

    def draws(rng: Any, loc: float) -> Any:
        plain = rng.standard_normal((1000, 400))
        return plain, rng.normal(loc, 3, size=300_000), rng.normal(size=70, scale=0.1), rng.random(3)

    ours, numpys = (np.random.Generator(getattr(np.random, bits)(5)) for _ in range(2))
    have, want = jit(draws)(ours, -1.7), draws(numpys, -1.7)
    for one, other in zip(have, want, strict=True):
        np.testing.assert_array_equal(one.view(np.int64), other.view(np.int64))
    generator = np.random.Generator(getattr(np.random, bits)(5))
    made = np.empty(1000)
    assert fill_normals(_generator.__file__, generator.bit_generator.capsule, made, -0.0, 1.0)
    np.testing.assert_array_equal(made, want[0].ravel()[:1000])


def test_normal_numbers_of_a_library_that_has_none() -> None:
    """Another NumPy than is known: the array is as it was, and so is the generator."""
    script = """
        import math, numpy as np
        from dlc._C import fill_normals

        rng, made = np.random.default_rng(1), np.zeros(3)
        assert not fill_normals(math.__file__, rng.bit_generator.capsule, made, 0.0, 1.0)
        assert not made.any() and rng.random() == np.random.default_rng(1).random()
    """
    done = run(script)
    assert done.returncode == 0, done.stderr


def test_draws_keep_their_order_and_none_is_left_out() -> None:
    def walk(rng: Any, x: Any) -> Any:
        first = rng.random()
        rng.normal(size=3)  # its numbers are not used
        a, b = rng.random(3), rng.random(3)  # alike, but drawn twice
        y = x.copy()
        rng.shuffle(y)
        for _ in range(3):
            y = y + rng.standard_normal(y.shape)
        return first * 2, a, b, y, rng.integers(9, size=2)

    check(walk, X)


def test_only_a_generator() -> None:
    check(lambda rng, n: rng.normal(size=n) * 2, 5)
    check(lambda rng, s: rng.normal(s) * 2, 0.5)


def test_sizes_cost_no_compile(compiles: Callable[[], int]) -> None:
    fast = jit(lambda rng, x: x + rng.normal(size=len(x)))
    rng = np.random.default_rng(0)
    fast(rng, X)
    count = compiles()
    for n in (3, 5, 9):
        state = copy.deepcopy(rng)
        np.testing.assert_array_equal(fast(rng, np.ones(n)), 1 + state.normal(size=n))
    fast(np.random.default_rng(1), X)
    assert compiles() == count


def test_one_generator_given_twice() -> None:
    def f(r: Any, s: Any) -> Any:
        return r.random(3), s.random(3), r.random(3)

    ours, numpys = np.random.default_rng(3), np.random.default_rng(3)
    same(jit(f)(ours, ours), f(numpys, numpys))
    same(jit(f)(ours, np.random.default_rng(4)), f(numpys, np.random.default_rng(4)))


def test_other_bit_generators() -> None:
    ours, numpys = (np.random.Generator(np.random.MT19937(5)) for _ in range(2))
    same(jit(lambda rng: rng.normal(size=4))(ours), numpys.normal(size=4))


def test_an_error_leaves_the_draws_before_it() -> None:
    """As in NumPy."""

    def f(rng: Any, x: Any) -> Any:
        return rng.random(2), rng.normal(0.0, x)

    fast, ours, numpys = jit(f), np.random.default_rng(0), np.random.default_rng(0)
    same(fast(ours, X), f(numpys, X))
    with pytest.raises(ValueError, match="scale < 0"):
        fast(ours, -X)
    with pytest.raises(ValueError, match="scale < 0"):
        f(numpys, -X)
    assert ours.bit_generator.state == numpys.bit_generator.state


def test_threads_draw_from_their_own() -> None:
    fast = jit(lambda rng, x: x + rng.normal(size=x.shape))
    fast(np.random.default_rng(9), X)
    found: dict[int, Any] = {}

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        found[seed] = [fast(rng, X) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        rng = np.random.default_rng(seed)
        for have in found[seed]:
            np.testing.assert_array_equal(have, X + rng.normal(size=X.shape))


def test_in_another_function() -> None:
    noise = jit(lambda rng, x: x + rng.normal(size=x.shape))
    check(lambda rng, x: noise(rng, x) * rng.random(), X)


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "an int": (lambda rng, x: rng.poisson(3.0), r"rng.poisson\(..\) gives an int of Python's .*size=1"),
    "a choice": (lambda rng, x: rng.choice(5), r"rng.choice\(n\) gives an int of Python's .*size=1"),
    "spawn": (lambda rng, x: rng.spawn(2), "it reads .spawn of a generator"),
    "its state": (lambda rng, x: rng.bit_generator.state, "it reads .bit_generator of a generator"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_line(name: str) -> None:
    function, message = REFUSED[name]
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    with pytest.raises(CaptureError, match=message) as raised:
        jit(function)(rng, X)
    assert f"test_jit_generator.py:{function.__code__.co_firstlineno}" in str(raised.value)
    assert rng.bit_generator.state == before


def test_it_is_not_returned_and_does_not_meet_tensors() -> None:
    with pytest.raises(CaptureError, match="it returns an object of type Generator"):
        jit(lambda rng: rng)(np.random.default_rng(0))
    with pytest.raises(TypeError, match="'rng' is a generator of NumPy's and argument 'x' a tensor"):
        jit(lambda rng, x: x)(np.random.default_rng(0), torch.ones(3))

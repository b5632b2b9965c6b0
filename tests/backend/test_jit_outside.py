"""dlc.jit and what lies outside of the function: objects of methods, hidden state, other processes."""

import datetime
import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import gauss
from typing import Any

import numpy as np
import pytest
import torch

import dlc
from dlc import CaptureError
from tests.backend.jitted import jit

X = torch.arange(3.0)


# -- methods -------------------------------------------------------------------------------------------


class Unit:
    shift = 1.0

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.weight = torch.ones(3)
        self.count = 0

    @property
    def twice(self) -> float:
        return self.scale * 2

    def plain(self, x: Any, /, *, k: float = 1.0) -> Any:
        return x * self.scale * k + self.shift

    def through(self, x: Any) -> Any:
        return self.plain(x) * self.twice + self.fixed(x) + self.of_class(x) + (lambda y: y * self.scale)(x)

    @staticmethod
    def fixed(x: Any) -> Any:
        return x * 2

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x + cls.shift

    def reads_tensor(self, x: Any) -> Any:
        return x * self.weight

    def gives_itself_away(self, x: Any) -> Any:
        return of_unit(self, x)

    def counts(self, x: Any) -> Any:
        self.count += 1
        return x

    def takes_chances(self, x: Any) -> Any:
        return self.by_chance(x)

    def by_chance(self, x: Any) -> Any:
        return x * random.random()


def of_unit(unit: Unit, x: Any) -> Any:
    return x * unit.scale


@pytest.mark.parametrize("x", [X, X.numpy()], ids=["tensor", "array"])
@pytest.mark.parametrize("name", ["plain", "through", "fixed", "of_class"])
def test_bound_methods(name: str, x: Any) -> None:
    a, b = Unit(2.0), Unit(3.0)
    for unit in a, b, a:
        method = getattr(unit, name)
        assert (jit(method)(x) == method(x)).all()


def test_keywords_of_a_bound_method() -> None:
    unit = Unit(2.0)
    fast = jit(unit.plain)
    assert torch.equal(fast(X, k=3.0), unit.plain(X, k=3.0))
    with pytest.raises(TypeError, match=r"plain\(\)"):
        fast(X, 3.0)


@pytest.mark.parametrize("name", ["plain", "through"])
def test_an_attribute_that_changes(name: str) -> None:
    unit = Unit(2.0)
    fast = jit(getattr(unit, name))
    fast(X)
    unit.scale = 5.0
    with pytest.raises(RuntimeError, match="reads 'scale', which has another value"):
        fast(X)
    unit.scale = 2.0
    fast(X)
    unit.shift = 4.0  # hides the attribute of the class
    with pytest.raises(RuntimeError, match="reads 'shift'"):
        fast(X)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reads_tensor", "'self.weight', a tensor"),
        ("gives_itself_away", "'self', a Unit"),
        ("counts", "'self', a Unit"),
    ],
)
def test_what_a_bound_method_may_not_read(name: str, said: str) -> None:
    unit = Unit(2.0)
    with pytest.raises(TypeError, match=f"reads {said}"):
        jit(getattr(unit, name))(X)
    assert torch.equal(jit(getattr(unit, name), constants=True)(X), getattr(unit, name)(X))


# -- hidden state --------------------------------------------------------------------------------------


def by_random(x: Any) -> Any:
    return x * random.random()


def by_name(x: Any) -> Any:
    return x * gauss(0, 1)


def by_numpy(x: Any) -> Any:
    return x * np.random.rand()


def by_alias(x: Any) -> Any:
    r = np.random
    return x * r.default_rng(0).normal()


def by_clock(x: Any) -> Any:
    return x * time.perf_counter()


def by_date(x: Any) -> Any:
    return x * datetime.datetime.now().hour


def by_environment(x: Any) -> Any:
    return x * int(os.environ.get("TEST_SCALE", "2"))


def by_variable(x: Any) -> Any:
    return x * int(os.getenv("TEST_SCALE", "2"))


def by_file(x: Any) -> Any:
    with open(__file__) as file:
        return x * len(file.read())


def by_import(x: Any) -> Any:
    from random import uniform as draw

    return x * draw(0, 1)


def by_another(x: Any) -> Any:
    return by_random(x) + 1


HIDDEN: list[Callable[[Any], Any]] = [
    *(by_random, by_name, by_numpy, by_alias, by_clock, by_date, by_environment, by_variable, by_file),
    *(by_import, by_another),
]


@pytest.mark.parametrize("x", [X, X.numpy()], ids=["tensor", "array"])
@pytest.mark.parametrize("function", HIDDEN, ids=lambda f: f.__name__)
def test_hidden_state_is_refused_with_the_line(function: Callable[[Any], Any], x: Any) -> None:
    before = random.getstate(), repr(np.random.get_state())
    for constants in False, True:
        with pytest.raises(CaptureError, match=r"reads .* \(.*test_jit_outside.py:\d+\)"):
            jit(function, constants=constants)(x)
    assert (random.getstate(), repr(np.random.get_state())) == before


def test_hidden_state_of_a_method() -> None:
    with pytest.raises(CaptureError, match=r"reads random.random \(.*test_jit_outside.py"):
        jit(Unit(2.0).takes_chances)(X)


def test_generators_that_are_reached_otherwise() -> None:
    class Noise:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)

        def add(self, x: Any) -> Any:
            return x + self.rng.normal()

    noise, table = Noise(), {"draw": random.random}
    before = noise.rng.bit_generator.state, random.getstate()
    with pytest.raises(CaptureError, match=r"add\(\) cannot be compiled: it draws from Generator"):
        jit(noise.add, constants=True)(X)
    with pytest.raises(CaptureError, match="it draws from Random"):
        jit(lambda x: x * table["draw"](), constants=True)(X)
    assert (noise.rng.bit_generator.state, random.getstate()) == before


def test_random_operators_of_torch_are_calls() -> None:
    fast = jit(lambda x: x + torch.rand(3))
    assert not np.array_equal(fast(np.zeros(3)), fast(np.zeros(3)))


# -- many variants -------------------------------------------------------------------------------------


def warned(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[str]:
    fast = jit(function)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for args in calls:
            fast(*args)
    assert all(w.filename == __file__ for w in seen if w.category is RuntimeWarning)
    return [str(w.message) for w in seen if w.category is RuntimeWarning]


def test_a_warning_once_where_each_call_is_compiled() -> None:
    def f(x: Any, n: Any) -> Any:
        return x * n if isinstance(n, int) else x

    (said,) = warned(f, [(X, n) for n in range(40)])
    assert "compiled for 16 values of its argument 'n', an int" in said
    (said,) = warned(f, [(X, f"t{n}") for n in range(20)])
    assert "a constant of type str" in said
    (said,) = warned(lambda x, s: x if s > 0 else -x, [(X, n / 4) for n in range(20)])
    assert "a float by which it decides" in said
    assert not warned(f, [(X, n) for n in range(15)] * 2)
    assert not warned(lambda x, s: x * s, [(X, n / 4) for n in range(20)])


@pytest.mark.in_turn(3)
def test_a_warning_where_variants_are_forgotten() -> None:
    shapes = [tuple(1 + (k >> b & 1) for b in range(7)) for k in range(70)]
    (said,) = warned(lambda x: x + 1, [(torch.ones(shape),) for shape in shapes])
    assert "in more than 64 variants" in said


# -- other processes -----------------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy as np
import dlc

@dlc.jit(tier="tcc")
def half(x):
    return np.sqrt(x) / 2

@dlc.jit(tier="tcc")
def twice(x):
    return half(x) * 4

def same(f):
    return f

def compiled(f, x):
    f(x)
    return dlc.counters()["graphs"]

if __name__ == "__main__":
    x = [np.arange(4.0), np.arange(9.0), np.arange(5.0)]
    want = [np.sqrt(a) * 2 for a in x]
    if sys.argv[1] == "spawn":
        import multiprocessing
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            have = pool.map(twice, x)
            assert pool.apply(same, (half,)) is half
    else:
        import joblib
        parallel = joblib.Parallel(n_jobs=2)
        have = parallel(joblib.delayed(twice)(a) for a in x)
        local = dlc.jit(lambda a: a + 1, tier="tcc")
        more = parallel(joblib.delayed(local)(a) for a in x)
        assert [a.tolist() for a in more] == [(a + 1).tolist() for a in x]
        counts = parallel(joblib.delayed(compiled)(half, a) for a in x * 4)
        assert max(counts) <= 3, counts  # one of each function in a process
    assert all(np.array_equal(a, b) for a, b in zip(have, want, strict=True))
    print("right")
"""


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("way", ["spawn", "joblib"])
def test_functions_of_a_script(way: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([os.path.dirname(os.path.dirname(dlc.__file__)), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), way],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout.strip() == "right", done.stderr[-3000:]

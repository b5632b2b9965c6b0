"""Mistakes of a newcomer: each message says what is wrong and what to write, at the user's line."""

import functools
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import dlc
from tests.fresh import run

THREE, ROWS = torch.ones(3), torch.ones(3, 4)
PRODUCT = "C[m,n] = sum[k] A[m,k] * B[k,n]"


class Mistake(NamedTuple):
    do: Callable[[], Any]
    why: str  # the reason, as a pattern,
    fix: str  # and what to write instead


def called(fn: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], Any]:
    return lambda: dlc.jit(fn, **options)(*args)  # here: the call


def makes_an_array(x: Any) -> Any:
    return torch.from_numpy(x.numpy() + 1)  # here


def branches(x: Any) -> Any:
    kept: list[Any] = []
    if x.sum() > 0:  # here
        kept.append(x)
    return x * len(kept)


def asks_for_a_number(x: Any) -> Any:
    return x * float(x.max())  # here


def writes(x: Any, y: Any) -> Any:
    x.add_(y)  # here
    return x


def adds(x: Any, y: Any) -> Any:
    return x + y


def finds_eigenvalues(x: Any) -> Any:
    return np.linalg.eigvals(x)  # here


def reads_elsewhere(x: Any) -> Any:
    return x + THREE


def takes_any(*args: Any) -> Any:
    return args[0]


def looks_up(x: Any, i: Any) -> Any:
    return x[i] + 1  # here


def yields(x: Any) -> Any:
    yield x


def reshapes_a_part(x: Any) -> Any:
    return x[x > 0].reshape(2, -1)


class Scale:
    def __call__(self, x: Any) -> Any:
        return 2 * x


class Decorated:
    @dlc.jit
    def half(self, x: Any) -> Any:
        return x / 2


class Bound:
    def __init__(self) -> None:
        self.scale = 3.0
        self.times = dlc.jit(self.times)  # type: ignore[method-assign]

    def times(self, x: Any) -> Any:
        return x * self.scale


def test_what_is_said_of_a_method_is_right() -> None:
    torch.testing.assert_close(Bound().times(THREE), THREE * 3)


def compiled(**keywords: Any) -> Any:
    return torch.compile(adds, backend="dlc", **keywords)(THREE, THREE)  # here: the call


def kernel(*args: Any, text: str = PRODUCT) -> Any:
    return dlc.kernel(text)(*args)  # here: the call


MISTAKES = {
    "an array of a tensor": Mistake(
        called(makes_an_array, THREE), "makes a NumPy array", "torch's functions"
    ),
    "a branch on data": Mistake(called(branches, THREE), "decides by the values of a tensor", "torch.where"),
    "a number of data": Mistake(
        called(asks_for_a_number, THREE), "by the values of a tensor", "torch.compile"
    ),
    "a branch on an array": Mistake(called(branches, np.ones(3)), "by the values of an array", r"np\.where"),
    "no compiled form": Mistake(called(finds_eigenvalues, np.eye(3)), "eigvals of real numbers", "astype"),
    "an array of objects": Mistake(
        called(adds, np.array(["a", None]), 1), "'x' is an array of dtype object", "takes dense tensors"
    ),
    "a list": Mistake(called(adds, [THREE], 1), "'x' is of type list", "constants=True"),
    "array and tensor": Mistake(
        called(adds, np.ones(3), THREE), "'x' is a NumPy array and .* tensor", "give all as"
    ),
    "a sparse tensor": Mistake(
        called(adds, torch.eye(3).to_sparse(), 1), "'x' is a tensor of the layout", r"\.to_dense\(\)"
    ),
    "a write": Mistake(called(writes, THREE, THREE), "writes to its argument 'x'", "copy of x or of y"),
    "a global tensor": Mistake(
        called(reads_elsewhere, THREE), "reads 'THREE', a tensor", "pass it as an argument"
    ),
    "any arguments": Mistake(
        called(takes_any, THREE), r"any number of arguments \(\*args", "needs them named"
    ),
    "a training module": Mistake(
        lambda: dlc.jit(nn.Dropout())(THREE), "is in training mode", r"call model\.eval\(\)"
    ),
    "an option": Mistake(
        lambda: compiled(options={"freez": True}), "unknown dlc option", "did you mean 'freeze'"
    ),
    "options by name": Mistake(lambda: compiled(options="freeze"), "options is a dict", "{'freeze': True}"),
    "a dtype": Mistake(
        lambda: kernel(ROWS.to(torch.float8_e5m2), ROWS.T), "'A' is of torch.float8_e5m2", r"\.float\(\)"
    ),
    "a program": Mistake(
        lambda: dlc.ir.parse("fn f(x: f32[3]) -> (f32[3]) { ret x }"), "expected 'dlc 1 graph'", "first line"
    ),
    "a mode": Mistake(lambda: compiled(mode="max-autotun"), "unknown mode", "the modes are .*max-autotune"),
    "an index out of range": Mistake(
        lambda: torch.compile(looks_up, backend="dlc")(THREE, torch.tensor([9])), "out of range", ""
    ),
    "a text": Mistake(
        lambda: kernel(text="C[m] = A[m,k]"), "'k' is neither on the left nor", r"write .*sum\[k\]"
    ),
    "axes": Mistake(lambda: kernel(THREE, ROWS), "'A' has 1 axes", "by 2 indices; reshape it"),
    "sizes": Mistake(lambda: kernel(ROWS, ROWS), "axis 1 of 'A' has size 4", "arguments need size 3"),
    "an argument less": Mistake(lambda: kernel(ROWS), "takes the arguments A, B", "missing B"),
    "lists": Mistake(lambda: kernel([[1.0]], [[1.0]]), "'A' is a list", r"np\.array"),
    "an array of text": Mistake(
        lambda: kernel(np.array(["1"]), text="C[m] = A[m]"), "dtype <U1", r"astype\(np\.float32\)"
    ),
    "a result": Mistake(
        lambda: dlc.explain(THREE.sin()), "a function .*, not a tensor", r"dlc\.explain\(f, x\)"
    ),
    "an object": Mistake(called(Scale(), THREE), "an object of type Scale", r"dlc\.jit\(obj\.__call__\)"),
    "an object in C": Mistake(
        called(functools.partial(adds, y=1), THREE), "of type partial", "a function that calls adds"
    ),
    "a builtin": Mistake(called(torch.sin, THREE), "sin, which is compiled code", r"lambda x: sin\(x\)"),
    "a class": Mistake(called(Scale, THREE), "the class Scale", "its methods"),
    "a call": Mistake(lambda: dlc.jit(THREE.sin()), "a value of type Tensor", r"dlc\.jit\(f\)\(x\)"),
    "compiled already": Mistake(
        called(torch.compile(adds), THREE, 1), "adds is what torch.compile returned", "the function itself"
    ),
    "of dlc.jit already": Mistake(called(dlc.jit(adds), THREE, 1), "dlc.jit has made already", "as it is"),
    "a decorated method": Mistake(
        lambda: Decorated().half(THREE), "'self' is of type Decorated", r"self\.f = dlc\.jit\(self\.f\)"
    ),
    "a generator": Mistake(called(yields, THREE), "an object of type generator", "return tensors, numbers"),
    "a shape of data": Mistake(called(reshapes_a_part, ROWS), "a size that depends on data", "outside of"),
    "no text": Mistake(lambda: dlc.kernel(adds), "takes a text .*, not adds", r"dlc\.jit compiles functions"),  # type: ignore[arg-type]
    "einsum": Mistake(lambda: kernel(text="mk,kn->mn"), "expected '='", r"C\[m,n\] = sum\[k\]"),
    "a power": Mistake(lambda: kernel(text="y[i] = x[i]^2"), "nowhere in the language", r"\*\* is the power"),
    "an edge": Mistake(
        lambda: kernel(text="y[i] = x[i-1] reflect"), "'reflect' begins no line", "zero, clamp and wrap"
    ),
    "seconds": Mistake(lambda: dlc.wait("a minute"), "number of seconds", "or None"),  # type: ignore[arg-type]
    "no tuple": Mistake(lambda: dlc.save_repro(adds, THREE, "none"), "args is a tuple", r"\(x,\) is one"),
}  # fmt: skip


def own_lines(error: BaseException) -> list[str]:
    """The lines of this file in the traceback."""
    rows = traceback.extract_tb(error.__traceback__)
    return [row.line or "" for row in rows if row.filename == __file__]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_line_reason_and_fix(name: str) -> None:
    mistake = MISTAKES[name]
    torch._dynamo.reset()
    with pytest.raises(Exception) as caught:
        mistake.do()
    said = str(caught.value)
    assert re.search(mistake.why, said), said
    assert re.search(mistake.fix, said), said
    assert not re.search(r"\bdlc/\w+\.py|report an issue", said), said
    named = re.search(re.escape(Path(__file__).name) + r":(\d+)", said)
    if named:
        assert "# here" in Path(__file__).read_text().splitlines()[int(named[1]) - 1]
    else:
        assert own_lines(caught.value), "the user's line is in the traceback"


def test_a_function_of_dlc_jit_is_part_of_a_graph(compiler: Callable[..., Any]) -> None:
    @dlc.jit
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    graphs = dlc.counters()["graphs"]
    f = compiler(lambda x: inner(x) * 2, fullgraph=True)
    torch.testing.assert_close(f(ROWS), (ROWS.sin() + 1) * 2)
    assert dlc.counters()["graphs"] == graphs + 1


def test_a_print_of_a_captured_function_is_said() -> None:
    def prints(x: Any) -> Any:
        print("a line")  # here
        return x + 1

    with pytest.warns(UserWarning, match=r"prints \(.*:\d+\), .* return what is to be printed") as caught:
        dlc.jit(prints)(THREE)
    (said,) = [str(w.message) for w in caught if "prints (" in str(w.message)]
    line = int(said.split(f"{Path(__file__).name}:")[1].split(")")[0])
    assert "# here" in Path(__file__).read_text().splitlines()[line - 1]
    assert caught[0].filename == __file__


@pytest.mark.in_turn(3)
def test_a_function_without_tensors_is_said() -> None:
    said = str(dlc.explain(lambda x: 3, THREE))
    assert Path(__file__).name in said and "computes with no tensor" in said


@pytest.mark.in_turn(3)
def test_without_a_home_one_line_says_that_nothing_is_kept(tmp_path: Path) -> None:
    script = """
        import torch
        for k in range(2):
            f = torch.compile(lambda x: x + k, backend="dlc")
            f(torch.ones(3))
    """
    none = {"HOME": "/proc/none", "XDG_CACHE_HOME": "", "DLC_CACHE_DIR": ""}
    done = run(script, **none)
    lines = [line for line in done.stderr.splitlines() if "keeps no kernels" in line]
    assert done.returncode == 0 and len(lines) == 1, done.stderr
    assert "DLC_CACHE_DIR" in lines[0]


def test_a_warning_is_at_the_users_line() -> None:
    torch._dynamo.reset()
    f = torch.compile(lambda z: z.mul_(2), backend="dlc")
    with pytest.warns(dlc.EagerGraphWarning) as caught:
        f(torch.randn(4, dtype=torch.complex64).conj())  # here
    line = Path(caught[0].filename).read_text().splitlines()[caught[0].lineno - 1]
    assert caught[0].filename == __file__ and "# here" in line

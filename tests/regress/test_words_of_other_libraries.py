"""Texts of dlc.kernel with words of other libraries: the message says what to write, and that is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import dlc

X, Z = torch.linspace(-30, 30, 61, dtype=torch.float64), torch.linspace(-2, 3, 61, dtype=torch.float64)
PLACE = re.compile(r"kernel:\d+:\d+: there is no function '(\w+)': write (.*)")

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "relu": F.relu, "relu6": F.relu6, "leaky_relu": F.leaky_relu, "elu": F.elu, "hardtanh": F.hardtanh,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "silu": F.silu, "swish": F.silu,
    "softplus": F.softplus, "logsigmoid": F.logsigmoid, "softsign": F.softsign, "mish": F.mish,
    "gelu": F.gelu, "expit": torch.special.expit, "square": torch.square, "sqr": torch.square,
    "cube": lambda x: x**3, "cbrt": lambda x: x.sign() * x.abs() ** (1 / 3), "inv": torch.reciprocal,
    "absolute": torch.abs, "fabs": torch.abs, "sgn": torch.sign, "frac": torch.frac, "rint": torch.round,
    "mod": torch.remainder, "floor_divide": torch.floor_divide, "divide": torch.div,
    "multiply": torch.mul, "subtract": torch.sub, "arctan": torch.atan, "arctan2": torch.atan2,
    "arcsinh": torch.asinh, "isfinite": torch.isfinite, "heaviside": torch.heaviside,
    "float32": lambda x: x.float(), "double": torch.Tensor.double, "half": torch.Tensor.half,
    "int32": torch.Tensor.int, "int64": torch.Tensor.long,
}  # fmt: skip
TWO = {"mod", "floor_divide", "divide", "multiply", "subtract", "arctan2", "heaviside"}


def said(text: str) -> str:
    with pytest.raises(dlc.ParseError) as caught:
        dlc.kernel(text)
    return str(caught.value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_to_write_is_that_function(name: str) -> None:
    operands = ["x[i]", "z[i]"] if name in TWO else ["x[i]"]
    found = PLACE.match(said(f"y[i] = {name}({', '.join(operands)})"))
    assert found and found[1] == name
    words = {"a": "x[i]", "b": "z[i]"}
    text = re.sub(r"\b[ab]\b", lambda m: words[m[0]], found[2])
    args = [X, Z][: len(operands)]
    torch.testing.assert_close(dlc.kernel(f"y[i] = {text}")(*args), FUNCTIONS[name](*args))


def of_lines(text: str, name: str = "y[i]") -> str:
    """The lines that a message has in one: E[i] = .., and in the next line .."""
    first, _, second = text.partition(", and in the next line ")
    return f"{first}\n{name} = {second}"


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_softmax(name: str) -> None:
    found = PLACE.match(said(f"y[i] = {name}(x[i])"))
    assert found
    torch.testing.assert_close(dlc.kernel(of_lines(found[2]))(X), getattr(torch, name)(X, -1))
    found = re.search(r"no reduction 'softmax': write (.*); the reductions", said("y[i] = softmax[i] x[i]"))
    assert found
    torch.testing.assert_close(dlc.kernel(of_lines(found[1]))(X), torch.softmax(X, -1))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "norm": torch.linalg.norm,
    "count": torch.count_nonzero,
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "cumsum": lambda x: torch.cumsum(x, 0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction(name: str) -> None:
    found = re.search(
        rf"no reduction '{name}': write (.*); the reductions are sum, prod, max", said(f"y = {name}[i] a[i]")
    )
    assert found
    left = "y[i]" if name == "cumsum" else "y"
    torch.testing.assert_close(dlc.kernel(f"{left} = {found[1]}")(X), REDUCTIONS[name](X))


@pytest.mark.parametrize("name", ["var", "std"])
def test_a_variance(name: str) -> None:
    found = re.search(r"write (.*), and then (.*); the reductions", said(f"y = {name}[i] a[i]"))
    assert found
    made = dlc.kernel(f"{found[1]}\ny = {found[2]}")(X)
    torch.testing.assert_close(made, getattr(torch, name)(X, correction=0))


WRONG = {
    "y = mean[k] x[k]": r"1:5: there is no reduction 'mean': write sum\[k\].*; the reductions are sum, prod",
    "y = median[k] x[k]": r"1:5: there is no reduction 'median': the reductions are sum",
    "y[i] = mean(x)": r"1:8: there is no function 'mean': write sum\[k\] a\[k\] / size\(a, 0\)",
    "y[i] = median(x)": r"1:8: there is no function 'median': an array is read in brackets, a\[i\]; docs",
    "y[i] = std(x)": r"1:8: .* 'std': a reduction names its indices, as sum\[k\] a\[k\]",
    "y[i] = x(i)": r"1:8: there is no function 'x': an array is read in brackets",
    "y[i] = exp x[i]": r"1:8: a function has parentheses: write exp\(",
    "y[i] = relu x[i]": r"1:8: there is no function 'relu': write max\(a, 0\)",
    "y[i] = x[i] x[i]": r"1:13: there is no operator before 'x'",
    "y[i] = 2 x[i]": r"1:10: there is no operator before 'x'",
    "y[i] = max(x[i])": r"'max' takes 2 operands, not 1; over an index it is max\[k\]",
    "y[i] = min(x[i], 0, 1)": r"'min' takes 2 operands, not 3: write min\(min\(a, b\), c\)",
    "y[i] = x[i] if x[i] > 0 else 0": r"1:13: 'if' is no word of the notation: where\(c, a, b\)",
    "y[i] = x[i] > 0 ? x[i] : 0": r"1:17: .*: where\(c, a, b\) chooses",
    "y[i] = torch.exp(x[i])": r"1:13: .*: a function stands alone, exp\(a\)",
    "y[i] = x[i].exp()": r"1:12: .*: a function stands alone, exp\(a\)",
    "y[i] = x[i]; z[i] = y[i]": "1:12: .*: each line stands in a line of its own",
    "y[i] = !x[i]": "1:8: .*: not is the negation",
    "y[i] = x[:]": "1:10: .*: an axis is read by an index",
    "y{i} = x{i}": r"1:2: .*: indices stand in brackets, a\[i\]",
    "y[\u03b1] = x[\u03b1]": "1:3: .*: names have letters of ASCII",
    "y(i) = x[i]": r"1:2: indices stand in brackets: write y\[i\]",
    "y[i] += x[i]": r"1:6: a line makes a new array .*y\[i\] = old\[i\] \+ \.\.",
    "y[i] **= x[i]": r"1:6: a line makes a new array .*y\[i\] = old\[i\] \*\* \.\.",
    "y[i] == x[i]": "1:6: a line has one '='",
    "y[i] = x[i] = 0": "1:13: a line has one '=', and == compares",
    "y[i] = sum[j in 0..3] x[i,j]": r"1:14: a range stands at the end of the line: for j in 0\.\.n",
    "y[i] = i": "1:1: the text reads no argument: it needs an array",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_text(text: str) -> None:
    assert re.search(rf"^kernel:{WRONG[text]}" if WRONG[text][0].isdigit() else WRONG[text], said(text))


def test_two_lines_in_one_are_still_two() -> None:
    kernel = dlc.kernel("m = sum[k] x[k]  mean[i] = x[i] - m  y[i] = mean[i] * 2")
    torch.testing.assert_close(kernel(X), (X - X.sum()) * 2)


def test_infinity_and_nan_are_numbers() -> None:
    x = torch.randn(5, 5, requires_grad=True)
    causal = dlc.kernel("""
        S[i,j] = where(i >= j, X[i,j], -inf)
        E[i,j] = exp(S[i,j] - max[l] S[i,l])
        Y[i,j] = E[i,j] / sum[l] E[i,l]
    """)
    want = torch.softmax(x.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -torch.inf), -1)
    torch.testing.assert_close(causal(x), want)
    (have,) = torch.autograd.grad((causal(x) ** 2).sum(), x)
    torch.testing.assert_close(have, torch.autograd.grad((want**2).sum(), x)[0])
    assert dlc.kernel("y[i] = x[i] * nan")(X).isnan().all()
    assert dlc.kernel("y[i] = x[i] < inf")(torch.tensor([1.0, torch.inf])).tolist() == [True, False]

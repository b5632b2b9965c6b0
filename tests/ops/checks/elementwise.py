"""Elementwise operators: numbers, and dtypes that eager's kernels have no code for.

test_checks.py goes through the dtypes of all overloads that take tensors alone.
"""

from . import Rows, ints, of, reals

ROWS = Rows()
refuses, takes = ROWS.refuses, ROWS.takes
X, WHOLE, TRUE, COMPLEX = reals(2), ints(2), of(0.0, 1.0).bool(), reals(2).cfloat()

# ---- dtypes ----

for program in (
    "torch.sign(x)",
    "x.sign()",
    "x.clone().sign_()",
    "torch.floor(x)",
    "torch.frac(x)",
    "torch.trunc(x)",
):
    refuses("sign", "no complex numbers", program, COMPLEX)
takes("sgn", "complex numbers", "torch.sgn(x)", COMPLEX)
for program in ("torch.bitwise_left_shift(x, x)", "torch.bitwise_right_shift(x, x)", "x << x", "x >> x"):
    refuses("bitwise_left_shift.Tensor", "no truth values", program, TRUE)
refuses("neg", "no truth values", "-x", TRUE)
refuses("sub.Tensor", "no truth values", "x - x", TRUE)
refuses("bitwise_not", "no floats", "~x", X)
refuses("frexp.Tensor", "floats", "torch.frexp(x)[0]", WHOLE)
refuses("round.decimals", "floats", "torch.round(x, decimals=1)", WHOLE)
refuses("nextafter", "floats", "torch.nextafter(x, x)", WHOLE)
refuses("logaddexp", "floats", "torch.logaddexp(x, x)", TRUE)
refuses("heaviside", "one dtype", "torch.heaviside(x, y)", X, WHOLE)
refuses("clamp", "no complex numbers", "torch.clamp(x, 0, 1)", COMPLEX)
refuses("complex", "one dtype", "torch.complex(x, y)", X, X.double())
refuses("polar", "one dtype", "torch.polar(x, y)", X, X.double())
refuses("view_as_complex", "pairs", "torch.view_as_complex(x)", reals(3))
refuses("view_as_complex", "pairs next to each other", "torch.view_as_complex(x.t())", reals(2, 3))
refuses("view_as_real", "complex numbers", "torch.view_as_real(x)", X)
refuses("lerp.Scalar", "one dtype", "torch.lerp(x, y, 0.5)", X, X.double())
refuses("lerp.Scalar", "floats", "torch.lerp(x, x, 0.5)", WHOLE)

# ---- numbers ----

refuses("add.Tensor", "a whole alpha for integers", "torch.add(x, x, alpha=1.5)", WHOLE)
refuses("add.Tensor", "no alpha of truth values", "torch.add(x, x, alpha=True)", WHOLE)
takes("addcmul", "a value that is cut for integers", "torch.addcmul(x, x, x, value=1.5)", WHOLE)
refuses("addcdiv", "floats", "torch.addcdiv(x, x, x)", WHOLE + 1)
refuses("div.Tensor_mode", "a rounding that there is", "torch.div(x, x, rounding_mode='foo')", X)
for program in ("x // 0", "x % 0", "torch.fmod(x, 0)", "torch.div(x, x, rounding_mode='trunc')"):
    refuses("div.Tensor_mode", "no integer by zero", program, WHOLE)
refuses("pow.Tensor_Scalar", "no negative exponent of integers", "x ** -1", WHOLE + 1)
for value in ("1e9", "-1e9"):
    refuses("pow.Tensor_Scalar", "an exponent that the dtype holds", f"torch.pow(x, {value})", X.half())
takes("pow.Tensor_Scalar", "an infinite exponent", "torch.pow(x, inf)", X.half())
refuses("polygamma", "no negative order", "torch.polygamma(-1, x)", X)
refuses("clamp", "a bound", "torch.clamp(x)", X)
refuses("add.Tensor", "sizes that broadcast", "x + y", X, reals(3))
refuses("fill.Scalar", "a number that fits", "x.to(torch.int8).fill_(300)", WHOLE)
refuses("fill.Tensor", "a tensor of no axes", "x.clone().fill_(x)", X)
refuses("full_like", "a number that fits", "torch.full_like(x, 1e9)", X.half())
refuses("full_like", "no complex number", "torch.full_like(x, 1j)", X)

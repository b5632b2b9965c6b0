"""NumPy's functions one by one: dlc.jit gives what NumPy gives, or refuses; it raises where NumPy does."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dlc import CaptureError
from tests.backend.jitted import jit

pytestmark = pytest.mark.in_turn(2)

EXPRESSIONS = (
    "np.exp(x)", "np.exp2(x)", "np.expm1(x)", "np.log(abs(x)+1)", "np.log2(abs(x)+1)",
    "np.log10(abs(x)+1)", "np.log1p(abs(x))", "np.sqrt(abs(x))", "np.cbrt(x)", "np.square(x)", "np.sin(x)",
    "np.cos(x)", "np.tan(x)", "np.arctan(x)", "np.sinh(x/4)", "np.cosh(x/4)", "np.tanh(x)",
    "np.arcsinh(x)", "np.sign(x)", "np.abs(x)", "np.fabs(x)", "-x", "+x", "~x", "np.floor(x)",
    "np.ceil(x)", "np.trunc(x)", "np.rint(x)", "np.round(x)", "np.round(x,1)", "np.fix(x)", "np.isnan(x)",
    "np.isfinite(x)", "np.isinf(x)", "np.signbit(x)", "np.logical_not(x)", "np.reciprocal(x)",
    "np.deg2rad(x)", "np.degrees(x)", "np.radians(x)", "np.sinc(x)", "np.nan_to_num(x)", "np.real(x)",
    "np.imag(x)", "np.conj(x)", "np.angle(x)", "np.positive(x)", "x+1", "x+1.5", "1-x", "x*2", "x*0.5",
    "x/2", "x/3.0", "2/(abs(x)+1)", "x//2", "x%3", "x//0.7", "x%0.7", "x**2", "x**0.5", "x**3",
    "2**abs(x)", "2.0**x", "x**-1", "x+True", "x*1j", "x//0", "x%0", "x/0", "5//x", "5%x", "divmod(x,3)",
    "np.fmod(x,3)", "x<<1", "x>>1", "x&1", "x^5", "x<1", "x<=0.5", "x==1", "x!=1", "x>0", "x>=x",
    "np.float32(2)*x", "np.float64(2)*x", "np.int64(3)+x", "x+np.arange(3.)[0]", "x.sum()", "x.sum(0)",
    "x.sum(-1)", "x.sum(axis=0,keepdims=True)", "x.sum(dtype='f4')", "x.mean()", "x.mean(0)", "x.var()",
    "x.std()", "x.std(ddof=1)", "x.var(0)", "x.prod()", "x.prod(0)", "x.max()", "x.max(0)", "x.min()",
    "x.min(axis=-1)", "x.argmax()", "x.argmax(0)", "x.argmin()", "x.argmin(-1)", "x.any()", "x.all()",
    "x.any(0)", "x.all(-1)", "np.ptp(x)", "np.ptp(x,0)", "x.cumsum()", "x.cumsum(0)", "np.cumprod(x)",
    "np.cumsum(x,dtype='f8')", "np.nansum(x)", "np.nanmean(x)", "np.nanmax(x)", "np.nanmin(x,0)",
    "np.nanstd(x)", "np.nanvar(x,0)", "np.count_nonzero(x)", "np.count_nonzero(x,axis=0)", "np.average(x)",
    "np.average(x,axis=0)", "np.add.reduce(x)", "np.add.accumulate(x)", "np.maximum.reduce(x)",
    "np.sum(x,axis=None)", "np.max(x,keepdims=True)", "np.mean(x,dtype='f8')", "np.linalg.norm(x)",
    "np.sum([x[...],x[...]])", "x[0]", "x[-1]", "x[1:]", "x[::-1]*1", "x[::2]", "x[-1:]", "x[...,0]",
    "x[None]", "x[...]", "x.T", "x.reshape(-1)", "x.ravel()", "x.flatten()", "x.copy()", "x.astype('f4')",
    "x.astype(int)", "x.astype(bool)", "x.astype(np.complex64)", "np.flip(x)+0", "np.roll(x,1)",
    "np.roll(x,2,0)", "np.diff(x)", "np.diff(x,axis=0)", "np.tile(x,2)", "np.repeat(x,2)",
    "np.repeat(x,2,axis=0)", "np.concatenate([x,x])", "np.stack([x,x])", "np.vstack([x,x])",
    "np.hstack([x,x])", "np.column_stack([x,x])", "np.append(x,1)", "np.pad(x,1)",
    "np.pad(x,1,mode='edge')", "np.expand_dims(x,0)", "np.squeeze(x)", "np.atleast_1d(x)",
    "np.atleast_2d(x)", "np.broadcast_to(x,(2,)+x.shape)+0", "np.transpose(x)", "np.swapaxes(x,0,-1)",
    "np.moveaxis(x,0,-1)", "np.trapezoid(x)", "np.gradient(x)", "np.take(x,[0,-1])", "x[[0,-1]]",
    "x[np.array([0,0])]", "x[np.argmax(x.ravel())%1]", "np.where(x>0,x,0)", "np.where(x>0,x,0.0)",
    "np.where(x>0,1,-1)", "np.where(x>0,x,-x)", "np.clip(x,0,1)", "np.clip(x,-1.5,None)", "x.clip(0,2)",
    "np.maximum(x,0)", "np.minimum(x,0.5)", "np.fmax(x,1)", "np.maximum(x,x[0])", "np.hypot(x,2)",
    "np.arctan2(x,1)", "np.copysign(x,-1)", "np.heaviside(x,0.5)", "np.logaddexp(x,0)",
    "np.logical_and(x,x>0)", "np.logical_or(x,0)", "np.logical_xor(x,1)", "np.select([x>0,x<0],[x,-x],0)",
    "np.isclose(x,1)", "np.zeros_like(x)", "np.ones_like(x)", "np.full_like(x,2)", "np.full(3,x.max())",
    "np.zeros(x.shape)", "np.zeros(x.shape,x.dtype)", "np.ones(len(x))", "np.full(x.shape,3)",
    "np.arange(len(x))", "np.arange(x.shape[0])*x.T", "np.linspace(0,1,len(x))", "np.eye(len(x))",
    "np.identity(3,x.dtype)", "np.asarray(x)", "np.array(x)", "np.array([x[0],x[-1]])",
    "np.array([1,2.5])", "np.dot(x,x.T)", "x@x.T", "np.outer(x,x)", "np.inner(x,x)", "np.vdot(x,x)",
    "np.einsum('i...,i...->...',x,x)", "np.tensordot(x,x,axes=([0],[0]))", "np.cross(x[...,:3],x[...,:3])",
    "x.size", "x.shape", "x.ndim", "len(x)", "x.dtype==np.float64", "np.polyval([1,2.,3],x)", "np.size(x)",
    "np.tril(x)", "np.triu(x,1)", "np.diag(x)", "np.trace(x)", "np.meshgrid(x,x)",
    "np.take_along_axis(x,np.argmax(x,0,keepdims=True),0)", "np.add.outer(x,x)", "x.dot(x.T)",
    "x.round(1)", "x.real", "x.imag", "np.asarray(x.sum())", "x.sum()[()]", "x.mean()*x",
    "x.max()-x.min()", "x.sum()/x.size", "x.sum()/len(x)", "(x>0).sum()", "(x>0).mean()",
    "np.sqrt(len(x))", "np.sqrt(x.shape[0])*x", "x-x.mean(axis=0)", "x[x>0]", "np.sum(x>0,axis=0)",
    "x+[1]", "x.itemsize", "x.nbytes", "np.linalg.norm(x,axis=0)", "np.linalg.norm(x.ravel(),1)",
    "np.linalg.norm(x.ravel(),np.inf)", "x | 3", "np.diagonal(x)+0", "np.gcd(x,4)",
    "np.float_power(abs(x),2)", "np.add(x,1,dtype='f8')", "np.multiply(x,2,out=np.zeros(x.shape))",
    "np.divide(1,x,out=np.zeros(x.shape),where=x!=0)", "np.ediff1d(x)", "np.full(3,x.max())",
    "x[x.argmax()%1]", "x[:-1:-2]*1", "x[::-2]+0", "x[1:][::-1][1:]+0", "x[-2:0:-1]+0",
    "np.sum(x,-1,keepdims=True)", "x.std(axis=-1,ddof=1,keepdims=True)", "np.stack([x,x*1.5],axis=-1)",
    "np.concatenate([x,x+1j])", "np.vstack([x,np.zeros(x.shape[-1])])", "np.moveaxis(x[None],0,-1)",
)  # fmt: skip

FLOAT_EDGES = (
    "x**0.5", "np.power(x,0.5)", "x**-1", "x**2", "np.power(x,2)", "x**3", "x.argmax()", "x.argmin()",
    "x.max()", "np.nanmax(x)", "np.fmax(x,1)", "np.maximum(x,1)", "np.sign(x)", "np.clip(x,-1,1)",
    "np.round(x,1)", "x//2", "x%-2.5", "3.0//x", "np.isclose(x,np.inf)", "np.nan_to_num(x)",
    "np.cbrt(x)", "x.cumsum()", "np.logaddexp(x,1)", "np.hypot(x,np.nan)", "np.arctan2(x,-0.0)",
    "np.exp(x)", "np.log(x)", "x.astype(bool)", "np.where(x,1,2)", "x.sum()", "np.nanmean(x)",
    "np.floor(x)", "np.trunc(x)", "np.tanh(x)", "divmod(x,0.0)", "np.fmod(x,0)", "np.heaviside(x,0.5)",
    "np.sinc(x)", "np.copysign(1,x)", "np.signbit(x)", "np.logical_and(x,1)", "np.degrees(x)",
)  # fmt: skip
INTEGER_EDGES = (
    "x//-1", "x%-1", "x//x", "abs(x)", "-x", "np.fmod(x,-3)", "np.fmod(x,x)", "x*x", "x.astype('i1')",
    "x/0", "x.mean()", "x+1.0", "x.prod()", "x<<70", "x>>70", "np.right_shift(x,-1)", "np.sign(x)",
    "x==1.5", "x>2**40", "x//-1", "x**3", "np.maximum(x,3)", "x.astype('u1')", "np.gcd(x,6)",
)  # fmt: skip

# Of float64 every expression has a compiled form, for one of the shapes.
SHAPES = ((5,), (3, 4))
DTYPES = ("float64", "float32", "int32", "bool", "uint8", "complex64")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def array(dtype: str, shape: tuple[int, ...]) -> Any:
    x = np.random.default_rng(len(shape)).standard_normal(shape) * 4
    x.flat[1], x.flat[2] = 0.0, -0.0
    x = abs(x) if dtype == "uint8" else x
    return x > 0 if dtype == "bool" else (x + 1j * x[::-1] if dtype == "complex64" else x).astype(dtype)


def assert_same(have: Any, want: Any, given: np.dtype) -> None:
    assert type(have) is type(want)
    if isinstance(want, tuple):
        assert len(have) == len(want)
        for pair in zip(have, want, strict=True):
            assert_same(*pair, given)
        return
    if not isinstance(want, (np.ndarray, np.generic)):
        assert have == want
        return
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    near = max({"e": 2e-3, "f": 3e-6, "F": 3e-6}.get(dtype.char, 1e-13) for dtype in (want.dtype, given))
    exact = want.dtype.kind in "biu"
    np.testing.assert_allclose(have, want, rtol=0 if exact else near, atol=0 if exact else near)


def outcome(function: Any, x: Any) -> Any:
    try:
        return function(x)
    except Exception as error:
        return error


@pytest.mark.in_turn(16)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression: str) -> None:
    function, compiled = function_of(expression), 0
    fast = jit(function)
    for dtype in DTYPES:
        for shape in SHAPES:
            x = array(dtype, shape)
            have, want = outcome(fast, x), outcome(function, x)
            if isinstance(want, Exception):
                assert isinstance(have, (type(want), CaptureError)), f"{dtype}: {want!r} of NumPy, {have!r}"
            elif isinstance(have, Exception):
                assert isinstance(have, CaptureError), f"{dtype}: {have!r}"
            else:
                assert_same(have, want, x.dtype)
                compiled += dtype == "float64"
    whole = isinstance(outcome(function, array("float64", (5,))), TypeError)  # bits of floats
    assert compiled or whole, f"refused: {outcome(fast, array('float64', (5,)))!r}"


# -- infinities, NaN, the smallest integers, division by zero ------------------------------------------


def function_of(expression: str) -> Any:
    scope: dict[str, Any] = {"np": np}
    exec(f"def function(x):\n    return {expression}", scope)
    return scope["function"]


@pytest.mark.parametrize("expression", FLOAT_EDGES)
def test_edges_of_floats(expression: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -8.0])
    function = function_of(expression)
    assert_same(jit(function)(x), function(x), x.dtype)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("expression", INTEGER_EDGES)
def test_edges_of_integers(expression: str, dtype: str) -> None:
    x = np.array([np.iinfo(dtype).min, -1, 0, 1, 7, -7], dtype)
    have, want = (outcome(f, x) for f in (jit(function_of(expression)), function_of(expression)))
    if isinstance(want, Exception):
        assert isinstance(have, type(want))
    else:
        assert_same(have, want, x.dtype)


@pytest.mark.parametrize("expression", ["a << b", "a >> b", "a // b", "a % b", "np.fmod(a, b)"])
def test_edges_of_two_integers(expression: str) -> None:
    a = np.array([np.iinfo("int64").min, -1, 0, 1, 7, -7])
    b = np.array([-1, -1, 0, 2, 70, -3])
    function = eval(f"lambda a, b: {expression}", {"np": np})
    np.testing.assert_array_equal(jit(function)(a, b), function(a, b))


def test_a_size_that_the_dtype_cannot_hold() -> None:
    fast = jit(function_of("x + len(x)"))
    for n in 5, 300, 6:
        x = np.zeros(n, np.int8)
        if n < 128:
            assert_same(fast(x), x + n, x.dtype)
        else:
            with pytest.raises(OverflowError, match="300 out of bounds"):
                fast(x)

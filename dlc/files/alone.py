"""Operators that torch.compile leaves to torch's library, as programs of others: for a program without torch.

Sorting is by whole numbers in the order of the elements, NaN after all others and -0 equal to 0, as torch has
it.  Each number has its place behind it, so that equal ones keep their order and no two are equal.  A short
row, or one of a size that changes, counts for each element those before it.  A long one goes through a
network of minima and maxima (K. E. Batcher, "Sorting networks and their applications", 1968).

A Fourier transform is a product with a matrix of roots of unity for each small factor of the size, with a
twist between two (J. W. Cooley and J. W. Tukey, "An algorithm for the machine calculation of complex Fourier
series", 1965).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch._refs.linalg
from torch import Tensor
from torch._decomp import get_decompositions
from torch._ops import OpOverload
from torch._prims_common import is_contiguous_or_false
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from .matrices import matrices
from .polynomials import polynomials
from .spectra import spectra
from .strided import strided

aten = torch.ops.aten
#: The longest row whose places are counted, if its size is known.
COUNTED = 128
#: The largest prime factor of the size of a transform.
MOST_FACTOR = 1024
#: Factors that become one matrix.
JOINED = 16


# -- order ---------------------------------------------------------------------------------------------


def _keys(x: Tensor) -> Tensor:
    """Whole numbers in the order of the elements: i32, and i64 for elements of 8 bytes."""
    if not x.dtype.is_floating_point:
        return x if x.dtype == torch.int64 else x.to(torch.int32)
    x = x if x.dtype == torch.float64 else x.float()
    whole, most, sign = (
        (torch.int64, 2**63 - 1, 63) if x.dtype == torch.float64 else (torch.int32, 2**31 - 1, 31)
    )
    bits = torch.where(x == 0, 0.0, x).to(x.dtype).view(whole)
    bits = bits ^ ((bits >> sign) & most)
    return torch.where(x.isnan(), most, bits).to(whole)


def _places(n: Any) -> Tensor:
    return torch.arange(n, dtype=torch.int64)


def _counted(keys: Tensor, n: Any) -> Tensor:
    """By place, the element that comes there; keys: [.., n]."""
    here, other, at = keys.unsqueeze(-1), keys.unsqueeze(-2), _places(n)
    if keys.dtype == torch.int64:
        before = (other < here) | ((other == here) & (at < at.unsqueeze(-1)))
    else:
        before = _joined(other, at) < _joined(here, at.unsqueeze(-1))
    place = before.sum(-1)
    return torch.zeros_like(place).scatter(-1, place, at.expand(place.shape))


def _joined(keys: Tensor, at: Tensor) -> Tensor:
    return (keys.to(torch.int64) << 32) | at


def _network(keys: Tensor, n: int) -> Tensor:
    """The same for keys of 4 bytes: the network sorts them with their places behind them."""
    count = 1 << (n - 1).bit_length()
    head = list(keys.shape[:-1])
    last = torch.full([*head, count - n], 2**63 - 1, dtype=torch.int64)
    rows = torch.cat([_joined(keys, _places(n)), last], -1)
    block = 2
    while block <= count:
        pairs = rows.reshape([*head, count // block, 2, block // 2])
        a, b = pairs.select(-2, 0), pairs.select(-2, 1).flip(-1)
        rows = torch.cat([torch.minimum(a, b), torch.maximum(a, b).flip(-1)], -1)
        half = block // 4
        while half:
            pairs = rows.reshape([*head, count // (2 * half), 2, half])
            a, b = pairs.select(-2, 0), pairs.select(-2, 1)
            rows = torch.stack([torch.minimum(a, b), torch.maximum(a, b)], -2)
            half //= 2
        block *= 2
    return rows.reshape([*head, count]).narrow(-1, 0, n) & (2**32 - 1)


def _order(x: Tensor, descending: bool) -> Tensor:
    """By place along the last axis, the element that comes there."""
    keys, n = _keys(x), x.shape[-1]
    keys = ~keys if descending else keys
    short = not isinstance(n, int) or n <= COUNTED or keys.dtype == torch.int64
    return _counted(keys, n) if short else _network(keys, n)


def _sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    if x.is_complex():
        return NotImplemented
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    rows = x.movedim(dim, -1)
    order = _order(rows, descending)
    return rows.gather(-1, order).movedim(-1, dim).contiguous(), order.movedim(-1, dim).contiguous()


def _sort_stable(
    x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _sort(x, dim, descending)


def _topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    made = _sort(x, dim, largest)
    if made is NotImplemented or x.dim() == 0:
        return made
    return tuple(one.narrow(dim, 0, k).contiguous() for one in made)


def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    made = _sort(x, dim)
    if made is NotImplemented or x.dim() == 0:
        return made
    return tuple((one.narrow(dim, k - 1, 1) if keepdim else one.select(dim, k - 1)).clone() for one in made)


def _median_of(x: Tensor, dim: int, keepdim: bool, skips: bool) -> tuple[Tensor, Tensor]:
    """skips: NaN is no element, unless there is nothing else; otherwise it is the median."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    rows = x.movedim(dim, -1)
    order = _order(rows, False)
    n = rows.shape[-1]
    middle = torch.full([*rows.shape[:-1], 1], (n - 1) // 2, dtype=torch.int64)
    if x.dtype.is_floating_point:
        nan = rows.isnan().sum(-1, keepdim=True)
        first = torch.where(nan > 0, n - nan, middle)
        middle = ((n - nan - 1) // 2).clamp(min=0) if skips else first
    at = order.gather(-1, middle)
    made = (rows.gather(-1, at), at)
    return tuple((one.movedim(-1, dim) if keepdim else one.squeeze(-1)).clone() for one in made)  # type: ignore[return-value]


def _median(skips: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def whole(x: Tensor) -> Any:
        if not isinstance(x.numel(), int) or x.numel() == 0:
            return NotImplemented
        return _median_of(x.reshape(-1), 0, False, skips)[0]

    def along(x: Tensor, dim: int, keepdim: bool = False) -> Any:
        return _median_of(x, dim, keepdim, skips)

    return whole, along


# -- Fourier transforms --------------------------------------------------------------------------------


def _factors(n: int) -> list[int] | None:
    """Small ones together; None: one is too large."""
    primes, p = [], 2
    while n > 1:
        while n % p == 0:
            primes.append(p)
            n //= p
        p = p + 1 if p * p <= n else max(n, 2)
    found: list[int] = []
    for prime in primes:
        if found and found[-1] * prime <= JOINED:
            found[-1] *= prime
        else:
            found.append(prime)
    return found if all(f <= MOST_FACTOR for f in found) else None


_Pair = tuple[Tensor, Tensor | None]  # real and imaginary parts; None: zeros


def _roots(rows: int, columns: int, n: int, sign: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """exp(sign * 2 pi i * j * k / n), j < rows, k < columns: its parts."""
    turns = (_places(rows).unsqueeze(-1) * _places(columns)) % n
    angle = turns.to(torch.float64) * (sign * 2 * math.pi / n)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _times(a: _Pair, b: tuple[Tensor, Tensor], product: Callable[[Tensor, Tensor], Tensor]) -> _Pair:
    re, im = a
    if im is None:
        return product(re, b[0]), product(re, b[1])
    return product(re, b[0]) - product(im, b[1]), product(re, b[1]) + product(im, b[0])


def _each(pair: _Pair, change: Callable[[Tensor], Tensor]) -> _Pair:
    return change(pair[0]), None if pair[1] is None else change(pair[1])


def _transform(x: _Pair, n: int, factors: list[int], sign: int) -> _Pair:
    """Along the last axis, of n elements."""
    dtype, head = x[0].dtype, list(x[0].shape[:-1])
    if len(factors) <= 1:
        return _times(x, _roots(n, n, n, sign, dtype), torch.matmul) if n > 1 else x
    first, rest = factors[0], n // factors[0]
    x = _each(x, lambda t: t.reshape([*head, first, rest]).transpose(-1, -2))
    x = _times(x, _roots(first, first, first, sign, dtype), torch.matmul)  # [.., rest, first]
    x = _times(x, _roots(rest, first, n, sign, dtype), torch.mul)
    x = _transform(_each(x, lambda t: t.transpose(-1, -2)), rest, factors[1:], sign)  # [.., first, rest]
    return _each(x, lambda t: t.transpose(-1, -2).reshape([*head, n]))


def _along(x: _Pair, dims: list[int], sign: int) -> _Pair | None:
    for dim in dims:
        n = x[0].shape[dim]
        factors = _factors(n) if isinstance(n, int) and n else None
        if factors is None:
            return None
        at = dim
        x = _each(x, lambda t, at=at: t.movedim(at, -1))  # type: ignore[misc]
        x = _each(_transform(x, n, factors, sign), lambda t, at=at: t.movedim(-1, at))  # type: ignore[misc]
    return x


def _scaled(x: _Pair, count: Any, normalization: int) -> _Pair:
    """normalization: 0 as it is, 1 by the root of the number of elements, 2 by that number."""
    scale = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization] if normalization else 1.0
    return x if scale == 1.0 else _each(x, lambda t: t * scale)


def _count(x: Tensor, dims: list[int]) -> Any:
    return math.prod(x.shape[dim] for dim in dims)


def _complex(x: _Pair) -> Tensor:
    return torch.complex(x[0], torch.zeros_like(x[0]) if x[1] is None else x[1])


def _fft_c2c(x: Tensor, dim: list[int], normalization: int, forward: bool) -> Any:
    made = _along((x.real, x.imag), dim, -1 if forward else 1)
    return NotImplemented if made is None else _complex(_scaled(made, _count(x, dim), normalization))


def _fft_r2c(x: Tensor, dim: list[int], normalization: int, onesided: bool) -> Any:
    made = _along((x, None), [*dim[::-1]], -1)
    if made is None:
        return NotImplemented
    made = _scaled(made, _count(x, dim), normalization)
    if onesided:
        made = _each(made, lambda t: t.narrow(dim[-1], 0, t.shape[dim[-1]] // 2 + 1))
    return _complex(made)


def _fft_c2r(x: Tensor, dim: list[int], normalization: int, last_dim_size: int) -> Any:
    n, last = last_dim_size, dim[-1]
    if not isinstance(n, int) or not isinstance(x.shape[last], int) or _factors(n) is None:
        return NotImplemented
    made = _along((x.real, x.imag), dim[:-1], 1)
    if made is None:
        return NotImplemented
    re, im = (t.movedim(last, -1) for t in made)  # type: ignore[union-attr]
    half = n // 2 + 1
    if re.shape[-1] < half:
        return NotImplemented
    re, im = re.narrow(-1, 0, half), im.narrow(-1, 0, half)
    tail = (n - 1) // 2  # the others are the conjugates of the first, backwards
    re = torch.cat([re, re.narrow(-1, 1, tail).flip(-1)], -1)
    im = torch.cat([im, -im.narrow(-1, 1, tail).flip(-1)], -1)
    whole = _transform((re, im), n, _factors(n) or [], 1)[0]
    scaled = _scaled((whole, None), n * _count(x, dim[:-1]), normalization)[0]
    return scaled.movedim(-1, last).contiguous()


# -- distances -----------------------------------------------------------------------------------------


def _length(x: Tensor, p: float) -> Tensor:
    if p == 0:
        return (x != 0).sum(-1).to(x.dtype)
    return x.abs().amax(-1) if math.isinf(p) else x.abs().pow(p).sum(-1).pow(1 / p)


def _pdist(x: Tensor, p: float = 2.0) -> Any:
    n = x.shape[0]
    if not isinstance(n, int):
        return NotImplemented
    if n < 2 or x.shape[1] == 0:
        return x.new_zeros([n * (n - 1) // 2])
    first, second = torch._refs.triu_indices(n, n, 1, device=x.device).unbind(0)
    return _length(x.index_select(0, first) - x.index_select(0, second), p)


def _cdist(a: Tensor, b: Tensor, p: float, compute_mode: int | None) -> Any:
    if p == 2 or 0 in a.shape or 0 in b.shape:
        return NotImplemented  # a builder has it as a product
    return _length(a.unsqueeze(-2) - b.unsqueeze(-3), p)


# -- memory --------------------------------------------------------------------------------------------


def _as_eager_lays(op: OpOverload, program: Callable[..., Any]) -> Callable[..., Any]:
    """The program with results in the layout of torch's: views of them were traced by that one."""

    def lay(made: Any, like: Any) -> Any:
        if not isinstance(like, Tensor) or like.dim() < 2 or is_contiguous_or_false(like):
            return made
        columns = is_contiguous_or_false(like.mT)
        return made.mT.clone(memory_format=torch.contiguous_format).mT if columns else made

    def run(*args: Any, **options: Any) -> Any:
        made = program(*args, **options)
        if made is NotImplemented or made is None:
            return made
        with disable_proxy_modes_tracing():
            like = op(*args, **options)
        return lay(made, like) if isinstance(made, Tensor) else tuple(map(lay, made, like))

    return run


def _empty_strided(size: list[Any], stride: list[Any], *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """In rows, where two elements would have one place: an array of a file has a place for each."""
    if not all(isinstance(n, int) for n in (*size, *stride)):
        return NotImplemented
    reach, overlaps = 0, False
    for step, n in sorted(zip(stride, size, strict=True)):
        overlaps |= n > 1 and step <= reach
        reach += step * (n - 1)
    return torch.empty(size, dtype=dtype) if overlaps and 0 not in size else NotImplemented


def _new_empty_strided(
    x: Tensor, size: list[Any], stride: list[Any], *, dtype: torch.dtype | None = None, **_: Any
) -> Any:
    return _empty_strided(size, stride, dtype=dtype or x.dtype)


#: Operators that torch.compile leaves to the library because that is faster, and torch has a program of.
_OF_TORCH = ("grid_sampler_2d", "isin", "multilabel_margin_loss_forward", "addr", "ldexp",
            "_batch_norm_with_update_functional")  # fmt: skip


def alone() -> dict[OpOverload, Callable[..., Any]]:
    """By operator, its program; NotImplemented where that does not hold for its arguments."""
    (median, median_dim), (nanmedian, nanmedian_dim) = _median(False), _median(True)
    return {
        **get_decompositions([getattr(aten, name) for name in _OF_TORCH]),
        aten.empty_strided.default: _empty_strided,
        aten.new_empty_strided.default: _new_empty_strided,
        aten._pdist_forward.default: _pdist,
        aten._cdist_forward.default: _cdist,
        aten.sort.default: _sort,
        aten.sort.stable: _sort_stable,
        aten.topk.default: _topk,
        aten.kthvalue.default: _kthvalue,
        aten.median.default: median,
        aten.median.dim: median_dim,
        aten.nanmedian.default: nanmedian,
        aten.nanmedian.dim: nanmedian_dim,
        aten.tril_indices.default: torch._refs.tril_indices,
        aten.triu_indices.default: torch._refs.triu_indices,
        aten._fft_c2c.default: _fft_c2c,
        aten._fft_r2c.default: _fft_r2c,
        aten._fft_c2r.default: _fft_c2r,
        **{op: _as_eager_lays(op, program) for op, program in (matrices() | spectra()).items()},
        **polynomials(),
        **strided(),
        aten.linalg_cross.default: torch._refs.linalg.cross,
    }

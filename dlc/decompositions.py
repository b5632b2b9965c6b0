"""The decompositions that AOTAutograd applies before dlc sees a graph.

An overload is decomposed here when its parts are overloads that dlc compiles and it has no builder of
its own (csrc/capture/aten/aten.def), or when a backward wants the parts: losses, group norm, the rarer
activations and rearrangements; log-softmax. What is neither here nor there runs as the eager operator.
Whatever draws random numbers stays whole, so that it draws eager's, and so does what eager computes in
a better way than its definition: products, convolutions, attention, scatters, sorts, images read at the
points of a grid.

A shorter table traces faster: every entry costs a Python call for each node it decomposes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import guard_or_true

from . import foreach, wholes
from .grids import grid_sampler_3d, grid_sampler_3d_backward
from .lengths import equate

_NAMES = """
    block_diag celu channel_shuffle count_nonzero deg2rad diag_embed dist hardshrink
    isneginf isposinf linalg_vector_norm linspace logspace mvlgamma nansum narrow_copy norm
    pixel_shuffle pixel_unshuffle rad2deg renorm rot90 softshrink
    special_entr trace zero

    _unsafe_masked_index _unsafe_masked_index_put_accumulate

    binary_cross_entropy_backward binary_cross_entropy_with_logits
    huber_loss huber_loss_backward mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward
    soft_margin_loss soft_margin_loss_backward

    _prelu_kernel _prelu_kernel_backward glu_backward

    native_group_norm_backward _fused_rms_norm _fused_rms_norm_backward
    diagonal_backward slice_backward select_backward
    unsafe_split unsafe_split_with_sizes _chunk_cat

    alias_copy diagonal_copy expand_copy permute_copy squeeze_copy
    split_with_sizes_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy
"""

#: Overload packets of aten; all overloads that torch has a decomposition for are meant.
NAMES = tuple(_NAMES.split())

_OF_FLOATS = "_prelu_kernel grid_sampler_3d hardshrink huber_loss soft_margin_loss softshrink"
_OF_NUMBERS = "mvlgamma trace"

# Eager's result is dense and row-major, whatever the operands are.
_IN_ROWS = "huber_loss_backward mse_loss_backward smooth_l1_loss_backward"


def _log_softmax(x: Tensor, axis: int, half_to_float: bool) -> Tensor:
    """Into parts, so that a backward has each row's two numbers from the forward instead of all of it."""
    if not x.is_floating_point() or x.dim() == 0 or guard_or_true(x.shape[axis] == 0):
        return NotImplemented
    narrow = x.dtype in (torch.float16, torch.bfloat16)
    shifted = x.contiguous().float() if narrow else x.contiguous()  # eager's result is contiguous
    shifted = shifted - shifted.amax(axis, keepdim=True)
    result = shifted - shifted.exp().sum(axis, keepdim=True).log()
    return result.to(x.dtype) if narrow and not half_to_float else result


def _dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    """With the strides of eager's formula; torch's own makes them row-major."""
    return grad * mask * scale


def _rrelu_backward(grad: Tensor, x: Tensor, noise: Tensor, lower: float, upper: float, *how: bool) -> Tensor:
    """In rows where the slopes were drawn, as eager's is; torch's own is laid as the gradient.

    A clone, as the gradient of a graph of symbolic sizes gets its layout only after this.
    """
    training, of_result = how
    if training:
        return (grad * noise).clone(memory_format=torch.contiguous_format)
    return torch.ops.aten.leaky_relu_backward(grad, x, (lower + upper) / 2, of_result)


def _view_copy(x: Tensor, size: list[int]) -> Tensor:
    """Of memory that has no such view too, as eager's; torch's own copies a view."""
    return x.reshape(size).clone(memory_format=torch.contiguous_format)


def _attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Stays whole."""
    equate(query, key, value)
    return NotImplemented


def _of_whole_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """linspace of integers: eager's depend on how many numbers its vectors hold."""

    @functools.wraps(function)
    def decomposed(*args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
        whole = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
        return NotImplemented if whole else function(*args, dtype=dtype, **kwargs)

    return decomposed


def _celu(x: Tensor, alpha: float = 1.0) -> bool:
    return x.is_floating_point() and alpha != 0


def _mse_loss(x: Tensor, target: Tensor, reduction: int = 1) -> bool:
    return torch.result_type(x, target).is_floating_point


def _smooth_l1_loss(x: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> bool:
    return x.is_floating_point() and beta >= 0


def _with_logits(x: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> bool:
    return torch.broadcast_shapes(x.shape, target.shape) == target.shape


# What eager's kernel takes. The definition would take more: the operator then stays whole, and raises.
_TAKEN: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(_OF_FLOATS.split(), lambda x, *args, **kwargs: x.is_floating_point()),
    **dict.fromkeys(_OF_NUMBERS.split(), lambda x, *args, **kwargs: x.dtype != torch.bool),
    "binary_cross_entropy_with_logits": _with_logits,
    "celu": _celu,
    "mse_loss": _mse_loss,
    "smooth_l1_loss": _smooth_l1_loss,
}


def _refusing(function: Callable[..., Any], takes: Callable[..., bool]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if takes(*args, **kwargs) else NotImplemented

    return decomposed


def _in_its_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A norm: torch's own takes the magnitudes of complex numbers before it widens them."""

    @functools.wraps(function)
    def decomposed(x: Tensor, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Tensor:
        wide = x.to(dtype) if dtype is not None and x.is_complex() else x
        return function(wide, *args, dtype=dtype, **kwargs)

    return decomposed


def _in_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposed(*args: Any, **kwargs: Any) -> Tensor:
        return function(*args, **kwargs).contiguous()

    return decomposed


def _as_images(function: Callable[..., Any]) -> Callable[..., Any]:
    """Eager's result has channels last where torch takes its operand for such images."""

    @functools.wraps(function)
    def decomposed(x: Tensor, *args: Any) -> Tensor:
        return function(x, *args).contiguous(memory_format=suggest_memory_format(x))

    return decomposed


@functools.cache
def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Overload to the Python function that decomposes it."""
    packets = [getattr(torch.ops.aten, name) for name in NAMES if hasattr(torch.ops.aten, name)]
    own: dict[OpOverload, Callable[..., Any]] = {
        torch.ops.aten._log_softmax.default: _log_softmax,
        torch.ops.aten.native_dropout_backward.default: _dropout_backward,
        torch.ops.aten.rrelu_with_noise_backward.default: _rrelu_backward,
        torch.ops.aten.view_copy.default: _view_copy,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
        torch.ops.aten.grid_sampler_3d.default: grid_sampler_3d,
        torch.ops.aten.grid_sampler_3d_backward.default: grid_sampler_3d_backward,
    }
    found = get_decompositions(packets) | foreach.decompositions() | wholes.decompositions() | own
    for overload, function in found.items():
        name = overload.overloadpacket.__name__
        if name in _TAKEN:
            found[overload] = _refusing(function, _TAKEN[name])
        elif name in _IN_ROWS.split():
            found[overload] = _in_rows(function)
        elif name == "linalg_vector_norm":
            found[overload] = _in_its_dtype(function)
        elif name == "channel_shuffle":
            found[overload] = _as_images(function)
        elif name == "linspace":
            found[overload] = _of_whole_numbers(function)
    return found

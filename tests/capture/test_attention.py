"""Attention as contractions and a softmax: every form of it, in each way of capture, and its gradients."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attention

from dlc import _C
from tests.capture.graphs import calls, graphs
from tests.capture.products import check, check_gradients, direct_graph

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def operands(
    q: tuple[int, ...] = (2, 4, 5, 8),
    k: tuple[int, ...] = (2, 4, 7, 8),
    v: tuple[int, ...] = (2, 4, 7, 8),
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(tensor(*s, dtype=dtype, seed=seed) for seed, s in enumerate((q, k, v)))  # type: ignore


def seen(*shape: int) -> Tensor:
    """A mask whose third row sees nothing."""
    mask = tensor(*shape, seed=9) > -0.4
    mask[..., 2, :] = False
    return mask


GROUPED = operands(k=(2, 2, 7, 8), v=(2, 2, 7, 8))
CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "plain": (attention, operands()),
    "scale": (lambda q, k, v: attention(q, k, v, scale=0.3), operands()),
    "causal": (lambda q, k, v: attention(q, k, v, is_causal=True), operands()),
    "causal, more queries": (
        lambda q, k, v: attention(q, k, v, is_causal=True),
        operands((2, 4, 9, 8), (2, 4, 3, 8), (2, 4, 3, 8)),
    ),
    "truth values": (attention, (*operands(), seen(5, 7))),
    "truth values of heads": (attention, (*operands(), seen(2, 4, 5, 7))),
    "what is added": (attention, (*operands(), tensor(2, 1, 5, 7, seed=5))),
    "groups": (lambda q, k, v: attention(q, k, v, enable_gqa=True), GROUPED),
    "groups, masked": (
        lambda q, k, v, m: attention(q, k, v, m, enable_gqa=True),
        (*GROUPED, seen(2, 4, 5, 7)),
    ),
    "groups, one mask": (
        lambda q, k, v, m: attention(q, k, v, m, enable_gqa=True),
        (*GROUPED, seen(2, 1, 5, 7)),
    ),
    "transposed": (
        lambda q, k, v: attention(*(x.transpose(1, 2) for x in (q, k, v))),
        operands((2, 5, 4, 8), (2, 7, 4, 8), (2, 7, 4, 8)),
    ),
    "one query": (attention, operands((2, 4, 1, 8))),
    "small values": (attention, operands(v=(2, 4, 7, 3))),
    "matrices": (attention, operands((5, 8), (7, 8), (7, 8))),
    "batches": (attention, operands((3, 5, 8), (3, 7, 8), (3, 7, 8))),
    "five axes": (attention, operands((2, 1, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 7, 8))),
}


@pytest.mark.parametrize("capture", ["direct", "aot"])
@pytest.mark.parametrize("name", CASES)
def test_forms(name: str, capture: str) -> None:
    function, args = CASES[name]
    check(function, *args, capture=capture)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("capture", ["direct", "aot"])
def test_dtypes(dtype: torch.dtype, capture: str) -> None:
    check(attention, *operands(dtype=dtype), seen(5, 7), capture=capture)


@pytest.mark.parametrize("capture", ["direct", "aot"])
def test_sizes_that_are_names(capture: str) -> None:
    """The scale depends on the size of a head."""
    text = check(attention, *operands(), capture=capture, dynamic=True)
    assert " = size " in text


@pytest.mark.parametrize(
    "name", ["plain", "causal, more queries", "truth values", "groups, masked", "small values"]
)
def test_gradients(name: str) -> None:
    function, args = CASES[name]
    check_gradients(function, *args)


def test_gradients_with_what_is_added() -> None:
    """It needs none itself, or one of its own: then torch decomposes it."""
    check_gradients(lambda q, k, v, m: attention(q, k, v, m * -2.0), *operands(), seen(5, 7))
    check_gradients(attention, *operands(), tensor(2, 1, 5, 7, seed=5))


def test_gradients_of_halves() -> None:
    check_gradients(attention, *operands(dtype=torch.bfloat16))


def test_heads_in_groups_are_not_repeated() -> None:
    """No let has the keys of all heads of the queries."""
    text = check(lambda q, k, v: attention(q, k, v, enable_gqa=True), *GROUPED, capture="direct")
    assert "[2, 4, 7, 8]" not in text and 'over="bcmpk,bcnk->bcmpn"' in text


def test_a_call_where_the_library_is_asked_for() -> None:
    gm, _ = direct_graph(attention, operands(), dynamic=False)
    assert [len(calls(_C.walk(gm, True, products))) for products in ("auto", "own", "library")] == [0, 0, 1]
    (gm,) = graphs(attention, *operands())
    assert calls(_C.walk(gm)) == []
    assert calls(_C.walk(gm, False, "library")) == [
        "aten._scaled_dot_product_flash_attention_for_cpu.default"
    ]


def test_dropout_is_eagers() -> None:
    def dropped(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return attention(q, k, v, dropout_p=0.5)

    gm, _ = direct_graph(dropped, operands(), dynamic=False)
    with pytest.raises(_C.CaptureError, match="torch decomposes attention"):
        _C.walk(gm, True, "own")
    (gm,) = graphs(dropped, *operands())
    assert calls(_C.walk(gm, False, "own")) == ["aten.native_dropout.default"]

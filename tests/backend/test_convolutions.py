"""Convolutions of dlc's own, and their gradients: as near as eager's, laid out as eager's, one program for
all sizes, and the same bits by both tiers and any number of threads."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dlc
from dlc import _C
from tests.capture.graphs import calls, graphs
from tests.tolerance import Run, assert_runs, assert_same_bits

pytestmark = pytest.mark.in_turn(2)

OPTIONS: dict[str, Any] = {"products": "own", "tier": "tcc", "strict": True}
#: the function, sizes of image and weight, its other arguments
CASES: dict[str, tuple[Callable[..., Tensor], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "strided": (F.conv2d, (2, 6, 9, 12), (10, 6, 3, 3), {"stride": 2, "padding": 1}),
    "steps of its kernel": (F.conv2d, (2, 6, 9, 12), (10, 6, 3, 3), {"stride": 3, "padding": 1}),
    "dilated groups": (F.conv2d, (2, 6, 9, 12), (4, 3, 3, 2), {"dilation": (1, 2), "groups": 2}),
    "pointwise": (F.conv2d, (2, 6, 9, 12), (10, 6, 1, 1), {"stride": (2, 1)}),
    "depthwise": (F.conv2d, (2, 6, 9, 12), (12, 1, 3, 3), {"padding": 1, "groups": 6}),
    "channels": (F.conv2d, (2, 20, 9, 12), (20, 1, 3, 3), {"padding": 1, "groups": 20, "stride": (1, 2)}),
    "volume": (F.conv3d, (1, 3, 5, 6, 7), (4, 3, 2, 3, 1), {"padding": (1, 0, 0)}),
    "transposed": (F.conv_transpose2d, (2, 6, 5, 4), (6, 3, 3, 2), {"stride": 2, "padding": 1, "groups": 2}),
    "of a point": (F.conv_transpose2d, (3, 6, 1, 1), (6, 5, 4, 2), {"groups": 2}),
    "small": (F.conv3d, (2, 6, 1, 2, 3), (10, 6, 3, 5, 3), {"padding": (1, 2, 1), "stride": (1, 1, 2)}),
    "padded more": (
        F.conv2d,
        (2, 6, 1, 2),
        (10, 3, 3, 3),
        {"padding": (4, 2), "dilation": (3, 1), "groups": 2},
    ),
    "few points": (F.conv_transpose2d, (2, 6, 5, 4), (6, 12, 4, 6), {"stride": 2, "padding": 1}),
    "few, padded once": (
        F.conv_transpose2d,
        (1, 6, 3, 4),
        (6, 12, 4, 2),
        {"stride": 2, "padding": (3, 0), "groups": 2},
    ),
    "few of a volume": (
        F.conv_transpose3d,
        (1, 3, 2, 3, 4),
        (3, 12, 4, 2, 3),
        {"stride": (2, 2, 1), "padding": (1, 1, 0)},
    ),
    "interleaved": (F.conv_transpose2d, (2, 6, 5, 4), (6, 3, 4, 2), {"stride": 2, "padding": 1, "groups": 2}),
}


class Convolution(nn.Module):
    """Its weights have sizes that do not change."""

    def __init__(self, function: Callable[..., Tensor], *sizes: tuple[int, ...], **kwargs: Any) -> None:
        super().__init__()
        self.function, self.kwargs = function, kwargs
        self.weight, self.bias = (nn.Parameter(torch.randn(size)) for size in sizes)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight, self.bias, **self.kwargs)


def results(run: Callable[..., Tensor], module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """What it makes of x, and the gradients."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    y = run(x)
    torch.manual_seed(1)
    y.backward(torch.randn(y.shape).to(y.dtype))
    grads = {"x": x.grad, **{name: p.grad for name, p in module.named_parameters()}}
    return {"result": y.detach(), **{name: g.clone() for name, g in grads.items() if g is not None}}


def named(made: tuple[Tensor, ...]) -> dict[str, Tensor]:
    return {str(k): t for k, t in enumerate(made)}


def strides(tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: t.stride() for name, t in tensors.items()}


@pytest.mark.parametrize("name", CASES)
def test_near_eager(name: str, compiler: Callable[..., Any]) -> None:
    """Sizes of images and batches that change meet one program; each layout has eager's strides."""
    function, image, weight, kwargs = CASES[name]
    out = weight[1] * kwargs.get("groups", 1) if "transpose" in function.__name__ else weight[0]
    module = Convolution(function, weight, (out,), **kwargs)
    exact = copy.deepcopy(module).double()
    compiled = compiler(module, options=OPTIONS, dynamic=True)
    runs: list[Run] = []
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(image[0] + seed, image[1], *(n + 2 * seed for n in image[2:]))
        if seed == 2 and name in ("strided", "channels"):
            x = x.to(memory_format=torch.channels_last)
        ours, theirs = results(compiled, module, x), results(module, module, x)
        assert strides(ours) == strides(theirs)
        runs.append((ours, theirs, results(exact, exact, x.double())))
    assert_runs(runs)


def test_padding_alone_is_not_multiplied() -> None:
    """Of an image of one point a kernel of 3 x 3 has one place, of two rows all three."""
    weight = torch.randn(4, 6, 3, 3)
    (gm,) = graphs(lambda x, w: F.conv2d(x, w, padding=1), torch.randn(2, 6, 1, 1), weight)
    assert "as_strided" not in _C.walk(gm, False, "own")
    (gm,) = graphs(lambda x, w: F.conv2d(x, w, padding=1), torch.randn(2, 6, 2, 1), weight)
    assert "f32[2, 2, 1, 3, 6] = as_strided" in _C.walk(gm, False, "own")


#: volumes and images of few points along the first axis of windows: sizes, places, other arguments
PADDED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "volume of two": ((2, 40, 2, 7, 7), (3, 3, 3), {"padding": 1}),
    "many rows": ((1, 40, 4, 3, 17), (3, 3, 3), {"padding": 1, "stride": (2, 1, 1)}),
    "without windows behind": ((2, 40, 3, 2, 5), (3, 1, 1), {"padding": (1, 0, 0)}),
    "more than the image": ((2, 40, 2, 9), (5, 3), {"padding": (4, 1)}),
    "one": ((2, 40, 1, 9), (3, 3), {"padding": 1}),
    "whole chains": ((2, 256, 7, 7), (3, 3), {"padding": 1}),
    "two tiles": ((1, 512, 2, 30), (3, 5), {"padding": (1, 2), "stride": (1, 2)}),
    "second axis": ((1, 256, 4, 5), (2, 5), {"padding": (0, 3)}),
    "volume of chains": ((1, 256, 2, 3, 5), (3, 3, 3), {"padding": 1}),
}
#: those whose sums over channels are whole chains: along which axes padding is left out
CHAINS = {"whole chains": 2, "two tiles": 2, "second axis": 1, "volume of chains": 3}


def padded(name: str) -> tuple[tuple[int, ...], dict[str, Any], Convolution, Any]:
    """The image's sizes, the convolution's other arguments, the convolution, and the layout of its images."""
    image, places, kwargs = PADDED[name]
    torch.manual_seed(0)
    function, last = (
        (F.conv3d, torch.channels_last_3d) if len(places) == 3 else (F.conv2d, torch.channels_last)
    )
    module = Convolution(function, (48, image[1], *places), (48,), **kwargs)
    return image, kwargs, module.eval(), last


@pytest.mark.parametrize("name", PADDED)
def test_products_of_padding_are_left_out(name: str, compiler: Callable[..., Any]) -> None:
    """Results are near eager's, with the same bits in both tiers, with one thread and frozen."""
    image, kwargs, module, last = padded(name)
    x, threads, want = torch.randn(image).to(memory_format=last), torch.get_num_threads(), None
    (gm,) = graphs(lambda x, w, b: module.function(x, w, b, **kwargs), x, module.weight, module.bias)
    axes = CHAINS.get(name, name not in ("one", "without windows behind"))
    assert _C.walk(gm, False, "own").count("0<=") == axes
    with torch.no_grad():
        exact = copy.deepcopy(module).double()(x.double())
        for more in ({}, {"tier": "gcc"}, {"freeze": True}, {"threads": 1}):
            torch._dynamo.reset()
            try:
                torch.set_num_threads(more.pop("threads", threads))
                got = compiler(module, options=OPTIONS | more)(x)
            finally:
                torch.set_num_threads(threads)
            want = got if want is None else want
            assert_same_bits(got, want)
        assert_runs([({"y": want}, {"y": module(x)}, {"y": exact})])


@pytest.mark.parametrize("name", PADDED)
def test_products_of_padding_are_left_out_of_any_size(name: str, compiler: Callable[..., Any]) -> None:
    """One program: near eager's; where the step is 1, with the bits of a program of one size."""
    image, kwargs, module, last = padded(name)
    exact, runs = copy.deepcopy(module).double(), []
    compiled = compiler(module, options=OPTIONS)
    with torch.no_grad():
        for more in (1, 0, 10):
            x = torch.randn(*image[:2], *(max(n, 4) + more for n in image[2:])).to(memory_format=last)
            for axis in range(2, x.ndim):
                torch._dynamo.mark_dynamic(x, axis, min=4, max=40)
            got = compiled(x)
            runs.append(({"y": got}, {"y": module(x)}, {"y": exact(x.double())}))
            if "stride" not in kwargs:
                assert_same_bits(got, compiler(module, options=OPTIONS, dynamic=False)(x.clone()))
        graph = dlc.explain(module, x, options=OPTIONS).graphs[0].texts["graph"]
    assert graph.count("0<=") == graph.count("|") / 2 == CHAINS.get(name, 1)
    assert_runs(runs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_dtypes(dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    """Of padding of which the windows leave out as much as there is on one side."""
    module = Convolution(F.conv1d, (4, 8, 3), (4,), stride=3, padding=1, dilation=2).to(dtype)
    exact = copy.deepcopy(module).double()
    compiled = compiler(module, options=OPTIONS)
    runs: list[Run] = []
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(2, 8, 8).to(dtype)
        runs.append(
            (results(compiled, module, x), results(module, module, x), results(exact, exact, x.double()))
        )
    assert_runs(runs)


def test_the_same_bits_however_they_run(compiler: Callable[..., Any]) -> None:
    """In both tiers, on one thread and on two, in both layouts."""
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 40, 17, 19), torch.randn(24, 40, 3, 3), torch.randn(24)
    deep, last = torch.randn(24, 1, 3, 3), torch.randn(8, 24, 1, 1)

    def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y = torch.tanh(F.conv2d(x, w, b, padding=1, stride=(1, 2)))
        return F.conv2d(F.conv2d(y, deep, dilation=2, groups=24).relu(), last)

    threads, want = torch.get_num_threads(), None
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        compiled = compiler(run, options=OPTIONS | {"tier": tier})
        for count in (1, 2):
            torch.set_num_threads(count)
            try:
                for image in (x, x.to(memory_format=torch.channels_last)):
                    got = compiled(image, w, b).contiguous()
                    want = got if want is None else want
                    assert_same_bits(got, want, f"{tier}, {count} threads")
            finally:
                torch.set_num_threads(threads)


def test_which_are_contractions() -> None:
    """A kernel of one place has no windows, a group of one channel no contraction; else all are calls."""
    x, places, one = torch.randn(2, 8, 5, 6), torch.randn(8, 1, 3, 3), torch.randn(4, 8, 1, 1)
    (gm,) = graphs(F.conv2d, x, one)
    text = _C.walk(gm, False, "own")
    assert "contract arg0_1, " in text
    (gm,) = graphs(lambda x, w: F.conv2d(x, w, padding=1, groups=8), x, places)
    assert calls(_C.walk(gm)) == ["aten.convolution.default"]
    text = _C.walk(gm, False, "own")
    assert not calls(text) and "contract" not in text


@pytest.mark.parametrize("name", CASES)
def test_frozen(name: str, compiler: Callable[..., Any]) -> None:
    """A frozen weight is packed before the calls, and the bits are those of one that each call packs."""
    function, image, weight, kwargs = CASES[name]
    wide = (3 * weight[0], weight[1]) if "transpose" not in function.__name__ else (weight[0], 3 * weight[1])
    out = wide[1] * kwargs.get("groups", 1) if "transpose" in function.__name__ else wide[0]
    torch.manual_seed(0)
    module = Convolution(function, (*wide, *weight[2:]), (out,), **kwargs).eval()
    x = torch.randn(image)
    with torch.no_grad():
        want = compiler(module, options=OPTIONS)(x)
        torch._dynamo.reset()
        frozen = compiler(module, options=OPTIONS | {"freeze": True})
        for _ in range(2):
            assert_same_bits(frozen(x), want)


def test_sequences_keep_their_channels_innermost(compiler: Callable[..., Any]) -> None:
    """By `auto`, between convolutions, with parts of their channels and padding of one side; a result that
    the caller takes has eager's strides."""
    torch.manual_seed(0)
    first, gate, last = nn.Conv1d(20, 32, 1), nn.Conv1d(32, 64, 2, dilation=4), nn.Conv1d(32, 17, 3, 2)

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        y = first(x)
        a, b = gate(F.pad(y, (4, 0))).chunk(2, 1)
        return last(y + torch.tanh(a) * torch.sigmoid(b)), a

    exact = [copy.deepcopy(m).double() for m in (first, gate, last)]
    x = torch.randn(2, 20, 45)
    with torch.no_grad():
        ours, theirs = named(compiler(run)(x)), named(run(x))
        first, gate, last = exact
        assert_runs([(ours, theirs, named(run(x.double())))])
    assert strides(ours) == strides(theirs)

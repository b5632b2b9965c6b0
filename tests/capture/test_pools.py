"""Pools: eager's bits, whatever the padding, the layout and the sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dlc.report import collect
from tests.capture.whole import FLOATS, INTEGERS, check_whole, spread

pytestmark = pytest.mark.in_turn(2)

aten = torch.ops.aten


def image(*shape: int) -> Tensor:
    """Numbers with many equals, and each kind of special one."""
    x = torch.randint(-6, 7, shape, generator=torch.Generator().manual_seed(1)).float() / 2
    flat = x.view(-1)
    flat[3::7] = -0.0
    flat[5::31] = torch.inf
    flat[:40] = -torch.inf
    flat[-9::4] = torch.nan
    return x


LINE, IMAGE, VOLUME = image(2, 3, 41), image(2, 3, 13, 34), image(2, 2, 6, 7, 33)

WINDOWS: dict[str, dict[str, Any]] = {
    "side by side": {"kernel_size": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "oblong": {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)},
    "beyond the end": {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    "beyond the padding": {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True},
    "with gaps": {"kernel_size": 2, "stride": 3},
}
CASES: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "max with holes": (lambda x: F.max_pool2d(x, 3, 2, 1, dilation=2, return_indices=True), IMAGE),
    "max without a batch": (lambda x: F.max_pool2d(x[0], 3, 1, 1, return_indices=True), IMAGE),
    "max of a line": (lambda x: F.max_pool1d(x, 3, 2, 1), LINE),
    "max of a volume": (lambda x: F.max_pool3d(x, (1, 3, 2), (1, 1, 2), (0, 1, 1)), VOLUME),
    "max of a volume, where": (lambda x: F.max_pool3d(x, 2, return_indices=True), VOLUME),
    "max of large windows": (lambda x: F.max_pool2d(x, 5, 1, 2, return_indices=True), IMAGE[..., :13]),
    "max of large windows of a volume": (lambda x: F.max_pool3d(x, 3, (2, 1, 1), 1), VOLUME[..., :9]),
    "mean of large windows": (lambda x: F.avg_pool2d(x, 5, 1, 2), IMAGE[..., :13]),
    "mean of a line": (lambda x: F.avg_pool1d(x, 3, 1, 1), LINE),
    "mean of a volume": (lambda x: F.avg_pool3d(x, 2, 1, 1, count_include_pad=False), VOLUME),
    "mean over a number": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "mean without a batch": (lambda x: F.avg_pool2d(x[0], 2), IMAGE),
    "even parts": (lambda x: F.adaptive_avg_pool2d(x, (13, 17)), IMAGE),
    "even parts of a volume": (lambda x: F.adaptive_avg_pool3d(x, (3, 7, 11)), VOLUME),
    "windows as columns": (lambda x: F.unfold(x, 3, padding=1), IMAGE),
    "windows with holes as columns": (nn.Unfold((2, 3), (2, 1), (0, 1), (1, 2)), IMAGE),
    "windows as columns without a batch": (lambda x: F.unfold(x[0], 2, stride=2), IMAGE),
    "uneven parts": (lambda x: F.adaptive_avg_pool2d(x, (5, 7)), IMAGE),
    "uneven parts of a line": (lambda x: F.adaptive_avg_pool1d(x, 9), LINE),
    "uneven parts of a volume": (lambda x: F.adaptive_avg_pool3d(x, (4, 3, 10)), VOLUME),
    "more parts than elements": (lambda x: F.adaptive_avg_pool2d(x, (20, 40)), IMAGE),
    "max of uneven parts": (lambda x: F.adaptive_max_pool2d(x, (5, 7), return_indices=True), IMAGE),
    "max of parts of a line": (lambda x: F.adaptive_max_pool1d(x, 9), LINE),
    "max of even parts": (lambda x: F.adaptive_max_pool2d(x, (13, 17), return_indices=True), IMAGE),
    "max of parts of a volume": (lambda x: F.adaptive_max_pool3d(x, (4, 3, 10), return_indices=True), VOLUME),
    "max of parts without a batch": (lambda x: F.adaptive_max_pool2d(x[0], (4, 6)), IMAGE),
    "between others": (lambda x: F.max_pool2d(x.relu() * 3, 2).sqrt() + 1, IMAGE),
}
for name, window in WINDOWS.items():
    CASES |= {
        f"max {name}": (nn.MaxPool2d(**window), IMAGE),
        f"max {name}, where": (nn.MaxPool2d(**window, return_indices=True), IMAGE),
        f"mean {name}": (nn.AvgPool2d(**window), IMAGE),
        f"mean {name} of what is inside": (nn.AvgPool2d(**window, count_include_pad=False), IMAGE),
    }


@pytest.mark.parametrize("name", CASES)
def test_pool(name: str) -> None:
    function, x = CASES[name]
    for capture in ("aot", "direct"):
        check_whole(function, x, exact=True, capture=capture)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_largest_of_short_rows(tier: str) -> None:
    """Large windows, a few in a row, of which the graph does not ask where."""

    def function(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return F.max_pool2d(x, 5, 2, 2) + 1, F.max_pool3d(v.relu(), 3, 2, 1)

    check_whole(function, IMAGE[..., :13], VOLUME[..., :9], exact=True, capture="direct", tier=tier)


@pytest.mark.parametrize("name", CASES)
def test_pool_of_strided_tensors(name: str) -> None:
    function, x = CASES[name]
    tier = "gcc" if name in ("max overlapping, where", "mean of a volume") else "tcc"
    check_whole(function, spread(x), exact=True, tier=tier)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_back_where_it_was(dtype: torch.dtype) -> None:
    """Indices are those of a pool, in rows, planes and volumes."""

    def numbers(x: Tensor) -> Tensor:
        return x.nan_to_num(posinf=9, neginf=-9).to(dtype)

    line = F.max_pool1d(numbers(LINE[..., :40]), 2, return_indices=True)
    plane = F.max_pool2d(numbers(IMAGE[:, :, :12]), 2, return_indices=True)
    volume = F.max_pool3d(numbers(VOLUME[..., :6, :]), (1, 2, 3), return_indices=True)
    check_whole(lambda *args: F.max_unpool1d(*args, 2), *line, exact=True)
    check_whole(lambda *args: F.max_unpool2d(*args, 2), *plane, exact=True)
    check_whole(lambda *args: F.max_unpool2d(*args, 2), *plane, exact=True, dynamic=True)
    check_whole(lambda *args: F.max_unpool3d(*args, (1, 2, 3)), *volume, exact=True)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[:1],
        lambda x: x[:, :1],
        lambda x: x[:, :2, ::2],
        lambda x: x[:1, :1, :1, :1],
        lambda x: x.transpose(2, 3),
        lambda x: x[:, :, :1].expand(x.shape),
        lambda x: x[0],
    ],
)
def test_back_among_channels(view: Any, dynamic: bool, compiler: Any) -> None:
    """The result lies as the pooled image does, of which torch's fake tensors know nothing."""
    x = view(image(2, 3, 4, 6).contiguous(memory_format=torch.channels_last))
    size = x.shape[-2:].numel()
    at = torch.stack([torch.randperm(size) for _ in range(x.numel() // size)]).view(x.shape)

    def function(x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        plain = aten.max_unpool2d(x, at, [4, 6])
        return plain, aten.max_unpool2d(x + 1, at, [4, 6]) * 2

    if not dynamic:
        check_whole(function, x, at, exact=True)
        return
    with torch.no_grad():
        mine, theirs = compiler(function, dynamic=True)(x, at), function(x, at)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
    assert mine[0].stride() == theirs[0].stride()


@pytest.mark.parametrize("index", [16, -1])
@pytest.mark.parametrize("name", ["max_unpool1d", "max_unpool2d", "max_unpool3d"])
def test_back_to_a_place_that_is_not_there(name: str, index: int, compiler: Any) -> None:
    axes = int(name[-2])
    x, at = torch.randn([1, 1] + [2] * axes), torch.arange(2**axes).view([1, 1] + [2] * axes)
    at.view(-1)[-1] = 4 * index

    def function(x: Tensor, at: Tensor) -> Tensor:
        return getattr(F, name)(x, at, 2) + 1

    with torch.no_grad():
        for call in (function, compiler(function)):
            with pytest.raises(RuntimeError, match="Found an invalid max index"):
                call(x, at)


#: The number of windows is in the program; where the last one ends is not known.
FIXED = ("even", "parts", "beyond the padding")


@pytest.mark.parametrize("name", [n for n in CASES if not any(word in n for word in FIXED)])
def test_pool_of_any_size(name: str) -> None:
    function, x = CASES[name]
    check_whole(function, x, exact=True, dynamic=True)


def test_one_program_for_all_sizes() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        where = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        return *where, F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)

    with collect() as reports, torch.no_grad():
        compiled = torch.compile(function, backend="dlc", dynamic=True, options={"strict": True})
        for height, width in ((13, 34), (8, 8), (2, 5), (31, 2)):
            x = image(2, 3, height, width)
            torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0, equal_nan=True)
    assert len(reports) == 1


@pytest.mark.parametrize("where", [False, True])
def test_max_in_every_dtype(where: bool) -> None:
    def function(x: Tensor) -> list[Any]:
        return [F.max_pool2d(x.to(d), 3, 2, 1, return_indices=where) for d in (*FLOATS, *INTEGERS)]

    check_whole(function, image(2, 3, 13, 34).nan_to_num(posinf=3, neginf=0), exact=True)


def test_mean_in_every_dtype() -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [F.avg_pool2d(x.to(d), 3, 2, 1) for d in FLOATS]

    check_whole(function, torch.randn(2, 3, 13, 34, generator=torch.Generator().manual_seed(2)), exact=True)


@pytest.mark.parametrize("name", ["max overlapping, where", "mean overlapping"])
def test_pool_of_no_images(name: str) -> None:
    check_whole(CASES[name][0], IMAGE[:0], exact=True)


@pytest.mark.parametrize("padding", [0, 1])
def test_channels_last(compiler: Any, padding: int) -> None:
    """Strides are eager's; with padding and many channels the operator is a call, which is quicker."""
    x = IMAGE.to(memory_format=torch.channels_last)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return F.max_pool2d(x, 3, 2, padding), F.avg_pool2d(x, 3, 2, padding)

    with torch.no_grad():
        for mine, theirs in zip(compiler(function)(x), function(x), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True, check_stride=True)


GRADIENTS: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "side by side": ((2, 3, 12, 34), ([2, 2], [2, 2], [0, 0], False, True, None)),
    "with elements left over": ((2, 3, 13, 35), ([2, 2], [2, 2], [0, 0], False, True, None)),
    "beyond the end": ((2, 3, 13, 35), ([2, 2], [2, 2], [0, 0], True, True, None)),
    "one element apart": ((2, 3, 13, 35), ([3, 2], [1, 1], [1, 0], False, True, None)),
    "of what is inside": ((2, 3, 13, 35), ([3, 3], [1, 1], [1, 1], False, False, None)),
    "over a number": ((2, 3, 13, 35), ([3, 3], [1, 1], [1, 1], False, False, 7)),
    "without a batch": ((3, 13, 35), ([3, 3], [1, 1], [0, 0], False, True, None)),
    "overlapping": ((2, 3, 13, 34), ([3, 3], [2, 2], [1, 1], False, True, None)),
    "overlapping, beyond the end": ((2, 3, 12, 35), ([3, 4], [2, 3], [1, 2], True, False, None)),
    "overlapping, of one row": ((1, 2, 1, 9), ([1, 5], [1, 2], [0, 1], False, True, None)),
    "with gaps": ((2, 3, 13, 35), ([2, 1], [3, 2], [1, 0], False, True, None)),
    "in a volume": ((2, 2, 5, 6, 33), ([3] * 3, [2] * 3, [1] * 3, False, True, None)),
    "side by side in a volume": ((2, 2, 4, 6, 32), ([2] * 3, [2] * 3, [0] * 3, False, True, None)),
}
PARTS = {
    "uneven": (3, 10),
    "even": (3, 17),
    "of three": (4, 34),
    "more than there are": (20, 40),
    "one": (1, 1),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_of_a_mean(name: str) -> None:
    shape, args = GRADIENTS[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    volume = len(args[0]) == 3
    pool, backward = (
        (aten.avg_pool3d, aten.avg_pool3d_backward) if volume else (aten.avg_pool2d, aten.avg_pool2d_backward)
    )
    grad = torch.randn(pool(x, *args).shape, generator=torch.Generator().manual_seed(4))
    check_whole(lambda g, x: backward(g, x, *args), grad, x, exact=True)
    check_whole(lambda g, x: backward(g, x, *args), *spread((grad, x)), exact=True, tier="gcc")


@pytest.mark.parametrize("name", PARTS)
def test_gradient_of_parts(name: str) -> None:
    def function(g: Tensor, x: Tensor) -> Tensor:
        return aten._adaptive_avg_pool2d_backward(g, x)

    x = torch.randn(2, 3, 12, 34, generator=torch.Generator().manual_seed(3))
    grad = torch.randn(2, 3, *PARTS[name], generator=torch.Generator().manual_seed(4))
    check_whole(function, grad, x, exact=True)
    check_whole(function, *spread((grad, x)), exact=True, tier="gcc")
    check_whole(function, grad.double(), x.double(), exact=True)


def test_gradient_of_parts_of_a_volume() -> None:
    x = torch.randn(2, 2, 6, 7, 12, generator=torch.Generator().manual_seed(3))
    for size in ((4, 3, 5), (2, 7, 4)):
        grad = torch.randn(2, 2, *size, generator=torch.Generator().manual_seed(4))
        check_whole(lambda g, x: aten._adaptive_avg_pool3d_backward(g, x), grad, x, exact=True)


def test_gradient_of_a_mean_of_any_size() -> None:
    def function(g: Tensor, x: Tensor) -> Tensor:
        return aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, True, None)

    for shape in ((2, 3, 13, 34), (2, 3, 8, 9)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
        check_whole(function, aten.avg_pool2d(x, 3, 2, 1), x, exact=True, dynamic=True)


def test_training(compiler: Any) -> None:
    """Forward and backward through each pool, one size after another."""

    def function(x: Tensor) -> Tensor:
        a = F.max_pool2d(x * 2, 3, 2, 1)
        b = F.avg_pool2d(a, 2) * F.adaptive_avg_pool2d(a, 1)
        return b.sum() + F.avg_pool2d(x, 3, 1, 1).square().sum()

    compiled = compiler(function)
    for width in (20, 32, 36):
        x = torch.randn(2, 3, 24, width, generator=torch.Generator().manual_seed(4))
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        compiled(mine).backward()
        function(theirs).backward()
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_wrong_windows_are_eagers_errors(compiler: Any) -> None:
    def function(x: Tensor) -> Tensor:
        return F.avg_pool2d(x + 1, 2, padding=2)

    with pytest.raises(Exception, match="pad"):
        compiler(function)(IMAGE)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("name", WINDOWS)
def test_gradients_of_the_largest(name: str, tier: str) -> None:
    """Windows that overlap choose one place several times: summed in eager's order."""
    x = torch.randn(2, 3, 13, 34, generator=torch.Generator().manual_seed(4))
    w = WINDOWS[name]
    size, step = w["kernel_size"], w.get("stride", w["kernel_size"])
    args = size, step, w.get("padding", 0), 1, w.get("ceil_mode", False)
    made, at = F.max_pool2d(x, *args, return_indices=True)
    grad = torch.randn(made.shape, generator=torch.Generator().manual_seed(5))
    pairs = [[a, a] if isinstance(a, int) and not isinstance(a, bool) else a for a in args]

    def function(g: Tensor, x: Tensor, at: Tensor) -> Tensor:
        return aten.max_pool2d_with_indices_backward(g, x, *pairs, at)

    check_whole(function, grad, x, at, exact=True, tier=tier)
    last = [t.contiguous(memory_format=torch.channels_last) for t in (grad, x, at)]
    check_whole(function, *last, exact=True, tier=tier)


def test_gradients_of_the_largest_in_a_volume_and_of_uneven_parts() -> None:
    x = torch.randn(2, 2, 6, 7, 33, generator=torch.Generator().manual_seed(4))
    made, at = F.max_pool3d(x, 3, 2, 1, return_indices=True)
    args = [3] * 3, [2] * 3, [1] * 3, [1] * 3, False
    check_whole(
        lambda g, x, i: aten.max_pool3d_with_indices_backward(g, x, *args, i), made, x, at, exact=True
    )
    made, at = F.adaptive_max_pool2d(x[0], (3, 10), return_indices=True)
    check_whole(lambda g, x, i: aten.adaptive_max_pool2d_backward(g, x, i), made, x[0], at, exact=True)

"""What is written in place is stored there by the kernel itself, and nobody can tell by the values."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor


def flip(x: Tensor, y: Tensor) -> None:
    x.copy_(x.flip(0))


def centre(x: Tensor, y: Tensor) -> None:
    x.sub_(x.mean())


def softmax(x: Tensor, y: Tensor) -> None:
    x.copy_(x.softmax(-1))


def neighbours(x: Tensor, y: Tensor) -> None:
    x[1:].add_(y[:-1])


def kept(x: Tensor, y: Tensor) -> Tensor:
    before = x.clone()
    x.mul_(y)
    return before


def swap(x: Tensor, y: Tensor) -> None:
    before = x.clone()
    x.copy_(y)
    y.copy_(before)


def crossed(x: Tensor, y: Tensor) -> None:
    a, b = x + y, x - y
    x.copy_(a)
    y.copy_(b)


def factor(x: Tensor, y: Tensor) -> None:
    x.addcmul_(y, y, value=0.5).addcdiv_(y, y.abs() + 1, value=-2.0)


def read_before(x: Tensor, y: Tensor) -> Tensor:
    doubled = x * 2
    x.add_(1)
    return doubled + x


def reduced_beside(x: Tensor, y: Tensor) -> None:
    x.mul_(0.9).add_(y.exp().sum(), alpha=0.1)


def twisted(x: Tensor, y: Tensor) -> None:
    x.t().sub_(y.t() * 3)


def forgotten(x: Tensor, y: Tensor) -> None:
    x.zero_()


def looked_at(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x[0]


def through_call(x: Tensor, y: Tensor) -> Tensor:
    product = x @ y.t()
    x.add_(1)
    return product


def to_other(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
    x.add_(1)


def one(x: Tensor, y: Tensor) -> None:
    y.mul_(x.sum())


def row(x: Tensor, y: Tensor) -> Tensor:
    x.index_copy_(0, torch.tensor([3]), y[:1] * 2)
    return x @ y.t()


def rows(x: Tensor, y: Tensor) -> None:
    x[torch.tensor([5, 0, -1])] = y[2:5]


def sums(x: Tensor, y: Tensor) -> None:
    x.mul_(0.5).index_add_(1, torch.tensor([4, 4, 0]), y[:, :3])


def block(x: Tensor, y: Tensor) -> Tensor:
    x[4:9] = y[:5] + 1
    return x.sum(0)


def corner(x: Tensor, y: Tensor) -> None:
    x[-3:, 5:7] = y[:3, :2]


def moved_up(x: Tensor, y: Tensor) -> None:
    x[1:] = x[:-1].clone()


def unit_rows(x: Tensor, y: Tensor) -> None:
    x.div_(x.norm(dim=-1, keepdim=True) + 1)


def unit_columns(x: Tensor, y: Tensor) -> None:
    x.div_(x.abs().sum(0) + y[0])


def one_row(x: Tensor, y: Tensor) -> None:
    x[3].mul_(y[1])


def as_one(x: Tensor, y: Tensor) -> None:
    x.copy_((x.reshape(-1) - y.reshape(-1).flip(0)).reshape(x.shape))


# how many copies are left in the plan
COPIES: dict[Callable[[Tensor, Tensor], object], int] = {
    flip: 1, centre: 0, softmax: 0, neighbours: 0, kept: 1, swap: 3, crossed: 0, factor: 0, read_before: 0,
    reduced_beside: 0, twisted: 0, forgotten: 0, looked_at: 0, through_call: 0, to_other: 2, one: 0,
    row: 0, rows: 0, sums: 0, block: 0, corner: 0, moved_up: 0,
    unit_rows: 0, unit_columns: 0, one_row: 0, as_one: 0,
}  # fmt: skip


def tensors(layout: str) -> list[Tensor]:
    g = torch.Generator().manual_seed(3)
    if layout == "stepped":
        return [torch.rand(37, 90, generator=g)[:, ::2] for _ in range(2)]
    if layout == "transposed":
        return [torch.rand(45, 37, generator=g).t() for _ in range(2)]
    if layout == "large":
        return [torch.rand(700, 500, generator=g) for _ in range(2)]
    return [torch.rand(37, 45, generator=g) for _ in range(2)]


@pytest.mark.parametrize("layout", ["dense", "stepped", "transposed", "large"])
@pytest.mark.parametrize("tier", ["tcc", pytest.param("gcc", marks=pytest.mark.in_turn(4))])
@pytest.mark.parametrize("fn", COPIES, ids=lambda fn: fn.__name__)
def test_as_eager(
    fn: Callable[[Tensor, Tensor], object], tier: str, layout: str, capfd: pytest.CaptureFixture[str]
) -> None:
    torch._dynamo.reset()
    options = {"tier": tier, "dump": "plan", "strict": True}
    compiled = torch.compile(fn, backend="dlc", options=options, dynamic=layout == "dense")
    x, y = tensors(layout)
    a, b = tensors(layout)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x, y), fn(a, b))
            torch.testing.assert_close((x, y), (a, b))
    plan = capfd.readouterr().err
    copies = re.findall(r"^  copy", plan, re.MULTILINE)
    if layout == "dense":
        assert len(copies) == COPIES[fn]
    else:
        assert len(copies) <= max(COPIES[fn], fn in (centre, looked_at))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adadelta"])
def test_a_step_of_an_optimiser_moves_each_tensor_once(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    weights = [torch.nn.Parameter(torch.rand(20, n)) for n in (10, 30)]
    for weight in weights:
        weight.grad = torch.rand_like(weight)
    optimiser = getattr(torch.optim, name)(weights, lr=0.01)
    step = torch.compile(optimiser.step, backend="dlc", options={"dump": "plan"})
    step()
    plan = capfd.readouterr().err.rpartition("/* plan */")[2]
    slots = dict(re.findall(r"^  (%\d+): (.*)$", plan, re.MULTILINE))
    copied = re.findall(r"^  copy %\d+ to (%\d+)$", plan, re.MULTILINE)
    assert "launch" in plan
    assert "call" not in plan
    assert all(slots[slot].endswith("f32[]") for slot in copied)
    assert not [slot for slot in slots.values() if "work" in slot and "20" in slot]


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_operands_that_overlap_are_read_before_anything_is_written(tier: str) -> None:
    """Nothing guards what shared no memory in the first call."""
    torch._dynamo.reset()

    def step(x: Tensor, y: Tensor, z: Tensor) -> None:
        x.copy_(x + y)
        z.mul_(2)

    compiled = torch.compile(step, backend="dlc", options={"tier": tier, "strict": True}, dynamic=False)
    memory = torch.rand(9000, generator=torch.Generator().manual_seed(1))
    for shift in (2500, 900, 3, 0, -3, -900, 2500, 1000, 5, 2500):
        want = memory.clone()
        want[1000:2000] += memory[1000 + shift : 2000 + shift]
        want[8000:] *= 2
        compiled(memory[1000:2000], memory[1000 + shift : 2000 + shift], memory[8000:])
        torch.testing.assert_close(memory, want, rtol=0, atol=0)


def test_a_result_of_a_call_on_it_is_no_view_of_a_parameter() -> None:
    torch._dynamo.reset()

    def step(x: Tensor, y: Tensor) -> Tensor:
        a = x + y
        x.copy_(a)
        return a.view(torch.int32)

    x, y = torch.rand(300), torch.rand(300)
    got = torch.compile(step, backend="dlc", options={"tier": "tcc", "strict": True})(x, y)
    was = got.clone()
    x.zero_()
    torch.testing.assert_close(got, was, rtol=0, atol=0)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("rows", [1, 5, 300])
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_narrow_rows(columns: int, rows: int, tier: str) -> None:
    torch._dynamo.reset()

    def step(x: Tensor, y: Tensor, k: Tensor) -> Tensor:
        z = x.exp()
        x[:, 1:] = k
        y[:, 0] += k[:, 0]
        return z

    compiled = torch.compile(step, backend="dlc", options={"tier": tier, "strict": True})
    tensors = [torch.rand(rows, n) for n in (columns, columns, columns - 1)]
    wants = [tensor.clone() for tensor in tensors]
    for _ in range(2):
        torch.testing.assert_close(compiled(*tensors), step(*wants))
        torch.testing.assert_close(tensors, wants)


@pytest.mark.parametrize("first", [False, True])
def test_what_a_failing_call_has_written_is_what_eager_has(first: bool) -> None:
    torch._dynamo.reset()

    def step(x: Tensor, at: Tensor, table: Tensor) -> Tensor:
        if first:
            x.mul_(2)
        y = table[at] + 1
        return y if first else (x.mul_(2), y)[1]

    compiled = torch.compile(step, backend="dlc", options={"tier": "tcc", "strict": True})
    x, table = torch.rand(300), torch.rand(10)
    want = x.clone()
    for fn, tensor in ((compiled, x), (step, want)):
        with pytest.raises(IndexError):
            fn(tensor, torch.tensor([1, 99]), table)
    torch.testing.assert_close(x, want, rtol=0, atol=0)
    torch.testing.assert_close(
        compiled(x, torch.tensor([1, 9]), table), step(want, torch.tensor([1, 9]), table)
    )
    torch.testing.assert_close(x, want, rtol=0, atol=0)


def test_a_product_with_a_looked_up_factor_is_all_or_nothing() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, at, table: x.mul_(table[at]), backend="dlc", options={"tier": "tcc", "strict": True}
    )
    x, at = torch.rand(3000), torch.zeros(3000, dtype=torch.int64)
    was = x.clone()
    at[2000] = 99
    with pytest.raises(IndexError):
        compiled(x, at, torch.rand(10))
    torch.testing.assert_close(x, was, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_cache_of_keys_is_written_where_it_is(
    dtype: torch.dtype, capfd: pytest.CaptureFixture[str]
) -> None:
    torch._dynamo.reset()

    def decode(keys: Tensor, values: Tensor, k: Tensor, v: Tensor, q: Tensor, at: Tensor) -> Tensor:
        keys.index_copy_(2, at, k)
        values.index_copy_(2, at, v)
        return torch.nn.functional.scaled_dot_product_attention(q, keys, values)

    compiled = torch.compile(decode, backend="dlc", options={"dump": "plan", "strict": True})
    caches = [torch.rand(1, 2, 50, 8).to(dtype) for _ in range(2)]
    wants = [cache.clone() for cache in caches]
    with torch.no_grad():
        for at in range(3):
            k, v, q = (torch.rand(1, 2, 1, 8).to(dtype) for _ in range(3))
            got = compiled(*caches, k, v, q, torch.tensor([at]))
            torch.testing.assert_close(got, decode(*wants, k, v, q, torch.tensor([at])))
            torch.testing.assert_close(caches, wants, rtol=0, atol=0)
    plan = capfd.readouterr().err
    assert "index_copy" not in plan
    assert "copy %" not in plan
    assert "work" not in plan


def test_threads_have_memory_of_their_own() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(factor, backend="dlc", options={"tier": "tcc"})
    start = [torch.full((40, 40), float(k)) for k in range(8)]
    wants = [x.clone() for x in start]
    y = torch.rand(40, 40)
    compiled(start[0].clone(), y)

    def run(x: Tensor) -> None:
        for _ in range(50):
            compiled(x, y)

    threads = [threading.Thread(target=run, args=(x,)) for x in start]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for want, x in zip(wants, start, strict=True):
        for _ in range(50):
            compiled(want, y)
        torch.testing.assert_close(x, want, rtol=0, atol=0)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_what_is_read_late_has_memory_of_its_own(tier: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The loops are over rows, and each row's sum is one of a column."""
    torch._dynamo.reset()

    def step(x: Tensor, y: Tensor) -> None:
        x.sub_(x.sum(0)[:, None])
        y.sub_(y.sum(0)[:, None])

    compiled = torch.compile(
        step, backend="dlc", options={"tier": tier, "dump": "in_place,plan", "strict": True}
    )
    tensors = [torch.rand(45, 45, dtype=torch.float64) for _ in range(2)]
    wants = [tensor.clone() for tensor in tensors]
    for _ in range(2):
        compiled(*tensors)
        step(*wants)
        torch.testing.assert_close(tensors, wants)
    text = capfd.readouterr().err
    assert text.count(" over ") > text.count("launch")
    assert len(re.findall(r"^  copy", text, re.MULTILINE)) == 2


def spread(shape: tuple[int, ...], order: tuple[int, ...], dtype: torch.dtype, step: int) -> Tensor:
    """Of the shape, with its axes in memory in this order and elements a step apart."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    memory = torch.arange(math.prod(shape) * step).to(bits).view(*(shape[k] for k in order), step)
    return memory.view(dtype)[..., 0].permute(tuple(order.index(k) for k in range(len(shape))))


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.uint16, torch.uint32, torch.uint64])
@pytest.mark.parametrize("shape", [(3, 1, 5), (70, 130, 3), (2, 150, 257), (1, 40000, 1)])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)])
def test_what_no_kernel_has_is_copied_in_blocks(
    order: tuple[int, ...], shape: tuple[int, ...], dtype: torch.dtype, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {"tier": "tcc", "dump": "plan", "strict": True}
    for step in (1, 2):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, y: x.copy_(y), backend="dlc", options=options, dynamic=False)
        x, y = spread(shape, (0, 1, 2), dtype, 3 - step), spread(shape, order, dtype, step)
        want = x.untyped_storage().clone()
        torch.empty(0, dtype=dtype).set_(want, 0, x.shape, x.stride()).copy_(y)
        compiled(x, y)
        assert re.search(r"^  copy %\d+ to %0$", capfd.readouterr().err, re.MULTILINE)
        have, whole = (torch.empty(0, dtype=torch.uint8).set_(s) for s in (x.untyped_storage(), want))
        assert torch.equal(have, whole)

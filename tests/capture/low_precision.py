"""Weights in few bits, as libraries store them: each as a module whose `decode` has the library's formulas.

The codes are random. `rows` is N, `columns` K: where a format has groups, they go along K.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
    1.0,
)  # fmt: skip
FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def codes(*sizes: int, bits: int = 8) -> Tensor:
    return torch.randint(0, 1 << bits, sizes, dtype=torch.uint8)


def halves(*sizes: int) -> Tensor:
    """Scales as f16, seen as the bytes they are stored in."""
    return (0.01 + 0.05 * torch.rand(*sizes)).half().contiguous().view(torch.uint8)


class Decoded(nn.Module):
    """A linear layer whose weight is decoded in each call, in f32, and cast to the activations' dtype."""

    def decode(self) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.decode().to(x.dtype))


class Blocks(Decoded):
    """GGUF, as diffusers and transformers decode it: blocks of 32 or 256 weights, each a run of bytes."""

    bytes_, weights = 0, 0

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        blocks = torch.cat(self.random(rows * columns // self.weights), dim=-1)
        self.shape = rows, columns
        self.register_buffer("blocks", blocks.reshape(rows, -1))

    def random(self, n: int) -> list[Tensor]:
        raise NotImplementedError

    def weight(self, blocks: Tensor) -> Tensor:
        raise NotImplementedError

    def decode(self) -> Tensor:
        blocks = self.blocks.reshape(
            -1, self.blocks.numel() * self.weights // (self.shape[0] * self.shape[1])
        )
        return self.weight(blocks).reshape(self.shape)


def split(blocks: Tensor, *sizes: int) -> list[Tensor]:
    n = blocks.shape[1] - sum(sizes)
    return list(torch.split(blocks, [*sizes, n], dim=1))


def scale_min(scales: Tensor) -> tuple[Tensor, Tensor]:
    """Six bits each: eight scales and eight minima in twelve bytes."""
    n = scales.shape[0]
    d, m, m_d = torch.split(scales.view(torch.uint8).reshape(n, 3, 4), 1, dim=-2)
    sc = torch.cat([d & 0x3F, (m_d & 0x0F) | ((d >> 2) & 0x30)], dim=-1)
    low = torch.cat([m & 0x3F, (m_d >> 4) | ((m >> 2) & 0x30)], dim=-1)
    return sc.reshape(n, 8), low.reshape(n, 8)


class Q8_0(Blocks):
    weights = 32

    def random(self, n: int) -> list[Tensor]:
        return [halves(n, 1), codes(n, 32)]

    def weight(self, blocks: Tensor) -> Tensor:
        d, x = split(blocks, 2)
        return d.view(torch.float16).to(torch.float32) * x.view(torch.int8)


class Q4_0(Blocks):
    weights = 32

    def random(self, n: int) -> list[Tensor]:
        return [halves(n, 1), codes(n, 16)]

    def weight(self, blocks: Tensor) -> Tensor:
        n = blocks.shape[0]
        d, qs = split(blocks, 2)
        d = d.view(torch.float16).to(torch.float32)
        shift = torch.tensor([0, 4], device=d.device, dtype=torch.uint8).reshape((1, 1, 2, 1))
        qs = qs.reshape((n, -1, 1, 16)) >> shift
        return d * ((qs & 0x0F).reshape((n, -1)).to(torch.int8) - 8)


class Q4_1(Blocks):
    weights = 32

    def random(self, n: int) -> list[Tensor]:
        return [halves(n, 1), halves(n, 1), codes(n, 16)]

    def weight(self, blocks: Tensor) -> Tensor:
        n = blocks.shape[0]
        d, m, qs = split(blocks, 2, 2)
        d, m = (t.view(torch.float16).to(torch.float32) for t in (d, m))
        shift = torch.tensor([0, 4], device=d.device, dtype=torch.uint8).reshape((1, 1, 2, 1))
        qs = qs.reshape((n, -1, 1, 16)) >> shift
        return d * (qs & 0x0F).reshape((n, -1)) + m


class Q4_K(Blocks):
    weights = 256

    def random(self, n: int) -> list[Tensor]:
        return [halves(n, 1), halves(n, 1), codes(n, 12), codes(n, 128)]

    def weight(self, blocks: Tensor) -> Tensor:
        n = blocks.shape[0]
        d, dmin, scales, qs = split(blocks, 2, 2, 12)
        d, dmin = (t.view(torch.float16).to(torch.float32) for t in (d, dmin))
        sc, m = scale_min(scales)
        d, dm = (d * sc).reshape((n, -1, 1)), (dmin * m).reshape((n, -1, 1))
        shift = torch.tensor([0, 4], device=d.device, dtype=torch.uint8).reshape((1, 1, 2, 1))
        qs = ((qs.reshape((n, -1, 1, 32)) >> shift) & 0x0F).reshape((n, -1, 32))
        return d * qs - dm


class Q5_K(Blocks):
    weights = 256

    def random(self, n: int) -> list[Tensor]:
        return [halves(n, 1), halves(n, 1), codes(n, 12), codes(n, 32), codes(n, 128)]

    def weight(self, blocks: Tensor) -> Tensor:
        n = blocks.shape[0]
        d, dmin, scales, qh, qs = split(blocks, 2, 2, 12, 32)
        d, dmin = (t.view(torch.float16).to(torch.float32) for t in (d, dmin))
        sc, m = scale_min(scales)
        d, dm = (d * sc).reshape((n, -1, 1)), (dmin * m).reshape((n, -1, 1))
        shift = torch.tensor([0, 4], device=d.device, dtype=torch.uint8).reshape((1, 1, 2, 1))
        ql = qs.reshape((n, -1, 1, 32)) >> shift
        bit = torch.tensor(list(range(8)), device=d.device, dtype=torch.uint8).reshape((1, 1, 8, 1))
        qh = qh.reshape((n, -1, 1, 32)) >> bit
        ql, qh = (ql & 0x0F).reshape((n, -1, 32)), (qh & 0x01).reshape((n, -1, 32))
        return d * (ql | (qh << 4)) - dm


class Q6_K(Blocks):
    weights = 256

    def random(self, n: int) -> list[Tensor]:
        return [codes(n, 128), codes(n, 64), codes(n, 16), halves(n, 1)]

    def weight(self, blocks: Tensor) -> Tensor:
        n = blocks.shape[0]
        ql, qh, scales, d = split(blocks, 128, 64, 16)
        scales = scales.view(torch.int8).to(torch.float32)
        d = (d.view(torch.float16).to(torch.float32) * scales).reshape((n, 16, 1))
        nibble = torch.tensor([0, 4], device=d.device, dtype=torch.uint8).reshape((1, 1, 2, 1))
        ql = ((ql.reshape((n, -1, 1, 64)) >> nibble) & 0x0F).reshape((n, -1, 32))
        pair = torch.tensor([0, 2, 4, 6], device=d.device, dtype=torch.uint8).reshape((1, 1, 4, 1))
        qh = ((qh.reshape((n, -1, 1, 32)) >> pair) & 0x03).reshape((n, -1, 32))
        q = (ql | (qh << 4)).to(torch.int8) - 32
        return d * q.reshape((n, 16, -1))


class GPTQ(Decoded):
    """Eight weights in an i32 along K, as many zero points in one along N, the group of each k in g_idx."""

    def __init__(self, rows: int, columns: int, group: int = 32, ordered: bool = True) -> None:
        super().__init__()
        words = torch.randint(-(2**31), 2**31, (columns // 8 + columns // group, rows), dtype=torch.int32)
        self.register_buffer("qweight", words[: columns // 8].contiguous())
        self.register_buffer("qzeros", words[columns // 8 :, : rows // 8].contiguous())
        self.register_buffer("scales", 0.01 + 0.05 * torch.rand(columns // group, rows))
        g_idx = torch.arange(columns, dtype=torch.int32) // group
        self.register_buffer("g_idx", g_idx if ordered else g_idx[torch.randperm(columns)])
        self.register_buffer("wf", torch.arange(0, 32, 4, dtype=torch.int32).unsqueeze(0))

    def decode(self) -> Tensor:
        wf = self.wf
        zeros = torch.bitwise_right_shift(self.qzeros.unsqueeze(2).expand(-1, -1, 8), wf.unsqueeze(0))
        zeros = torch.bitwise_and(zeros.to(torch.int8), 15).reshape(self.scales.shape) + 1
        weight = torch.bitwise_right_shift(self.qweight.unsqueeze(1).expand(-1, 8, -1), wf.unsqueeze(-1))
        weight = torch.bitwise_and(weight.to(torch.int8), 15)
        weight = weight.reshape(weight.shape[0] * weight.shape[1], weight.shape[2])
        at = self.g_idx.long()
        return (self.scales[at] * (weight - zeros[at])).t()


class AWQ(Decoded):
    """Eight weights in an i32 along N, in the order 0 2 4 6 1 3 5 7."""

    def __init__(self, rows: int, columns: int, group: int = 32) -> None:
        super().__init__()
        self.group = group
        words = torch.randint(-(2**31), 2**31, (columns + columns // group, rows // 8), dtype=torch.int32)
        self.register_buffer("qweight", words[:columns].contiguous())
        self.register_buffer("qzeros", words[columns:].contiguous())
        self.register_buffer("scales", 0.01 + 0.05 * torch.rand(columns // group, rows))

    def unpacked(self, words: Tensor) -> Tensor:
        shifts = torch.arange(0, 32, 4, device=words.device)
        return (
            torch.bitwise_right_shift(words[:, :, None], shifts[None, None, :])
            .to(torch.int8)
            .view(words.shape[0], -1)
        )

    def ordered(self, values: Tensor) -> Tensor:
        order = torch.arange(values.shape[-1], dtype=torch.int32, device=values.device).view(-1, 8)
        order = order[:, [0, 4, 1, 5, 2, 6, 3, 7]].view(-1)
        return values[:, order]

    def decode(self) -> Tensor:
        weight, zeros = (self.ordered(self.unpacked(w)) & 0b1111 for w in (self.qweight, self.qzeros))
        scales = self.scales.repeat_interleave(self.group, dim=0)
        zeros = zeros.repeat_interleave(self.group, dim=0)
        return ((weight - zeros) * scales).t()


class NF4_(Decoded):
    """bitsandbytes: indices of a table, two in a byte, and a scale for each group in row-major order."""

    def __init__(self, rows: int, columns: int, group: int = 64, literal: bool = False) -> None:
        super().__init__()
        self.shape, self.group, self.literal = (rows, columns), group, literal
        self.register_buffer("packed", codes(rows * columns // 2, 1))
        self.register_buffer("absmax", 0.01 + torch.rand(rows * columns // group))
        self.register_buffer("table", torch.tensor(NF4))

    def decode(self) -> Tensor:
        table = torch.tensor(NF4) if self.literal else self.table
        both = torch.stack([self.packed >> 4, self.packed & 15], dim=-1).reshape(-1)
        return (table[both.int()].reshape(-1, self.group) * self.absmax[:, None]).reshape(self.shape)


class MXFP4(Decoded):
    """Groups of 32 FP4 numbers, two in a byte, with a power of two each (transformers' GPT-OSS)."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.register_buffer("blocks", codes(rows, columns // 32, 16))
        self.register_buffer("scales", torch.randint(120, 134, (rows, columns // 32), dtype=torch.uint8))

    def decode(self) -> Tensor:
        lut = torch.tensor(FP4, dtype=torch.float32)
        low, high = lut[(self.blocks & 0x0F).to(torch.long)], lut[(self.blocks >> 4).to(torch.long)]
        values = torch.stack([low, high], dim=-1).flatten(-2)
        values = torch.ldexp(values, (self.scales.to(torch.int32) - 127)[..., None])
        return values.flatten(-2)


class Written(Decoded):
    """Eight bits and a scale for each row, written out."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.register_buffer("weight", codes(rows, columns).view(torch.int8))
        self.register_buffer("scales", 0.01 + 0.05 * torch.rand(rows, 1))

    def decode(self) -> Tensor:
        return self.weight.to(torch.float32) * self.scales


class Float8(Decoded):
    def __init__(self, rows: int, columns: int, dtype: torch.dtype = torch.float8_e4m3fn) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(rows, columns).to(dtype))
        self.register_buffer("scales", 0.01 + 0.05 * torch.rand(rows, 1))

    def decode(self) -> Tensor:
        return self.weight.to(torch.float32) * self.scales

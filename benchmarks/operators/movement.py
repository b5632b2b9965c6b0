"""Operators that move elements: copies, joins, what reads or writes at places that it is given, sorts."""

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.cases.case import Case, case, cube, flat, matrix, normal, rows

BATCH = normal(lambda n: (cube(n, 64),))
PAIR = normal(lambda n: (rows(n), rows(n)))
IMAGES = normal(lambda n: ((1, 4, max(8, int((n // 4) ** 0.5)), max(8, int((n // 4) ** 0.5))),))


def table(n: int, width: int = 64) -> tuple[int, int]:
    """A table of words: half as many words as would make n elements."""
    return max(16, n // width // 2), width


def words(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    """Words whose rows together are n elements, and a table."""
    count, width = table(n)
    return torch.randint(count, (max(2, n // width),), generator=g), torch.randn(count, width, generator=g)


def bags(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    """Bags of 16 words, whose rows together are n elements, and a table."""
    count, width = table(n)
    bag = (max(1, n // width // 16), 16)
    return torch.randint(count, bag, generator=g), torch.randn(count, width, generator=g)


def picked_rows(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    r, c = rows(n)
    return torch.randn(r, c, generator=g), torch.randint(r, (r,), generator=g)


def picked_columns(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    r, c = rows(n)
    return torch.randn(r, c, generator=g), torch.randint(c, (c,), generator=g)


def places(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    """A matrix, a row for each of its elements, and values."""
    r, c = rows(n)
    return (
        torch.randn(r, c, generator=g),
        torch.randint(r, (r, c), generator=g),
        torch.randn(r, c, generator=g),
    )


CASES: tuple[Case, ...] = (
    case(lambda x: x.clone(), flat(1), "clone"),
    case(lambda x, y: x.copy_(y), flat(2), "copy_"),
    case(lambda x: x.clone(), flat(1), "clone").of(torch.bfloat16),
    case(lambda x: x.t().contiguous(), matrix(), "transposed copy"),
    case(lambda x: x.permute(1, 0, 2).contiguous(), BATCH, "permuted copy"),
    case(lambda x: x[:, ::2].contiguous(), matrix(), "copy of every second column"),
    case(lambda x: x[:, 1:-1].contiguous(), matrix(), "copy of inner columns"),
    case(lambda x: x.repeat(2, 1), matrix(), "repeat"),
    case(lambda x: x.repeat_interleave(2, 0), matrix(), "repeat_interleave"),
    case(lambda x, y: torch.cat([x, y]), PAIR, "cat of axis 0"),
    case(lambda x, y: torch.cat([x, y], 1), PAIR, "cat of axis 1"),
    case(lambda x, y: torch.stack([x, y]), PAIR, "stack of axis 0"),
    case(lambda x, y: torch.stack([x, y], -1), PAIR, "stack of axis -1"),
    case(lambda x: x.roll(3, 0), matrix(), "roll of axis 0"),
    case(lambda x: x.roll(3, 1), matrix(), "roll of axis 1"),
    case(lambda x: x.flip(0), matrix(), "flip of axis 0"),
    case(lambda x: x.flip(1), matrix(), "flip of axis 1"),
    case(lambda x: F.pad(x, (2, 2, 2, 2)), IMAGES, "pad"),
    case(lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), IMAGES, "pad, reflect"),
    case(lambda x: F.pad(x, (2, 2, 2, 2), mode="replicate"), IMAGES, "pad, replicate"),
    case(lambda x: x.tril(), matrix(), "tril"),
    case(lambda x: F.pixel_shuffle(x, 2), IMAGES, "pixel_shuffle"),
    case(lambda x: F.unfold(x, 3), IMAGES, "unfold"),
    case(lambda i, w: F.embedding(i, w), words, "embedding"),
    case(lambda i, w: F.embedding(i, w), words, "embedding gradient", train=True),
    case(lambda i, w: F.embedding_bag(i, w, mode="sum"), bags, "embedding_bag, sum"),
    case(lambda i, w: F.embedding_bag(i, w, mode="mean"), bags, "embedding_bag, mean"),
    case(lambda i, w: F.embedding_bag(i, w, mode="max"), bags, "embedding_bag, max"),
    case(lambda x, i: x.index_select(0, i), picked_rows, "index_select of axis 0"),
    case(lambda x, i: x.index_select(1, i), picked_columns, "index_select of axis 1"),
    case(lambda x, i: x[i], picked_rows, "index"),
    case(lambda x, i, v: x.gather(0, i), places, "gather"),
    case(lambda x, i, v: x.scatter(0, i, 1.0), places, "scatter of a number"),
    case(lambda x, i, v: x.scatter_add(0, i, v), places, "scatter_add"),
    case(lambda x, i: torch.zeros_like(x).index_add(0, i, x), picked_rows, "index_add"),
    case(lambda x: x.sort(-1)[0], matrix(), "sort"),
    case(lambda x: x.argsort(-1), matrix(), "argsort"),
    case(lambda x: x.topk(8, -1)[0], matrix(), "topk"),
    case(lambda x, y: torch.searchsorted(x.sort()[0], y), flat(2), "sort and searchsorted"),
)

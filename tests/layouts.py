"""Random products, convolutions and attention of operands of every layout, under dlc and eager.

A seed says all of a case: the program, the sizes, what stands before and behind the product, the layout of
each operand and of the gradient that comes in, dtype and options. What is looked for is a kernel that takes
one layout of memory for another: rows that are further apart than they are long, heads that are transposed,
a batch without a stride.

    python -m tests.layouts --seed 1000 --count 500      these cases: prints the failures, and how many
    python -m tests.layouts --seed 1234                  one case
    python -m tests.layouts --seed 1 --count 9 --list    what they are, without running them
"""

import argparse
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from tests.dynamo import leave_guards_untimed
from tests.models.runs import assert_steps
from tests.tolerance import Run, assert_same_kind, double, strides

#: ones around panels of columns, tiles and vectors; those of one panel in float64 and float32 often
SIZES = (
    *(16, 16, 16, 32, 32, 32, 32, 64),
    *(1, 2, 3, 5, 7, 8, 13, 14, 15, 16, 17, 24, 27, 28, 29, 31, 32, 33, 40, 48, 63, 64, 65, 70),
)
HEADS = (8, 16, 16, 24, 31, 32, 32, 33, 48, 64)
CHANNELS = (1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 31, 32, 33, 64)
FEW = (1, 2, 3, 4)
POINTS = (5, 6, 7, 8, 9, 13, 14, 16, 17)
HALVES = (torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int32, torch.int64)
DTYPES = (
    *(torch.float32,) * 14,
    *(torch.float64,) * 3,
    torch.bfloat16,
    torch.bfloat16,
    torch.float16,
    *INTEGERS,
)
MORE = 9  # runs on other numbers, where one breaks the rule

Sizes = tuple[int, ...]
Axes = tuple[int | str, ...]  # a letter is a size that is drawn, and that may change


@dataclass(frozen=True)
class Layout:
    """A way to lie in memory: a view of a dense tensor of other sizes."""

    name: str
    before: Callable[[Sizes], Sizes]  # of the sizes of the view those of the dense tensor
    view: Callable[[Tensor, Sizes], Tensor]  # of a tensor of those, and the sizes of the view
    of_any_size: bool = True  # the view does not ask for its sizes


def then(outer: Layout, inner: Layout) -> Layout:
    """The layout of a view of a view."""
    return Layout(
        f"{outer.name} of {inner.name}",
        lambda sizes: inner.before(outer.before(sizes)),
        lambda t, sizes: outer.view(inner.view(t, outer.before(sizes)), sizes),
        outer.of_any_size and inner.of_any_size,
    )


def dense(choose: random.Random, rank: int) -> Layout:
    return Layout("dense", lambda sizes: sizes, lambda t, sizes: t)


def apart(choose: random.Random, rank: int) -> Layout:
    """The first columns of more, so that rows are further apart."""
    more = choose.choice((1, 3, 8, 16, 32))
    return Layout(f"[..., :-{more}]", lambda s: (*s[:-1], s[-1] + more), lambda t, _: t[..., :-more])


def seconds(choose: random.Random, rank: int) -> Layout:
    """Every second row, or column, or other part of an axis."""
    axis = choose.choice([k for k in (rank - 1, rank - 2, rank - 2, choose.randrange(rank)) if k >= 0])
    index = (*(slice(None),) * axis, slice(None, None, 2))
    name = f"[{':, ' * axis}::2]"
    return Layout(name, lambda s: (*s[:axis], 2 * s[axis], *s[axis + 1 :]), lambda t, _: t[index])


def offset(choose: random.Random, rank: int) -> Layout:
    """What begins within other memory: not at a multiple of a vector."""
    first, last = choose.choice((0, 1, 2)), choose.choice((1, 3, 4))
    if rank == 1:
        return Layout(f"[{last}:]", lambda s: (s[0] + last,), lambda t, _: t[last:])
    return Layout(
        f"[{first}:, ..., {last}:]",
        lambda s: (s[0] + first, *s[1:-1], s[-1] + last),
        lambda t, _: t[first:, ..., last:],
    )


def permuted(choose: random.Random, rank: int) -> Layout:
    """Any order of the axes in memory."""
    return ordered(choose.sample(range(rank), rank))


def transposed(choose: random.Random, rank: int) -> Layout:
    """Columns that are rows in memory."""
    return ordered([*range(rank - 2), rank - 1, rank - 2])


def heads(choose: random.Random, rank: int) -> Layout:
    """Steps outside heads: (batch, heads, steps, features) lies as (batch, steps, heads, features)."""
    return ordered([*range(rank - 3), rank - 2, rank - 3, rank - 1])


def channels_last(choose: random.Random, rank: int) -> Layout:
    return ordered([0, *range(2, rank), 1])


def ordered(order: Sequence[int]) -> Layout:
    """Axes that lie in memory in this order."""
    back = sorted(range(len(order)), key=lambda k: order[k])
    name = f"permute({', '.join(map(str, back))})"
    return Layout(name, lambda sizes: tuple(sizes[k] for k in order), lambda t, _: t.permute(back))


def one_of_three(choose: random.Random, rank: int) -> Layout:
    """As queries, keys and values lie that one product made."""
    axis, which = choose.randint(0, rank), choose.randrange(3)
    name = f"select({axis}, {which})"
    return Layout(name, lambda s: (*s[:axis], 3, *s[axis:]), lambda t, _: t.select(axis, which))


def expanded(choose: random.Random, rank: int) -> Layout:
    """An axis without a stride: the first, or any."""
    axis = choose.choice((0, 0, choose.randrange(rank)))
    name = f"expand {axis}"
    return Layout(name, lambda s: (*s[:axis], 1, *s[axis + 1 :]), lambda t, sizes: t.expand(sizes), False)


def overlapping(choose: random.Random, rank: int) -> Layout:
    """Each row begins one element behind the last one's beginning."""
    return Layout(
        "overlapping rows",
        lambda s: (*s[:-2], s[-2] + s[-1] - 1),
        lambda t, sizes: t.unfold(-1, sizes[-1], 1),
        False,
    )


#: how layouts are drawn, and for how many axes at least
LAYOUTS: tuple[tuple[Callable[[random.Random, int], Layout], int], ...] = (
    *((dense, 1),) * 2,
    *((apart, 1),) * 3,
    *((seconds, 1),) * 3,
    *((offset, 1),) * 2,
    *((transposed, 2),) * 2,
    *((heads, 3),) * 3,
    (permuted, 2),
    (channels_last, 3),
    (one_of_three, 1),
    (expanded, 1),
    (overlapping, 2),
)


def layout(choose: random.Random, rank: int, overlaps: bool = True) -> Layout:
    """One of them, or seldom a view of a view."""
    if not rank:
        return dense(choose, rank)
    makers = [make for make, least in LAYOUTS if least <= rank and (overlaps or make is not overlapping)]
    made = choose.choice(makers)(choose, rank)
    if made.name in ("dense", "overlapping rows") or made.name.startswith("select") or choose.random() < 0.8:
        return made
    return then(made, choose.choice(makers)(choose, rank))


def relaid(t: Tensor, choose: random.Random) -> Tensor:
    """The same values, which lie in one of the ways in which no two elements share memory: no leaf.

    What has no elements stays: its strides are nobody's.
    """
    makers = [make for make, least in LAYOUTS if least <= t.dim() and make not in (expanded, overlapping)]
    if not makers or not t.numel():
        return t
    where, shape = choose.choice(makers)(choose, t.dim()), tuple(t.shape)
    made = where.view(t.new_zeros(where.before(shape)), shape)
    made.copy_(t)
    return made


def relay(tensors: Iterable[Tensor], choose: random.Random) -> None:
    """Parameters and buffers come to lie otherwise, each in its own way."""
    for t in tensors:
        t.data = relaid(t.data, choose)


@dataclass(frozen=True)
class Program:
    """A function of tensors, and the sizes they may have."""

    name: str
    operands: tuple[Axes, ...]
    function: Callable[..., Tensor]
    overlaps: bool = True  # eager is right where rows overlap
    whole: bool = True  # sums of whole numbers are exact, so that no order of them is nearer than another


def axes(*words: str) -> tuple[Axes, ...]:
    return tuple(tuple(word) for word in words)


PRODUCTS: dict[str, tuple[tuple[Axes, ...], Callable[..., Tensor]]] = {
    "a @ b": (axes("mk", "kn"), torch.matmul),
    "a.t() @ b": (axes("km", "kn"), lambda a, b: a.t() @ b),
    "a @ b.t()": (axes("mk", "nk"), lambda a, b: a @ b.t()),
    "matrix @ vector": (axes("mk", "k"), torch.matmul),
    "vector @ matrix": (axes("k", "kn"), torch.matmul),
    "vector @ vector": (axes("k", "k"), torch.matmul),
    "bmm": (axes("bmk", "bkn"), torch.bmm),
    "batch @ matrix": (axes("bmk", "kn"), torch.matmul),
    "matrix @ batch": (axes("mk", "bkn"), torch.matmul),
    "heads @ heads": (axes("bhmk", "bhkn"), torch.matmul),
    "heads @ heads.mT": (axes("bhmk", "bhnk"), lambda a, b: a @ b.mT),
    "one head @ heads": ((("b", 1, "m", "k"), ("h", "k", "n")), torch.matmul),
    "linear": (axes("mk", "nk", "n"), F.linear),
    "linear of a batch": (axes("bmk", "nk", "n"), F.linear),
    "linear of heads": (axes("bhmk", "nk", "n"), F.linear),
    "addmm": (axes("mn", "mk", "kn"), lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3)),
    "addmm of a row": (axes("n", "mk", "kn"), torch.addmm),
    "addmm of a column": ((("m", 1), ("m", "k"), ("k", "n")), torch.addmm),
    "baddbmm": (axes("bmn", "bmk", "bkn"), lambda c, a, b: torch.baddbmm(c, a, b, alpha=2)),
    "baddbmm of a matrix": (axes("mn", "bmk", "bkn"), torch.baddbmm),
    "linear of merged heads": (
        axes("bhmd", "nhd"),
        lambda x, w: F.linear(x.transpose(1, 2).flatten(2), w.flatten(1)),
    ),
    "gradient of merged heads": (
        axes("bmo", "bhmd"),
        lambda g, x: g.flatten(0, 1).t() @ x.transpose(1, 2).reshape(-1, x.shape[1] * x.shape[3]),
    ),
    "merged heads @ matrix": (
        axes("bhmd", "hdn"),
        lambda x, w: x.transpose(1, 2).flatten(2) @ w.flatten(0, 1),
    ),
    "split heads": (
        axes("bmk", "khd"),
        lambda x, w: (x @ w.flatten(1)).unflatten(-1, w.shape[1:]).transpose(1, 2),
    ),
    "scores of split heads": (
        axes("bmhd", "bnhd"),
        lambda q, k: q.transpose(1, 2) @ k.permute(0, 2, 3, 1),
    ),
    "product of a product": (axes("mk", "kn", "no"), lambda a, b, c: a @ b @ c),
    "square": (axes("mk"), lambda a: a @ a.t()),
}
SPELLINGS = (
    *("mk,kn->mn", "mk,nk->nm", "km,kn->mn", "mk,k->m", "mk,mk->m", "m,n->mn", "bmk,bkn->bmn"),
    *("bmk,nk->bnm", "bkm,bkn->mn", "bmk,bnk->bnm", "bmhd,bnhd->bhmn", "bhmn,bnhd->bmhd", "bmhd,hdn->bmn"),
    *("bhmd,hdn->bmn", "mhd,nhd->mn", "bhmd,bhnd->bhmn", "bmd,hdn->bhmn", "bhm,bhd->md", "hmk,kn->mhn"),
)
SHORT = {"b": FEW, "h": FEW, "d": HEADS, "p": POINTS, "q": POINTS, "r": (5, 6, 7, 8)}


def product(choose: random.Random) -> Program:
    name = choose.choice(list(PRODUCTS))
    return Program(name, *PRODUCTS[name])


def einsum(choose: random.Random) -> Program:
    spelling = choose.choice(SPELLINGS)
    operands = axes(*spelling.partition("->")[0].split(","))
    return Program(f"einsum {spelling}", operands, lambda a, b: torch.einsum(spelling, a, b))


def attention(choose: random.Random) -> Program:
    """torch's own, of all kinds, of heads that any layout has."""
    kind = choose.choice(
        ("plain", "causal", "mask", "which", "mask of all", "groups", "by hand", "packed", "to rows")
    )
    h, groups = choose.choice((1, 2, 3)), choose.choice((2, 3))
    one = choose.choice((1, h))
    q: Axes = ("b", h, "m", "d")
    k: Axes = ("b", h, "n", "d")
    attend = F.scaled_dot_product_attention

    def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, enable_gqa=True)

    def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT * 0.25, -1) @ v

    def packed(x: Tensor) -> Tensor:
        return attend(*x.permute(2, 0, 3, 1, 4).unbind(0), is_causal=True).transpose(1, 2).flatten(2)

    def to_rows(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
        return F.linear(attend(q, k, v).transpose(1, 2).flatten(2), w.flatten(1))

    made: dict[str, tuple[tuple[Axes, ...], Callable[..., Tensor]]] = {
        "plain": ((q, k, k), attend),
        "causal": ((q, q, q), lambda q, k, v: attend(q, k, v, is_causal=True)),
        "mask": ((q, k, k, ("m", "n")), lambda q, k, v, m: attend(q, k, v, m)),
        "which": ((q, k, k, ("b", 1, "m", "n")), lambda q, k, v, m: attend(q, k, v, m > -1)),
        "mask of all": ((q, k, k, ("b", one, "m", "n")), lambda q, k, v, m: attend(q, k, v, m, scale=0.2)),
        "groups": ((("b", h * groups, "m", "d"), k, k), grouped),
        "by hand": ((q, k, ("b", h, "n", "o")), by_hand),
        "packed": ((("b", "m", 3, h, "d"),), packed),
        "to rows": ((q, k, k, ("o", h, "d")), to_rows),
    }
    return Program(f"attention, {kind}", *made[kind], overlaps=False, whole=False)


CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def convolution(choose: random.Random) -> Program:
    n = choose.choice((1, 2, 2, 2, 3))
    pick = choose.choice
    back = choose.random() < 0.25
    function = (TRANSPOSED if back else CONVOLUTIONS)[n - 1]
    groups, inner, outer = pick((1, 1, 1, 2, 3)), pick(CHANNELS[: 14 if n < 3 else 8]), pick(CHANNELS)
    if choose.random() < 0.2:
        groups, inner, outer = pick(CHANNELS), 1, pick((1, 1, 2))
    more = {
        "stride": tuple(pick((1, 1, 2)) for _ in range(n)),
        "padding": tuple(pick((0, 1, 1)) for _ in range(n)),
        "dilation": tuple(pick((1, 1, 1, 2)) for _ in range(n)),
        "groups": groups,
    }
    places = tuple(pick((1, 2, 3, 3)) for _ in range(n))
    weight = (groups * inner, outer, *places) if back else (groups * outer, inner, *places)
    operands: list[Axes] = [("b", groups * inner, *"pqr"[:n]), weight]
    if choose.random() < 0.5:
        operands.append((groups * outer,))
    return Program(
        f"{function.__name__} {', '.join(f'{k}={v}' for k, v in more.items())}",
        tuple(operands),
        lambda x, w, b=None: function(x, w, b, **more),
    )


KINDS = (*(product,) * 5, *(einsum,) * 2, *(attention,) * 3, *(convolution,) * 2)
EPILOGUES: dict[str, Callable[..., Tensor]] = {
    "": lambda y: y,
    "gelu": F.gelu,
    "tanh": torch.tanh,
    "relu": torch.relu,  # not with gradients of attention: rounding may move a number over its kink
    "transpose": lambda y: (y * 3).transpose(0, -1),
    "sum": lambda y: y.sum(-1),
    "residual": lambda y, r: y + r,
    "gelu and residual": lambda y, r: F.gelu(y) + r,
}


@dataclass
class Case:
    """A program with its operands, as a seed says."""

    seed: int
    program: Program
    dtype: torch.dtype
    gradients: tuple[bool, ...]  # of which operands; all of the sizes below have the same number
    doubled: frozenset[int]  # operands that are multiplied by two before
    epilogue: str
    options: dict[str, Any]
    dynamic: bool | None
    inside: frozenset[int]  # operands whose views the program takes itself
    sizes: list[list[Sizes]] = field(default_factory=list)  # of each call those of its operands
    layouts: list[list[Layout]] = field(default_factory=list)  # and their layouts
    incoming: Callable[[int], Layout] = lambda rank: dense(random.Random(0), rank)

    def __str__(self) -> str:
        shown = [f"seed {self.seed}: {self.program.name}; {str(self.dtype).removeprefix('torch.')}"]
        shown += [f"dynamic={self.dynamic}", *(f"{k}={v}" for k, v in self.options.items() if k != "strict")]
        shown += [f"then {self.epilogue}"] * bool(self.epilogue)
        for call, (sizes, layouts) in enumerate(zip(self.sizes, self.layouts, strict=True)):
            for k, (size, made) in enumerate(zip(sizes, layouts, strict=True)):
                words = [f"\n  call {call}, operand {k}: {'x'.join(map(str, size))} {made.name}"]
                words += ["inside"] * (k in self.inside) + ["* 2"] * (k in self.doubled)
                words += ["with gradient"] * self.gradients[k]
                shown.append(", ".join(words))
        rank = len(self.shape(0))
        return "; ".join(shown) + f"\n  incoming gradient: {self.incoming(rank).name}" * any(self.gradients)

    def function(self) -> Callable[..., Tensor]:
        """What is compiled: a function of dense tensors, or of views of them.

        It is one expression: a loop over the operands would be most of what Dynamo has to trace.
        """
        names: dict[str, Any] = {"program": self.program.function, "epilogue": EPILOGUES[self.epilogue]}
        count, words = len(self.program.operands), []
        for k, (where, size) in enumerate(zip(self.layouts[0], self.sizes[0], strict=True)):
            names |= {f"view{k}": where.view, f"size{k}": size}
            words.append(f"view{k}(x{k}, size{k})" if k in self.inside else f"x{k}")
            words[k] += " * 2" * (k in self.doubled)
        given = ", ".join(f"x{k}" for k in range(len(words)))
        inner, more = ", ".join(words[:count]), "".join(f", {word}" for word in words[count:])
        function: Callable[..., Tensor] = eval(f"lambda {given}: epilogue(program({inner}){more})", names)
        return function

    def shape(self, call: int) -> Sizes:
        """The sizes of the result, without its numbers."""
        xs = [torch.empty(size, device="meta") for size in self.sizes[call]]
        number = len(self.program.operands)
        return tuple(EPILOGUES[self.epilogue](self.program.function(*xs[:number]), *xs[number:]).shape)

    def operands(self, call: int, numbers: int) -> tuple[Tensor, ...]:
        """The arguments of a call; `numbers` is the seed of what they hold."""
        source = torch.Generator().manual_seed(numbers)
        made = []
        for k, (size, where) in enumerate(zip(self.sizes[call], self.layouts[call], strict=True)):
            t = filled(where.before(size), self.dtype, source, self.program.whole)
            made.append(t if k in self.inside else where.view(t, size))
        return tuple(made)

    def weights(self, call: int, numbers: int) -> Tensor | None:
        """The gradient that comes in."""
        if not any(self.gradients):
            return None
        shape = self.shape(call)
        where = self.incoming(len(shape))
        source = torch.Generator().manual_seed(numbers + 1)
        return where.view(filled(where.before(shape), self.dtype, source, self.program.whole), shape)


def filled(sizes: Sizes, dtype: torch.dtype, source: torch.Generator, whole: bool) -> Tensor:
    if whole or dtype in INTEGERS:
        return torch.randint(-5, 6, sizes, generator=source).to(dtype)
    return torch.randn(sizes, generator=source).to(dtype)


def case(seed: int) -> Case:
    """The case of a seed."""
    choose = random.Random(seed)
    dtype = choose.choice(DTYPES)
    kinds = KINDS if dtype.is_floating_point else (product, einsum)
    program = choose.choice(kinds)(choose)
    trains = dtype.is_floating_point and choose.random() < 0.35
    curved = {"gelu", "tanh", "gelu and residual"}  # gradients are sums of other than whole numbers then
    wrong = (
        curved if not dtype.is_floating_point or (trains and program.whole) else {"relu"} if trains else set()
    )
    epilogue = choose.choice(["", "", *(e for e in EPILOGUES if e not in wrong)])
    options: dict[str, Any] = {"tier": "gcc" if choose.random() < 0.02 else "tcc", "strict": True}
    if choose.random() < 0.4:
        options["products"] = "own"
    made = Case(
        seed,
        program,
        dtype,
        (),
        frozenset(),
        epilogue,
        options,
        True if choose.random() < 0.04 else None,
        frozenset(),
    )
    for _ in range(2 if made.dynamic else 1):
        draw_call(made, choose)
    count = len(made.sizes[0])
    made.gradients = tuple(trains and choose.random() < 0.8 for _ in range(count))
    made.doubled = frozenset(k for k in range(count) if choose.random() < 0.15)
    inside = (k for k in range(count) if choose.random() < 0.4)
    made.inside = frozenset(k for k in inside if not made.dynamic or made.layouts[0][k].of_any_size)
    if made.dynamic:
        for k in range(count):
            if k in made.inside or choose.random() < 0.7:
                made.layouts[1][k] = made.layouts[0][k]
    again = choose.random()
    made.incoming = lambda rank: layout(random.Random(again), rank, program.overlaps)
    return made


def draw_call(made: Case, choose: random.Random) -> None:
    """The sizes and layouts of one more call."""
    letters = sorted({a for operand in made.program.operands for a in operand if isinstance(a, str)})
    size = {letter: choose.choice(SHORT.get(letter, SIZES)) for letter in letters}
    made.sizes.append([tuple(size[a] if isinstance(a, str) else a for a in o) for o in made.program.operands])
    if "residual" in made.epilogue:
        xs = [torch.empty(s, device="meta") for s in made.sizes[-1]]
        made.sizes[-1].append(tuple(made.program.function(*xs).shape))
    made.layouts.append([layout(choose, len(s), made.program.overlaps) for s in made.sizes[-1]])


def results(
    call: Callable[..., Tensor], given: tuple[Tensor, ...], gradients: Sequence[bool], weights: Tensor | None
) -> dict[str, Tensor]:
    """What a call makes, and the gradients of those operands that have one."""
    leaves = [t.detach().requires_grad_(wanted) for t, wanted in zip(given, gradients, strict=True)]
    result = call(*leaves)
    made = {"result": result.detach()}
    if weights is not None:
        names = [k for k, wanted in enumerate(gradients) if wanted]
        found = torch.autograd.grad(result, [leaves[k] for k in names], weights)
        made |= {f"gradient of operand {k}": g for k, g in zip(names, found, strict=True)}
    return made


def assert_right(runs: Sequence[Run], strict: Sequence[str]) -> None:
    """The rule for programs; of float64 programs, of which nothing is more exact, torch's tolerance.

    The third of a run is eager's of dense operands, so that layouts do not mislead eager itself.

    strict: the names of what has eager's strides too.
    """
    runs = [tuple(dense_all_but(strict, made) for made in run) for run in runs]  # type: ignore[misc]
    if all(t.dtype != torch.float64 for t in runs[0][1].values()):
        return assert_steps(runs)
    for actual, eager, exact in runs:
        for name, want in eager.items():
            assert_same_kind(actual[name], want, name)
            torch.testing.assert_close(actual[name], exact[name], equal_nan=True)


def dense_copies(tree: Any) -> Any:
    return tree_map(lambda t: t.contiguous() if isinstance(t, Tensor) else t, tree)


def dense_all_but(kept: Sequence[str], made: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t if name in kept else t.contiguous() for name, t in made.items()}


def foretold(function: Callable[..., Tensor], given: Sequence[Tensor]) -> list[int]:
    """The strides of the result by torch's tensors without numbers, from which a backend knows them.

    They are not always eager's: of a doubled weight with an axis of one element, for one, the strides differ,
    and a convolution's layout follows them.
    """
    with FakeTensorMode() as mode:
        return strides(function(*(mode.from_tensor(t) for t in given)))


def without_luck(
    eager: dict[str, Tensor], exact: dict[str, Tensor], wide: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Eager's results as the rule for programs takes them, from those in its dtype and in float32.

    The gradient of a score is dp - sum(dp * p), which is 0 where a query sees one key: p is 1.  Both terms
    are sums of the same products.  Eager and dlc each add them in two orders, so a rounding of the terms is
    left, of which no digit is right.  Products of 16 bits are exact in float32, and for a few lengths of rows
    the two orders of eager leave nothing.  That is luck: its float32 run on the same numbers has terms of the
    same size and shows what rounding leaves of them.  So where eager has nothing but zeros, that run stands
    for it.  What only underflows is 0 in that run too, rounded to 16 bits.
    """
    made = {}
    for name, t in eager.items():
        lucky = t.dtype in HALVES and not t.any() and bool(exact[name].any())
        made[name] = torch.empty_like(t).copy_(wide[name]) if lucky else t
    return made


def check(made: Case) -> bool:
    """Raises AssertionError, or what compiling raises, unless dlc is as near as eager; whether eager runs.

    Where a run breaks the rule, ones on other numbers count with it: of a few elements one run is luck.
    AOTAutograd copies a gradient that comes in to lie as the result does, and those that go out follow it:
    they have eager's strides if it lay so before.
    """
    torch._dynamo.reset()
    function = made.function()
    compiled = torch.compile(function, backend="dlc", dynamic=made.dynamic, options=made.options)

    def run(call: int, numbers: int) -> Run:
        given, weights = made.operands(call, numbers), made.weights(call, numbers)
        exactly = double(dense_copies((given, weights)))
        mine = results(compiled, given, made.gradients, weights)
        eager = results(function, given, made.gradients, weights)
        exact = results(function, exactly[0], made.gradients, exactly[1])
        if made.dtype in HALVES and weights is not None:
            singles = tree_map(lambda t: t.float(), exactly)
            eager = without_luck(eager, exact, results(function, singles[0], made.gradients, singles[1]))
        return mine, eager, exact

    for call in range(len(made.sizes)):
        given, weights = made.operands(call, made.seed), made.weights(call, made.seed)
        try:
            theirs = results(function, given, made.gradients, weights)["result"]
        except (RuntimeError, NotImplementedError):
            return False
        strict = ["result"] * (foretold(function, given) == strides(theirs))
        if weights is not None and strict and strides(weights) == strides(theirs):
            strict += [f"gradient of operand {k}" for k in range(len(given))]
        first = run(call, made.seed)
        try:
            assert_right([first], strict)
        except AssertionError:
            assert_right([first, *(run(call, made.seed + k) for k in range(1, 1 + MORE))], strict)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--count", type=int, default=1, help="how many, of successive seeds")
    parser.add_argument("--list", action="store_true", help="print what they are, and run none")
    args = parser.parse_args()
    os.environ.setdefault("DLC_CACHE_DIR", tempfile.mkdtemp(prefix="dlc-layouts-"))
    leave_guards_untimed()
    counts = Counter[str]()
    for seed in range(args.seed, args.seed + args.count):
        made = case(seed)
        if args.list:
            print(made, flush=True)
            continue
        try:
            counts["right" if check(made) else "eager cannot run"] += 1
        except Exception as error:
            counts["failed"] += 1
            print(f"{made}\n  {type(error).__name__}: {str(error)[:300]}\n", flush=True)
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))


if __name__ == "__main__":
    main()

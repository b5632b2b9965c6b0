"""Random functions of tensors: views, writes, reductions, products, indices, dtypes, in orders nobody chose.

A seed says all of a function: its lines, the dtypes, sizes and strides of its arguments, and how it is
compiled.  A line is the text of Python that makes a value of some before it.  What a run in eager refuses,
or makes large, is not taken.

    python -m tests.models.random_functions --seed 1000 --count 200    prints those that are wrong
    python -m tests.models.random_functions --seed 1234 --list         what the function is
"""

import argparse
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.layouts import relaid
from tests.tolerance import assert_same_kind

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 8, 16, 16, 17, 31, 32, 33, 64, 100)
MOST = 20_000  # elements of a value
LARGEST = 1e4  # magnitude of one: products of large values overflow, and amplify rounding
DTYPES = (*(torch.float32,) * 8, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32)
CASTS = ("float", "float", "double", "bfloat16", "half", "long", "int", "bool")

# {0}, {1}, {2} are values; {dim} is an axis of the first, {dims} several, {low}, {high} places along {dim},
# {step}, {small} are small numbers, {other} is another axis, {flag} a truth value, {new} this line's value.
LINES = {
    "floating": """
        torch.tanh({0}) | torch.sigmoid({0}) | torch.relu({0}) | F.gelu({0}) | F.silu({0}) |
        torch.exp(-{0} * {0}) | torch.sqrt({0}.abs() + 1) | torch.log({0}.abs() + 1) | 1 / (1 + {0} ** 2) |
        F.softplus({0}) | torch.erf({0}) | F.leaky_relu({0}) | F.hardtanh({0}) | torch.sin({0}) |
        F.elu({0}) | {0}.detach() + {0} | {0}.double().float() | torch.atan2({0}, {0} + 1)
    """,
    "any": """
        {0}.abs() | -{0} | {0} * 2 | {0} + 0.5 | 3 - {0} | {0}.clamp(-1, 2) | {0}.contiguous() |
        {0}.clone() | {0} / 4 | {0}.square() | torch.where({0} > 0, {0}, 1) | {0}.masked_fill({0} > 1, 0)
    """,
    "two": """
        {0} + {1} | {0} - {1} | {0} * {1} | torch.maximum({0}, {1}) | torch.minimum({0}, {1}) |
        {0} / (1 + {1}.abs()) | {0} > {1} | torch.add({0}, {1}, alpha=2) | torch.rsub({0}, {1}) |
        {0} + 0.25 * ({1} - {0}) | ({0} != {1}) & ({0} > 0) | torch.where({0} > {1}, {0}, {1})
    """,
    "reduced": """
        {0}.sum({dims}, {flag}) | {0}.mean({dims}, {flag}) | {0}.amax({dims}, {flag}) |
        {0}.amin({dims}, {flag}) | {0}.var({dims}, correction=0, keepdim={flag}) |
        {0}.logsumexp({dims}, {flag}) | {0}.argmax({dim}, {flag}) | ({0} > 1).any({dim}, {flag}) |
        torch.linalg.vector_norm({0}, 2, {dims}, {flag}) | {0}.max({dim}, {flag}).values |
        ({0} != 0).sum({dims}, {flag}) | {0}.std({dims}, correction=0, keepdim={flag}) + 1 | {0}.sum() |
        {0}.argmin()
    """,
    "along": """
        {0}.softmax({dim}) | {0}.log_softmax({dim}) | {0}.cumsum({dim}) | {0}.flip({dim}) |
        {0}.roll({small}, {dim}) | {0}.cummax({dim}).values | {0} - {0}.mean({dim}, keepdim=True) |
        {0}.diff(dim={dim}) | {0}.sort({dim}).values | {0} / (1 + {0}.norm(dim={dim}, keepdim=True)) |
        F.layer_norm({0}, {0}.shape[-1:]) | {0}.logcumsumexp({dim}) | F.rms_norm({0}, {0}.shape[-1:]) |
        {0}.tril({small}) | {0}.triu() | {0}.repeat_interleave(2, {dim}) | F.glu({0}, {dim}) |
        torch.tanh({0}).cumprod({dim}) | {0}.argsort(dim={dim}, stable=True) |
        torch.trapezoid({0}, dim={dim}) | F.normalize({0}, dim={dim}) | {0}.topk(1, {dim}).values
    """,
    "view": """
        {0}.transpose({dim}, {other}) | {0}.transpose({dim}, {other}) | {0}.mT | {0}.unsqueeze({dim}) |
        {0}.squeeze() | {0}.movedim({dim}, 0)[{low}:{high}:{step}].movedim(0, {dim}) | {0}[..., {low}:] |
        {0}[{low}:{high}] | {0}.flatten({dim}) | {0}.unflatten({dim}, (-1, 2)) |
        {0}.unflatten({dim}, (4, -1)) | {0}.reshape(2, -1) | {0}.reshape(-1) | {0}.expand(3, *{0}.shape) |
        {0}.select({dim}, {low}) | {0}.chunk(2, {dim})[-1] | {0}.diagonal(0, -2, -1) |
        F.pad({0}, ({small}, 1)) | F.pad({0}, (-1, {small}, 1, 0), value=0.5) |
        {0}.repeat(2, *[1] * {0}.dim()) | {0}.unfold({dim}, 2, {step}) | {0}.narrow({dim}, {low}, 1) |
        {0}[..., None] * {0}[..., None, :] | torch.stack({0}.unbind({dim}), -1) | {0}.T | {0}.view(-1) |
        torch.cat({0}.split(2, {dim})[::-1], {dim}) | {0}.tile(2) | {0}.movedim(-1, 0) |
        {0}[::{step}, None]
    """,
    "product": """
        torch.matmul({0}, {1}) / 8 | torch.matmul({0}, {1}.mT) / 8 | F.linear({0}, {1}) / 8 |
        torch.matmul({0}.mT, {1}) / 8 | F.scaled_dot_product_attention({0}, {1}, {1}, is_causal={flag}) |
        torch.einsum('...ij,...kj->...ik', {0}, {1}) / 8 | F.scaled_dot_product_attention({0}, {1}, {2}) |
        torch.baddbmm({2}, {0}, {1}) / 8 | torch.outer({0}, {1}) | torch.cdist({0}, {1}) |
        torch.addmm({2}, {0}, {1}) / 8 | F.linear(F.silu({0}), {1}, {2}) / 8 | ({0} @ {1}).relu() / 8
    """,
    "joined": """
        torch.cat([{0}, {1}, {2}], {dim}) | torch.cat([{0}, {1}], -1) | torch.stack([{0}, {1}], {dim}) |
        torch.cat([{0}, {0}.flip({dim})], {dim}) | torch.cat([{0} * 2, {1} + 1], 0)
    """,
    "indexed": """
        {0}.index_select({dim}, whole({1}, {0}.shape[{dim}])) | {0}[whole({1}, {0}.shape[0])] |
        {0}.gather({dim}, whole({1}, {0}.shape[{dim}])) |
        {0}.index_fill({dim}, whole({1}, {0}.shape[{dim}]), 2) |
        {0}.scatter_add({dim}, whole({1}, {0}.shape[{dim}]), {1}.to({0}.dtype)) |
        F.embedding(whole({1}, {0}.shape[0]), {0}) | F.one_hot(whole({0}, 5), 5) |
        torch.take_along_dim({0}, {0}.argsort({dim}, stable=True), {dim}) | {0}[{0} > 0].sum() |
        {0}.index_add({dim}, whole({1}, {0}.shape[{dim}]), {0}.narrow({dim}, 0, {1}.numel()))
    """,
    "windows": """
        F.avg_pool1d({0}, 3, 1, 1) | F.max_pool1d({0}, 2) |
        F.interpolate({0}.contiguous(), scale_factor=2) | F.pad({0}, (1, 1), mode='reflect') |
        F.interpolate({0}, scale_factor=2, mode='linear') | F.pad({0}, (1, 2), mode='circular') |
        F.avg_pool2d({0}, 2) | F.conv1d({0}, {0}[:3].contiguous(), padding=1) / 8 |
        F.max_pool2d({0}, 3, 1, 1) | F.interpolate({0}, scale_factor=2, mode='bilinear') |
        F.conv1d({0}, torch.full(({0}.shape[1], 1, 3), 0.5, dtype={0}.dtype), padding=1, groups={0}.shape[1])
    """,
    "written": """
        {0}.clone(); {new}.movedim({dim}, 0)[{low}:{high}:{step}].add_(1) |
        {0}.clone(); {new}[..., {low}:] *= 2 | {0}.clone(); {new}[{low}:{high}] = {1} |
        {0}.clone(); {new}.select({dim}, {low}).copy_({1}) |
        {0}.clone(); {new}[{low}:].masked_fill_({new}[{low}:] > 0, 1) |
        {0} * 1; {new}[..., 0] += {new}[..., -1] | {0}.clone(); {new}[whole({1}, {0}.shape[0])] = 0 |
        torch.zeros_like({0}); {new}[{low}:{high}:{step}] = {0}[{low}:{high}:{step}] |
        {0}.clone(); {new}[1:] += {new}[:-1].clone() | {0} + 0; {new}.transpose({dim}, {other})[{low}] = 3 |
        {0}.new_empty({0}.shape); {new}.copy_({0}) | {argument}.add_(1) | {argument}.mul_(2) |
        {argument}; {new}[{low}:{high}] = 0 | {argument}; {new}[..., 1:].neg_()
    """,
    "cast": """
        {0}.{cast}()
    """,
}
LINES_OF = {kind: [line.strip() for line in text.split(" |")] for kind, text in LINES.items()}
OFTEN = {
    "floating": 4,
    "any": 3,
    "two": 5,
    "reduced": 3,
    "along": 3,
    "view": 6,
    "product": 3,
    "joined": 2,
    "written": 3,
}
KINDS = tuple(kind for kind in LINES for _ in range(OFTEN.get(kind, 1)))


def whole(t: Tensor, below: int) -> Tensor:
    """Indices from the values of a tensor."""
    return (t.double().abs() * 3).long() % below


@dataclass
class Program:
    """The lines of a function, what it is called with, and how it is compiled."""

    seed: int
    arguments: list[tuple[str, torch.dtype]] = field(default_factory=list)  # the letters of the axes
    sizes: list[dict[str, int]] = field(default_factory=list)  # of each call
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    dynamic: bool | None = None
    gradients: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        names = ", ".join(
            f"x{i}: {str(d)[6:]}[{', '.join(axes)}]" for i, (axes, d) in enumerate(self.arguments)
        )
        how = f"# {self.sizes} dynamic={self.dynamic} gradients={self.gradients} {self.options}"
        return "\n    ".join([how + f"\ndef f({names}):", *self.lines, f"return {', '.join(self.results)},"])

    def function(self) -> Callable[..., tuple[Tensor, ...]]:
        names = ", ".join(f"x{i}" for i in range(len(self.arguments)))
        lines = "\n    ".join([f"def f({names}):", *self.lines, f"return {', '.join(self.results)},"])
        space: dict[str, Any] = {"torch": torch, "F": F, "whole": whole}
        exec(compile(lines, f"<random function {self.seed}>", "exec"), space)
        return space["f"]

    def operands(self, call: int) -> list[Tensor]:
        """The arguments of the n-th call: other numbers, strides and sizes."""
        choose = random.Random(self.seed * 7 + call)
        source = torch.Generator().manual_seed(self.seed * 7 + call)
        made = []
        for axes, dtype in self.arguments:
            shape = tuple(self.sizes[call][a] for a in axes)
            if dtype.is_floating_point:
                t = torch.randn(shape, generator=source, dtype=torch.float64).to(dtype)
            else:
                t = torch.randint(-5, 9, shape, generator=source).to(dtype)
            made.append(relaid(t, choose) if choose.random() < 0.6 and t.dim() else t)
        return made


class Maker:
    """Draws the lines of a program, looking at the values that a run of it makes."""

    def __init__(self, program: Program, choose: random.Random) -> None:
        self.program, self.choose = program, choose
        self.values = {f"x{i}": t for i, t in enumerate(program.operands(0))}

    def name(self, allowed: Callable[[Tensor], bool]) -> str | None:
        known = [n for n, t in self.values.items() if allowed(t)]
        late = known[-4:]  # those of late lines are taken more often
        return self.choose.choice(late if self.choose.random() < 0.7 else known) if known else None

    def line(self) -> None:
        """Adds a line, if eager can run it and its value is of a good size."""
        kind = self.choose.choice(KINDS)
        text = self.choose.choice(LINES_OF[kind])
        floating = kind in ("floating", "product", "windows")
        first = self.name(lambda t: (t.is_floating_point() or not floating) and t.numel() > 0)
        if first is None or ("{argument}" in text and self.program.gradients):
            return
        x, pick = self.values[first], self.choose.choice
        others = [self.name(fits(kind, x)) or first for _ in range(2)]
        axes = range(-x.dim(), x.dim()) if x.dim() else (0,)
        low = self.choose.randint(0, 2)
        new = f"x{len(self.values)}"
        dims = tuple(self.choose.sample(range(x.dim()), pick(range(1, x.dim() + 1)))) if x.dim() else ()
        line = f"{new} = " + text.format(
            *(first, *others),
            new=new,
            argument=f"x{pick(range(len(self.program.arguments)))}",
            cast=pick(CASTS),
            dim=pick(axes),
            other=pick(axes),
            dims=dims,
            low=low,
            high=low + self.choose.randint(0, 6),
            step=pick((1, 1, 2, 3)),
            small=pick((0, 1, 2)),
            flag=pick((True, False)),
        )
        space = {"torch": torch, "F": F, "whole": whole} | {n: t.clone() for n, t in self.values.items()}
        try:
            exec(line, space)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return
        value = space[new]
        if not isinstance(value, Tensor) or value.numel() > MOST or value.dim() > 5:
            return
        if value.numel() and not value.double().abs().amax() < LARGEST:
            return
        self.values[new] = value
        self.program.lines.append(line)


def fits(kind: str, x: Tensor) -> Callable[[Tensor], bool]:
    """May a value be the second of a line of this kind, whose first is x?"""

    def broadcasts(t: Tensor) -> bool:
        return all(m == n or 1 in (m, n) for m, n in zip(reversed(t.shape), reversed(x.shape), strict=False))

    def multiplies(t: Tensor) -> bool:
        return t.dtype == x.dtype and t.dim() > 0 and x.dim() > 0 and bool({*t.shape[-2:]} & {*x.shape[-2:]})

    def joins(t: Tensor) -> bool:
        return t.dim() == x.dim() and sum(m != n for m, n in zip(t.shape, x.shape, strict=True)) <= 1

    return {"product": multiplies, "joined": joins, "indexed": lambda t: t.dim() in (1, x.dim())}.get(
        kind, broadcasts
    )


def program(seed: int) -> Program:
    choose = random.Random(seed)
    letters = {letter: choose.choice(SIZES) for letter in "ABCD"}
    # a size of one stays one: its axis is broadcast
    others = {
        letter: n if n == 1 else max(2, n + choose.choice((-1, 1, 0, 3))) for letter, n in letters.items()
    }
    made = Program(seed, sizes=[letters, others, letters])
    made.dynamic = choose.choice((None, None, False, True))
    made.gradients = choose.random() < 0.35
    made.options = {
        "tier": choose.choice(("tcc", "tcc", "gcc")),
        "products": choose.choice(("auto", "own")),
        "verify": True,
    }
    for _ in range(choose.randint(1, 3)):
        axes = "".join(choose.choices("ABCD", k=choose.choice((1, 2, 2, 3, 3, 4))))
        while max(torch.Size(sizes[a] for a in axes).numel() for sizes in made.sizes) > MOST:
            axes = axes[1:]
        made.arguments.append((axes, torch.float32 if made.gradients else choose.choice(DTYPES)))
    maker = Maker(made, choose)
    for _ in range(choose.randint(4, 40)):
        maker.line()
    names = list(maker.values)[len(made.arguments) :] or list(maker.values)
    made.results = sorted({names[-1], *choose.choices(names, k=choose.randint(0, 2))})
    return made


@dataclass(frozen=True)
class Outcome:
    """Tensors by name, and for each result the arguments whose memory it shares."""

    tensors: dict[str, Tensor]
    shared: dict[str, list[int]]


def outcome(made: Program, function: Callable[..., Any], call: int, exact: bool = False) -> Outcome:
    """Results, and what then is in the arguments, or their gradients."""
    arguments = made.operands(call)
    if exact:
        arguments = [t.double() if t.is_floating_point() else t for t in arguments]
    if made.gradients:
        arguments = [t.detach().requires_grad_() for t in arguments]
    memory = [t.untyped_storage().data_ptr() for t in arguments]
    results = dict(zip(made.results, function(*arguments), strict=True))
    shared = {
        n: [i for i, place in enumerate(memory) if t.untyped_storage().data_ptr() == place]
        for n, t in results.items()
    }
    if not made.gradients:
        return Outcome(results | {f"argument {i}": t for i, t in enumerate(arguments)}, shared)
    terms = [
        (t.double() * torch.linspace(-1, 1, t.numel(), dtype=torch.float64).view(t.shape)).sum()
        for t in results.values()
        if t.is_floating_point() and t.requires_grad
    ]
    if terms:
        sum(terms[1:], terms[0]).backward()
    # behind a graph break, an argument that no result depends on has zeros, where eager has no gradient
    gradients = {
        f"gradient {i}": torch.zeros_like(t) if t.grad is None else t.grad for i, t in enumerate(arguments)
    }
    return Outcome({n: t.detach() for n, t in (results | gradients).items()}, shared)


def assert_near(got: Tensor, want: Tensor, exact: Tensor, name: str, rounded: bool) -> None:
    """Not wrong by the size of the values.

    How exact they are is asked elsewhere: a function of a few lines amplifies rounding as much as it likes.
    """
    assert_same_kind(got, want, name)
    if not want.is_floating_point():
        differ = int((got != want).sum())
        assert not differ, f"{name}: {differ} of {want.numel()} elements differ"
        return
    finite = want.isfinite() & exact.isfinite()
    if not finite.any():
        return
    size, far, mine = (
        float(t[finite].abs().max()) for t in (exact, want.double() - exact, got.double() - exact)
    )
    allowed = 64 * far + (1e-4 + 4 * max(torch.finfo(want.dtype).eps, 2e-2 * rounded)) * (size + 1)
    assert mine <= allowed, f"{name}: off by {mine:.3g}, eager by {far:.3g}; the largest is {size:.3g}"


def check(made: Program, compiler: Callable[..., Any]) -> int:
    """Eager against compiled, call by call: how many were compared."""
    function, compared = made.function(), 0
    compiled = compiler(function, dynamic=made.dynamic, options=made.options)
    rounded = any(".bfloat16()" in line or ".half()" in line for line in made.lines)
    for call in range(len(made.sizes) if made.dynamic is not False else 1):
        try:
            eager, exact = outcome(made, function, call), outcome(made, function, call, exact=True)
        except (RuntimeError, IndexError, ValueError):
            continue  # a line that these sizes do not allow
        actual = outcome(made, compiled, call)
        assert actual.tensors.keys() == eager.tensors.keys(), f"call {call}: {sorted(actual.tensors)}"
        for name, want in eager.tensors.items():
            assert_near(
                actual.tensors[name], want, exact.tensors[name].double(), f"call {call}: {name}", rounded
            )
        assert actual.shared == eager.shared, f"call {call}: shares {actual.shared}, eager {eager.shared}"
        compared += 1
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--backend", default="dlc", help="another, to see whose mistake it is")
    parser.add_argument("--list", action="store_true", help="print them; run none")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    compared = lines = 0
    for seed in range(given.seed, given.seed + given.count):
        made = program(seed)
        lines += len(made.lines)
        if given.list:
            print(made, "\n")
            continue
        torch._dynamo.reset()
        try:
            compared += check(
                made,
                lambda f, **how: torch.compile(
                    f,
                    backend=given.backend,
                    **(how if given.backend == "dlc" else {"dynamic": how["dynamic"]}),
                ),
            )
        except Exception as error:
            print(f"--- {seed}: {type(error).__name__}: {str(error)[:800]}\n{made}\n", flush=True)
    print(f"{compared} calls of {given.count} functions of {lines} lines")


if __name__ == "__main__":
    main()

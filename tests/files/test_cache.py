"""A program that is loaded again is not lowered again: libtcc's units and gcc's objects are in the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dlc
from tests.files import apart

CODE = """
import json, dlc, numpy as np
m = dlc.load(sys.argv[1], tier=sys.argv[2])
x = np.random.default_rng(0).standard_normal((2, 3, 9, 11), dtype=np.float32)
y = m(x)
dlc.wait()
counts = dlc.counters()
names = "cache_hits", "tcc_compiles", "gcc_compiles"
print(json.dumps([y.tobytes().hex(), *(counts[name] for name in names)]))
"""


class Net(nn.Module):
    """Two equal convolutions, whose weights are prepared in the same way."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(3, 8, 3)
        self.layers = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.one(x).relu()
        for layer in self.layers:
            x = layer(x).relu()
        return self.last(x.mean((2, 3))).softmax(-1)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cache") / "m.dlc"
    torch.manual_seed(0)
    dlc.save(Net().eval(), path, (torch.randn(2, 3, 9, 11),))
    return path


def load(file: Path, folder: Path, tier: str = "tcc", **environment: str) -> list[Any]:
    folder.mkdir(mode=0o700, exist_ok=True)
    return json.loads(apart.run(CODE, str(file), tier, DLC_CACHE_DIR=str(folder), **environment))


def test_the_second_time(file: Path, tmp_path: Path) -> None:
    cold, hits, tcc, gcc = load(file, tmp_path / "cache")
    assert hits == gcc == 0 and tcc > 0
    warm, more, texts, gcc = load(file, tmp_path / "cache")
    assert warm == cold and more > 0 and gcc == 0 and texts <= tcc
    assert load(file, tmp_path / "cache")[1:] == [more, texts, gcc]  # nothing more is stored


def test_equal_weights_are_prepared_by_one_kernel(file: Path, tmp_path: Path) -> None:
    """Of four convolutions, three are of one shape: two plans for their weights, and that of the model."""
    assert load(file, tmp_path / "cache")[2] <= 4


def test_without_a_compiler(file: Path, tmp_path: Path) -> None:
    """Tier auto on a machine that has none: the texts of tier tcc serve it, and no other."""
    cold = load(file, tmp_path / "cache", "auto", PATH="/nowhere")
    assert cold[1] == 0
    warm = load(file, tmp_path / "cache", "auto", PATH="/nowhere")
    assert warm[0] == cold[0] and warm[1] > 0
    assert load(file, tmp_path / "cache", "tcc")[1] == warm[1]


def test_objects_of_the_compiler(file: Path, tmp_path: Path) -> None:
    """gcc's kernels are taken as well, though the program of a file is verified after each pass."""
    cold = load(file, tmp_path / "cache", "gcc")
    assert cold[1] == 0 and cold[3] > 0
    warm = load(file, tmp_path / "cache", "gcc")
    assert warm[0] == cold[0] and warm[1] > 0 and warm[2:] == [0, 0]


def test_kernels_that_prepare_weights_are_for_libtcc_alone(tmp_path: Path) -> None:
    """The next process finds the values and wants no kernels for them: the C compiler makes none."""
    layers = nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 96, 3), nn.Flatten(), nn.Linear(96 * 35, 70)
    dlc.save(nn.Sequential(*layers).eval(), tmp_path / "m.dlc", (torch.randn(2, 3, 9, 11),))
    cold = load(tmp_path / "m.dlc", tmp_path / "cache", "auto")
    assert cold[1] == 0 and cold[2] > cold[3] > 0
    warm = load(tmp_path / "m.dlc", tmp_path / "cache", "auto")
    assert warm[0] == cold[0] and warm[1] > 0 and warm[2:] == [0, 0]


def test_kernels_that_prepare_weights_are_compiled_once(tmp_path: Path) -> None:
    """Where values have no room in the folder, the next process wants their kernels."""
    layers = nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 96, 3), nn.Flatten(), nn.Linear(96 * 35, 70)
    dlc.save(nn.Sequential(*layers).eval(), tmp_path / "m.dlc", (torch.randn(2, 3, 9, 11),))
    small = {"DLC_CACHE_SIZE": "1000000"}
    cold = load(tmp_path / "m.dlc", tmp_path / "cache", "auto", **small)
    assert cold[1] == 0 and cold[2] > 1 and cold[3] == cold[2]
    warm = load(tmp_path / "m.dlc", tmp_path / "cache", "auto", **small)
    assert warm[0] == cold[0] and warm[1] > 0 and warm[2:] == [0, 0]


@pytest.mark.parametrize("fault", ["cut", "changed", "empty", "other"])
def test_damage_is_a_miss(file: Path, tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "cache"
    cold = load(file, folder)
    entries = sorted(folder.glob("*.so"))
    assert entries
    for entry in entries:
        content = bytearray(entry.read_bytes())
        if fault == "cut":
            content = content[: len(content) // 2]
        elif fault == "changed":
            content[len(content) // 2] ^= 1
        elif fault == "empty":
            content = bytearray()
        else:
            content = bytearray(b"dlc unit 1 99999\n")
        entry.unlink()
        entry.write_bytes(content)
        entry.chmod(0o600)
    found = load(file, folder)
    assert found[0] == cold[0] and found[1] == 0
    assert load(file, folder)[1] > 0  # stored again


def test_texts_depend_on_no_other_variable(file: Path, tmp_path: Path) -> None:
    """DLC_COSTS decides kernels, which have keys; DLC_GDB is for those of the C compiler."""
    cold = load(file, tmp_path / "cache")
    warm = load(file, tmp_path / "cache", DLC_GDB="1", DLC_COSTS="sse2")
    assert warm[0] == cold[0] and warm[1] > 0


def test_no_folder(file: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert load(file, tmp_path / "cache", DLC_CACHE="0")[1] == 0
    assert not list((tmp_path / "cache").iterdir())


def test_entries_of_others_are_not_taken(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    cold = load(file, folder)
    for entry in folder.glob("*.so"):
        entry.chmod(0o666)
    found = load(file, folder)
    assert found[0] == cold[0] and found[1] == 0


def test_the_folder_is_exported_without_them(file: Path, tmp_path: Path) -> None:
    """An export has programs with gcc's code, and skips what only libtcc has compiled."""
    load(file, tmp_path / "cache")
    assert dlc.cache.export(tmp_path / "e.bin", folder=tmp_path / "cache") == 0

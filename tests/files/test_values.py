"""Values that dlc.load prepares of weights are mapped from the cache folder by the next process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dlc
from benchmarks.measure import in_process
from tests.files import apart

CODE = """
import hashlib, json, os, dlc, numpy as np
path, weights, limit = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
m = dlc.load(path, weights=weights, tier="tcc")
y = m(np.random.default_rng(0).standard_normal((3, N), dtype=np.float32))
folder = os.environ["DLC_CACHE_DIR"]
lines = [line for line in open("/proc/self/maps") if folder in line]
print(json.dumps([hashlib.sha256(y.tobytes()).hexdigest(), len(lines), dlc.counters()["tcc_compiles"]]))
"""
N = 200
#: The files of values: nothing else of these models has as many bytes.
LARGE = 4 * N * N


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(N, N), nn.Tanh(), nn.Linear(N, N + 7), nn.Tanh(), nn.Linear(N + 7, 3)
    ).eval()


def saved(path: Path, seed: int = 0, **options: Any) -> Path:
    dlc.save(net(seed), path, (torch.randn(3, N),), **options)
    return path


def load(file: Path, folder: Path, weights: Path | str = "", limit: int = 0, **more: str) -> list[Any]:
    """The hash of the results, how many mappings are of the folder, and compiles."""
    folder.mkdir(mode=0o700, exist_ok=True)
    code = CODE.replace("N)", f"{N})")
    return json.loads(apart.run(code, str(file), str(weights), str(limit), DLC_CACHE_DIR=str(folder), **more))


def values_of(folder: Path) -> list[Path]:
    return [entry for entry in folder.glob("*.so") if entry.stat().st_size > LARGE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_the_second_process_maps_them(tmp_path: Path, folder: Path) -> None:
    file = saved(tmp_path / "m.dlc")
    result, mapped, compiles = load(file, folder)
    entries = values_of(folder)
    assert mapped == 1 and len(entries) == 1 and compiles > 1
    written = entries[0].stat().st_mtime_ns
    assert load(file, folder) == [result, 1, 1]  # one compile: that of the model's kernels
    assert load(file, folder, DLC_CACHE="0")[:2] == [result, 0]
    assert values_of(folder)[0].stat().st_mtime_ns == written
    copy = tmp_path / "copy.dlc"
    copy.write_bytes(file.read_bytes())
    assert load(copy, folder) == [result, 1, 1] and len(values_of(folder)) == 1


@pytest.mark.parametrize("fault", ["cut", "changed", "empty", "other", "in place"])
def test_damage_is_a_miss(fault: str, tmp_path: Path, folder: Path) -> None:
    file = saved(tmp_path / "m.dlc")
    result = load(file, folder)[0]
    (entry,) = values_of(folder)
    content = bytearray(entry.read_bytes())
    if fault == "in place":
        with open(entry, "r+b") as opened:
            opened.seek(1000)
            opened.write(b"\x55" * 100)
    else:
        content = {
            "cut": content[: len(content) // 2],
            "empty": bytearray(),
            "other": b"x" * len(content),
        }.get(fault, content)
        if fault == "changed":
            content[1000] ^= 0x40
        entry.unlink()
        entry.write_bytes(content)
        entry.chmod(0o600)
    assert load(file, folder)[:2] == [result, 1]
    assert load(file, folder) == [result, 1, 1]  # made again


def test_another_weight_has_other_values(tmp_path: Path, folder: Path) -> None:
    """Also in the file that was loaded before, and where nothing else of it says so."""
    one, two = saved(tmp_path / "1.dlc"), saved(tmp_path / "2.dlc", 1)
    first, second = load(one, folder)[0], load(two, folder)[0]
    assert first != second and len(values_of(folder)) == 2
    os.replace(two, one)
    assert load(one, folder)[:2] == [second, 1]
    status = one.stat()
    with open(one, "r+b") as file:
        file.seek(status.st_size - LARGE)
        file.write(b"\0" * 1000)
    os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = load(one, folder)[0]
    assert changed not in (first, second) and changed == load(one, folder, DLC_CACHE="0")[0]


#: What each file of weights is made of is said once for the key, and once more before the entry is kept.
WRITTEN_MEANWHILE = """
import dlc.files.model as model
class Model(model.Model):
    def __init__(self, *given):
        said = iter("ab")
        super().__init__(*given[:-1], lambda cache: given[-1](cache) + next(said))
model.Model = Model
"""


def test_a_file_that_is_written_to_meanwhile_has_no_entry(tmp_path: Path, folder: Path) -> None:
    path, elsewhere = saved(tmp_path / "m.dlc"), tmp_path / "elsewhere"
    usual = load(path, elsewhere)
    folder.mkdir(mode=0o700)
    code = WRITTEN_MEANWHILE + CODE.replace("N)", f"{N})")
    result, mappings, _ = json.loads(apart.run(code, str(path), "", "0", DLC_CACHE_DIR=str(folder)))
    assert (result, mappings) == (usual[0], 0) and usual[1] > 0
    assert not values_of(folder) and len(values_of(elsewhere)) == 1


def test_weights_in_a_file_of_their_own(tmp_path: Path, folder: Path) -> None:
    from safetensors.torch import save_file

    weights, file = tmp_path / "w.safetensors", saved(tmp_path / "m.dlc", weights=False)
    save_file(net().state_dict(), weights)
    first = load(file, folder, weights)
    assert load(file, folder, weights) == [first[0], 1, 1]
    save_file(net(1).state_dict(), weights)
    second = load(file, folder, weights)[0]
    assert second != first[0] and second == load(file, folder, weights, DLC_CACHE="0")[0]


def test_the_folder_has_a_bound(tmp_path: Path, folder: Path) -> None:
    """Values of more than half of it are not kept; others count, and go as kernels do."""
    file = saved(tmp_path / "m.dlc")
    result = load(file, folder, DLC_CACHE_SIZE=str(4 * LARGE))[0]
    assert not values_of(folder)
    assert len(list(folder.glob("seen-*"))) == 1  # of the text: the weights were not hashed
    assert load(file, folder)[:2] == [result, 1]
    (entry,) = values_of(folder)
    assert dlc.cache.describe(folder).endswith(" MiB")
    held = sum(size for _, size, _, _ in dlc._C.cache_list(str(folder))[1])
    assert held > entry.stat().st_size
    assert dlc._C.cache_trim(LARGE, str(folder)) > 0 and not values_of(folder)
    assert load(file, folder)[:2] == [result, 1]
    assert all(sound for _, _, _, sound in dlc._C.cache_list(str(folder), True)[1])


def test_a_full_disk(tmp_path: Path, folder: Path) -> None:
    """What cannot be written is computed, and no half entry is left."""
    file = saved(tmp_path / "m.dlc")
    result = load(file, folder, DLC_CACHE="0")[0]
    assert load(file, folder, limit=LARGE)[:2] == [result, 0]
    assert not values_of(folder) and not list(folder.glob("tmp-*"))


def test_a_program_that_was_verified_has_a_note(tmp_path: Path, folder: Path) -> None:
    """Of its text, once it was compiled; another text is verified after each pass."""
    for k, module in enumerate((nn.Tanh(), nn.Tanh(), nn.Sigmoid())):
        file = tmp_path / f"{k}.dlc"
        dlc.save(module, file, (torch.randn(3, N),))
        load(file, folder)
        assert len(list(folder.glob("seen-*"))) == 1 + k // 2


@pytest.mark.parametrize("again", [False, True])
def test_memory(again: bool, tmp_path: Path) -> None:
    """With an empty folder no more than one value is in memory; then only what a call reads."""
    layers = [nn.Linear(1024, 1024, bias=False) for _ in range(12)]
    dlc.save(nn.Sequential(*layers).eval(), tmp_path / "m.dlc", (torch.ones(2, 1024),))
    for _ in range(1 + again):
        found = in_process("benchmarks.loading", str(tmp_path / "m.dlc"), DLC_CACHE_DIR=str(tmp_path / "c"))
    assert found["weights"] == 12 * 4 * 1024 * 1024
    assert found["besides"] < 20e6, found

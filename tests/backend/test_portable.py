"""Kernels that leave one cache for another: exported, imported, through torch.compiler, and refused."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import dlc
from dlc import cache, portable
from dlc.portable import Archive, Unit
from tests.fresh import run

from .refused import PROGRAM
from .test_kernels import STACK

FIRST = (
    STACK
    + """
    import pathlib, sys, torch.compiler
    y, counts = compiled(stack(3), x)
    here = pathlib.Path("FOLDER")
    assert dlc.cache.export(here / "file") == 1
    data, info = torch.compiler.save_cache_artifacts()
    assert len(info.dlc_artifacts) == 1
    (here / "artifacts").write_bytes(data)
    print(counts["swaps"])
    print(y.view(torch.int32).tolist())
    """
)
SECOND = (
    STACK
    + """
    import dlc.backend, pathlib, torch.compiler
    LOAD
    y, counts = compiled(stack(3), x)
    print({name: counts[name] for name in ("tcc_compiles", "gcc_compiles", "cache_hits")})
    print(y.view(torch.int32).tolist())
    """
)


@dataclasses.dataclass(frozen=True)
class Exported:
    """What a first process left: its file, torch's artifacts, its number of kernels, its result."""

    folder: Path
    kernels: int
    result: str

    @property
    def archive(self) -> Archive:
        return portable.unpack((self.folder / "file").read_bytes())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("exported")
    done = run(FIRST.replace("FOLDER", str(folder)), DLC_CACHE_DIR=str(folder / "cache"))
    assert done.returncode == 0, done.stderr
    kernels, result = done.stdout.splitlines()
    return Exported(folder, int(kernels), result)


IMPORT = 'print(dlc.cache.import_("{folder}/file", trusted={trusted}))'
LOAD = (
    'print(torch.compiler.load_cache_artifacts(pathlib.Path("{folder}/artifacts").read_bytes()) is not None)'
)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize(
    ("load", "trusted", "path", "said"),
    [
        (IMPORT, False, None, "{'present': 0, 'taken': 0, 'compiled': 1, 'failed': 0}"),
        (IMPORT, True, "/nonexistent", "{'present': 0, 'taken': 1, 'compiled': 0, 'failed': 0}"),
        (LOAD, True, "/nonexistent", "True"),
    ],
    ids=["texts", "machine code", "torch"],
)
def test_another_process_has_the_settled_kernels(
    exported: Exported, tmp_path: Path, load: str, trusted: bool, path: str | None, said: str
) -> None:
    script = SECOND.replace("LOAD", load.format(folder=exported.folder, trusted=trusted))
    done = run(script, DLC_CACHE_DIR=str(tmp_path / "cache"), **({"PATH": path} if path else {}))
    assert done.returncode == 0, done.stderr
    counts = f"{{'tcc_compiles': 0, 'gcc_compiles': 0, 'cache_hits': {exported.kernels}}}"
    assert done.stdout.splitlines() == [said, counts, exported.result]


def put(archive: Archive, path: Path) -> Path:
    path.write_bytes(portable.pack(archive))
    return path


def entries(folder: Path) -> int:
    return len(list(folder.glob("*.so")))


def only(counts: dict[str, int]) -> str:
    """The one word that is not 0."""
    (word,) = (word for word, count in counts.items() if count)
    return word


def test_import_twice_and_without_a_compiler(exported: Exported, tmp_path: Path) -> None:
    file, folder = exported.folder / "file", tmp_path / "cache"
    assert only(cache.import_(file, folder=str(folder), cc="/nonexistent")) == "failed"
    assert entries(folder) == 0
    assert only(cache.import_(file, folder=str(folder))) == "compiled"
    assert entries(folder) == exported.kernels
    assert only(cache.import_(file, folder=str(folder))) == "present"
    assert only(cache.import_(file, folder=str(tmp_path / "other"), trusted=True)) == "taken"
    assert cache.export(tmp_path / "again", folder=str(folder)) == 1
    again = portable.unpack((tmp_path / "again").read_bytes())
    assert [unit.program for unit in again.units] == [unit.program for unit in exported.archive.units]


@pytest.mark.parametrize("what", ["processor", "object"])
def test_code_that_is_not_for_here_is_compiled_again(exported: Exported, tmp_path: Path, what: str) -> None:
    """A key of another processor's; an object that is none."""
    (unit,) = exported.archive.units
    other = dataclasses.replace(
        unit,
        key="0" * 64 if what == "processor" else unit.key,
        code=unit.code if what == "processor" else unit.code[: len(unit.code) // 2],
    )
    file = put(dataclasses.replace(exported.archive, units=(other,)), tmp_path / "file")
    assert only(cache.import_(file, folder=str(tmp_path / "cache"), trusted=True)) == "compiled"
    assert entries(tmp_path / "cache") == exported.kernels


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "other": lambda data: b"PK" + data,
    "short": lambda data: data[:-1],
    "long": lambda data: data + b"\0",
    "changed": lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
    "no units": lambda data: data[:22],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_refused(exported: Exported, tmp_path: Path, name: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(DAMAGE[name]((exported.folder / "file").read_bytes()))
    with pytest.raises(cache.PortableError, match=r"file: it is (damaged|no export)"):
        cache.import_(file, folder=str(tmp_path / "cache"), trusted=True)
    assert not (tmp_path / "cache").exists()


HOSTILE = {
    "no text": ("\x01\x02", "is no program"),
    "another stage": (PROGRAM.replace("kernels\n", "graph\n", 1), "is no program"),
    "a wrong type": (PROGRAM.replace("z: f32[N]", "z: f64[N]"), "V0|V1"),
    "a name that is a macro": (PROGRAM.replace("N", "DLC_LANES"), "means something else in C"),
    "a value that is a macro": (PROGRAM.replace("z", "DLC_FMA"), "means something else in C"),
    "no kernels": (
        "dlc 1 kernels\n\nfn f[](x: f32[2]) -> (f32[2] view of x) {\n  ret x\n}\n",
        "is no program",
    ),
    "depth": (
        PROGRAM.replace("f32[N]", "f32[" + "(" * 100000 + "N" + ")" * 100000 + "]", 1),
        "is no program",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_is_refused_before_anything_is_stored(
    exported: Exported, tmp_path: Path, name: str
) -> None:
    text, match = HOSTILE[name]
    units = (*exported.archive.units, Unit("0" * 64, text, b""))
    file = put(dataclasses.replace(exported.archive, units=units), tmp_path / "file")
    with pytest.raises(cache.PortableError, match=r"file: unit 1 is no program") as error:
        cache.import_(file, folder=str(tmp_path / "cache"))
    assert error.match(match)
    assert not (tmp_path / "cache").exists()


def test_where_a_let_comes_from_is_not_taken(tmp_path: Path) -> None:
    """It is a comment of the C text, and no part of the key."""
    for text in (PROGRAM, PROGRAM.replace("sin x\n", 'sin x  @a "m.py:1: */ #error /*"\n')):
        archive = Archive("0" * 64, "0" * 64, (Unit("0" * 64, text, b""),))
        try:
            counts = portable.install(archive, trusted=False, folder=str(tmp_path / "cache"))
        except cache.PortableError:
            assert text != PROGRAM
        else:
            assert only(counts) in ("compiled", "present")


def test_programs_with_random_damage(exported: Exported, tmp_path: Path) -> None:
    """They are refused, or they are programs: nothing else happens."""
    source = random.Random(0)
    (unit,) = exported.archive.units
    refused = 0
    for _ in range(300):
        text = list(unit.program)
        for _ in range(source.choice((1, 1, 2, 8))):
            at, size = source.randrange(len(text)), source.choice((1, 1, 4, 40))
            start = source.randrange(len(text))
            text[at : at + source.choice((0, size))] = text[start : start + size]
        archive = Archive("0" * 64, "0" * 64, (Unit("0" * 64, "".join(text), b""),))
        try:
            portable.install(archive, trusted=False, folder=str(tmp_path / "cache"), cc="/nonexistent")
        except cache.PortableError:
            refused += 1
    assert refused > 100


def test_lengths_that_lie(exported: Exported) -> None:
    import hashlib

    data = (exported.folder / "file").read_bytes()[:-32]
    for at in range(len(portable.MAGIC), len(portable.MAGIC) + 16):
        for value in (0, 1, 127, 255):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            if changed != data:
                with pytest.raises(cache.PortableError):
                    portable.unpack(changed + hashlib.sha256(changed).digest())


def test_artifacts_that_are_not_ours(exported: Exported, caplog: pytest.LogCaptureFixture) -> None:
    from dlc.torch_artifacts import KernelsArtifact

    KernelsArtifact("k", b"nonsense").populate_cache()
    assert "not used: it is no export" in caplog.text
    dlc.wait()


def make_special(kind: str, path: Path) -> None:
    """What is no export; a file of 3 GB has a hole."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(portable.MAGIC if kind == "large export" else b"")
        os.truncate(path, 3 << 30)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "large", "large export"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """Without waiting for a writer, and without reading it into memory."""
    path = tmp_path / "file"
    make_special(kind, path)
    with pytest.raises((cache.PortableError, IsADirectoryError)):
        cache.import_(path, folder=str(tmp_path / "cache"))
    used: list[int] = []
    tracemalloc.start()
    try:
        cache.import_(path, folder=str(tmp_path / "cache"))
    except (cache.PortableError, IsADirectoryError):
        used.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert used and used[0] < 8 << 20
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_others_can_swap_is_refused_with_its_name(tmp_path: Path) -> None:
    """But for where nobody else gets to it."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    folder = tmp_path / "open" / "cache"
    tmp_path.chmod(0o700)
    assert cache._C.cache_refusal(str(folder)) is None
    assert folder.stat().st_mode & 0o777 == 0o700
    top = Path(tempfile.mkdtemp())
    try:
        (top / "open").mkdir()
        top.chmod(0o755)
        (top / "open").chmod(0o777)
        said = cache._C.cache_refusal(str(top / "open" / "cache"))
        assert said == f"{top}/open can be written by others, who may rename what is in it"
        assert not (top / "open" / "cache").exists()
    finally:
        shutil.rmtree(top)

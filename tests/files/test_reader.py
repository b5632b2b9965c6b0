"""Files that are damaged or hostile: an error of one line, never a crash, and no memory for nothing."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlc
from dlc import FileError
from dlc.files.tensors import Tensors
from tests.files.apart import ROOT
from tests.shards import Shard

TEXT = """dlc 1 graph
fn scaled[N](x: f32[N], w: f32[4, 3], b: i64[2]) -> (f32[4, 3], f32[N]) {
  let y: f32[4, 3] = add w, w
  let z: f32[N] = mul x, 2.0
  ret y, z
}
"""
MUTATIONS = 10_000  # in all shards
OF_SHARD = 84


def build(path: Path) -> bytes:
    """A small file of each kind of part: weights, an example, a state."""
    from dlc.files.model import Model
    from dlc.files.signature import Signature, State, Weight

    signature = Signature(
        "scaled",
        [("x", {"array": 0})],
        0,
        {"tuple": [{"array": 0}, {"dict": {"z": {"array": 1}}}, {"value": None}]},
        [Weight(1, ["w"])],
        [State("b", 2, 1, True)],
        {"0": "dlc.example.0"},
    )
    fixed = {1: np.arange(12, dtype=np.float32).reshape(4, 3)}
    states = {"b": np.array([1, 2])}
    made = Model(
        dlc.ir.parse(TEXT), signature, fixed, states, {0: np.ones(5, np.float32)}, {"dlc.format": "1"}, "tcc"
    )
    made.remember()
    made.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return build(tmp_path_factory.mktemp("files") / "m.dlc")


def refused(path: Path, data: bytes, check: bool = True) -> str:
    path.write_bytes(data)
    with pytest.raises(FileError) as caught:
        dlc.load(path, check=check, tier="tcc")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def table(rows: Any, data: bytes = b"") -> bytes:
    text = rows if isinstance(rows, bytes) else json.dumps(rows).encode()
    return len(text).to_bytes(8, "little") + text + data


def row(shape: Any = (1,), begin: Any = 0, end: Any = 4, dtype: Any = "F32") -> dict[str, Any]:
    return {
        "dtype": dtype,
        "shape": shape if not isinstance(shape, tuple) else list(shape),
        "data_offsets": [begin, end],
    }


DEEP = b'{"x":' * 20_000
ATTACKS: dict[str, bytes] = {
    "nothing": b"",
    "a length of 2 to the 63": (2**63).to_bytes(8, "little") + b"{}",
    "a length of 2 to the 64 - 1": b"\xff" * 8 + b"{}",
    "a length beyond the file": (100).to_bytes(8, "little") + b"{}",
    "no table": (0).to_bytes(8, "little") + b"{}",
    "an empty table": table({}),
    "a list": table([1, 2]),
    "no JSON": table(b"{nothing"),
    "no UTF-8": table(b'{"\xff\xfe": {}}'),
    "an array outside": table({"x": row(end=8, shape=(2,))}, b"1234"),
    "a negative offset": table({"x": row(begin=-4)}, b"1234"),
    "offsets in the other order": table({"x": row(begin=4, end=0)}, b"1234"),
    "an offset beyond 64 bits": table({"x": row(end=2**70)}, b"1234"),
    "an offset that is a float": table({"x": row(end=4.0)}, b"1234"),
    "an offset that is a flag": table({"x": row(begin=False)}, b"1234"),
    "an overlap": table({"x": row(), "y": row()}, b"1234"),
    "a hole": table({"x": row(begin=4, end=8)}, b"12345678"),
    "bytes at the end": table({"x": row()}, b"12345678"),
    "a product that overflows": table({"x": row(shape=(2**32, 2**32, 4), end=0)}),
    "a product that is 4 by 64 bits": table({"x": row(shape=(2**62 + 1, 4))}, b"1234"),
    "a size beyond 64 bits": table({"x": row(shape=(2**64, 0), end=0)}),
    "a number of many digits": table(
        b'{"x":{"dtype":"F32","shape":[' + b"9" * 900 + b'],"data_offsets":[0,0]}}'
    ),
    "a number of too many digits": table(b'{"x":{"dtype":"F32","shape":[' + b"9" * 9000 + b"]}}"),
    "many axes": table({"x": row(shape=(1,) * 64)}, b"1234"),
    "no shape": table({"x": {"dtype": "F32", "data_offsets": [0, 4]}}, b"1234"),
    "a key too many": table({"x": row() | {"more": 1}}, b"1234"),
    "deep objects": table(DEEP),
    "deep lists": table(b'{"x":{"dtype":' + b"[" * 900 + b"}"),
    "deeper lists": table(b'{"x":' + b"[" * 100_000),
    "a key twice": table(b'{"x":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"1234"),
    "metadata behind": table({"x": row(), "__metadata__": {"dlc.format": "1"}}, b"1234"),
    "metadata of numbers": table({"__metadata__": {"dlc.format": 1}}),
    "metadata in metadata": table({"__metadata__": {"dlc.format": {}}}),
    "half a surrogate": table(b'{"__metadata__":{"\\ud800":"x"}}'),
    "a string without end": table(b'{"' + b"x" * 100_000),
    "no format": table({"__metadata__": {"a": "b"}, "x": row()}, b"1234"),
    "a format that is no number": table({"__metadata__": {"dlc.format": "one"}}),
    "a format of many digits": table({"__metadata__": {"dlc.format": "9" * 5000}}),
    "a program alone": table({"__metadata__": {"dlc.format": "1", "dlc.ir": "1", "dlc.program": TEXT}}),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_an_error_of_one_line(name: str, tmp_path: Path) -> None:
    refused(tmp_path / "m.dlc", ATTACKS[name])


def test_what_is_no_file(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(FileError):
            dlc.load(path)
    with pytest.raises(OSError):
        dlc.load(tmp_path / "none")
    with pytest.raises(OSError):
        dlc.load(tmp_path)


def parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def resealed(rows: dict[str, Any], data: bytes) -> bytes:
    """With the SHA-256 of what it says now: as whoever makes a hostile file would."""
    from dlc.files.model import _digest_of_file
    from dlc.files.tensors import Entry

    meta = rows["__metadata__"]
    entries = {
        name: Entry(one["dtype"], tuple(one["shape"]), *one["data_offsets"])
        for name, one in rows.items()
        if name != "__metadata__"
    }
    meta["dlc.sha256"] = _digest_of_file(meta, entries)
    return table(rows, data)


def test_a_newer_format_is_refused_with_both_numbers(saved: bytes, tmp_path: Path) -> None:
    rows, data = parts(saved)
    rows["__metadata__"]["dlc.format"] = "7"
    said = refused(tmp_path / "m.dlc", resealed(rows, data))
    assert "format is 7" in said and "up to 1" in said and "install a newer dlc" in said


def test_another_version_of_the_language(saved: bytes, tmp_path: Path) -> None:
    rows, data = parts(saved)
    rows["__metadata__"]["dlc.ir"] = "2"
    assert "version '2'" in refused(tmp_path / "m.dlc", resealed(rows, data))


def test_a_truth_value_is_0_or_1(tmp_path: Path) -> None:
    """Programs index by them, unchecked."""
    data = table({"x": row(dtype="BOOL", shape=(4,))}, b"\0\1\2\1")
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(FileError, match="not 0 or 1"):
        Tensors(tmp_path / "x", lambda metadata: None).array("x", "bool")
    (tmp_path / "x").write_bytes(data.replace(b"\2", b"\0"))
    assert Tensors(tmp_path / "x", lambda metadata: None).array("x", "bool").tolist() == [0, 1, 0, 1]


def change_signature(saved: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    rows, data = parts(saved)
    signature = json.loads(rows["__metadata__"]["dlc.signature"])
    change(signature)
    rows["__metadata__"]["dlc.signature"] = json.dumps(signature)
    return resealed(rows, data)


def nested(depth: int) -> Any:
    node: Any = {"array": 0}
    for _ in range(depth):
        node = {"list": [node]}
    return node


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a parameter twice": lambda s: s["weights"][0].update(param=0),
    "a parameter that is not there": lambda s: s["weights"][0].update(param=9),
    "a negative parameter": lambda s: s["weights"][0].update(param=-1),
    "a parameter that is a flag": lambda s: s["weights"][0].update(param=True),
    "a weight that is not there": lambda s: s["weights"][0].update(names=["../../etc/passwd"]),
    "a weight without names": lambda s: s["weights"][0].update(names=[]),
    "a weight of the user's": lambda s: s["weights"][0].update(own=True),
    "no weights": lambda s: s.update(weights=[]),
    "a result that is not there": lambda s: s.update(output={"array": 5}),
    "an unknown container": lambda s: s.update(output={"pickle": "x"}),
    "a deep container": lambda s: s.update(output=nested(60)),
    "a very deep container": lambda s: s.update(output=nested(300)),
    "no output": lambda s: s.pop("output"),
    "a state that is not there": lambda s: s["states"][0].update(result=7),
    "an example that is not there": lambda s: s["example"].update({"0": "none"}),
    "an example of nothing": lambda s: s["example"].update({"x": "none"}),
    "keywords": lambda s: s.update(keywords=9),
    "another thing": lambda s: s.update(inputs=7),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_signature_that_is_wrong(name: str, saved: bytes, tmp_path: Path) -> None:
    refused(tmp_path / "m.dlc", change_signature(saved, CHANGES[name]))


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        TEXT.replace("add w, w", "add w, x"),
        TEXT.replace("f32[4, 3]", "f32[4, 5]"),
        TEXT.replace("f32[4, 3]", "f64[4, 3]"),
        TEXT.replace("f32[4, 3]", f"f32[{2**62}, {2**62}]"),
        TEXT.replace("let z: f32[N] = mul x, 2.0", 'let z: f32[N] = call x target="aten.sin.default" site=0'),
        TEXT.replace("graph", "kernels"),
        TEXT.replace("dlc 1", "dlc 2"),
        TEXT.replace("mul x, 2.0", "mul x, " + "9" * 10_000),
        TEXT.replace("[N]", "[N" + " + 1" * 100_000 + "]"),
        TEXT.replace("[N]", "[" + "(" * 100_000 + "N" + ")" * 100_000 + "]"),
    ],
)  # fmt: skip
def test_a_program_that_is_wrong(text: str, saved: bytes, tmp_path: Path) -> None:
    rows, data = parts(saved)
    rows["__metadata__"]["dlc.program"] = text
    refused(tmp_path / "m.dlc", resealed(rows, data))


def test_a_changed_weight_is_seen_by_check(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.dlc"
    assert "damaged" in refused(path, saved[:-1] + bytes([saved[-1] ^ 1]))
    dlc.load(path, tier="tcc")  # weights are not read without


MEMORY = """
import resource, sys, os, dlc
from dlc import FileError
import dlc.files.model
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * 4096
path = sys.argv[1]
before = resident()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
try:
    dlc.load(path)
except FileError as error:
    print(len(str(error).splitlines()))
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(max(most - max(before, peak), 0), os.path.getsize(path))
"""


def many(saved: bytes, count: int) -> bytes:
    rows, data = parts(saved)
    at = len(data)
    for k in range(count):
        rows[f"unused.{k}"] = row(shape=(0,), begin=at, end=at)
    return resealed(rows, data)


@pytest.mark.parametrize(
    "make",
    [
        lambda saved: many(saved, 100_000),
        lambda saved: table(
            b'{"__metadata__":{' + b",".join(b'"%d":"x"' % k for k in range(400_000)) + b"}}"
        ),
        lambda saved: table(b'{"x":' + b"[" * 5_000_000),
        lambda saved: table(b'{"' + b"x" * 5_000_000 + b'":{}}'),
        lambda saved: table(b'{"' + b"\\n" * 5_000_000 + b'":{}}'),
        lambda saved: change_signature(
            saved, lambda s: s.update(output={"list": [{"value": 1}] * 300_000 + [7]})
        ),
    ],
    ids=["100,000 entries", "metadata", "lists", "a name", "escapes", "a signature"],
)
def test_memory(make: Callable[[bytes], bytes], saved: bytes, tmp_path: Path) -> None:
    """A hostile table takes no more than twice its file, and a few megabytes that Python itself wants."""
    path = tmp_path / "m.dlc"
    path.write_bytes(make(saved))
    found = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert found.returncode == 0, found.stderr
    lines, memory, size = map(int, found.stdout.split())
    assert lines == 1
    assert memory <= 2 * size + (8 << 20)


def mutated(data: bytes, source: random.Random) -> bytes:
    """Bytes changed, cut, doubled or moved, or a number of the table another one."""
    made = bytearray(data)
    head = 8 + int.from_bytes(data[:8], "little")
    for _ in range(source.choice((1, 1, 1, 2, 5))):
        if not made:
            break
        at = source.randrange(min(source.choice((8, head, head, len(made))), len(made)))
        match source.randrange(6):
            case 0:
                made[at] = source.randrange(256)
            case 1:
                made[at] ^= 1 << source.randrange(8)
            case 2:
                del made[at : at + source.randrange(1, 9)]
            case 3:
                made[at:at] = made[at : at + source.randrange(1, 40)]
            case 4:
                to = source.randrange(len(made))
                made[at : at + 8] = made[to : to + 8]
            case _:
                made = made[:at] + made[at + 1 :] if source.random() < 0.5 else made[: max(at, 1)]
    return bytes(made)


def test_mutated_files(saved: bytes, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each is an error of one line, or is the same model."""
    shard = Shard.parse(request.config.option.shard)
    path, original = tmp_path / "m.dlc", tmp_path / "o.dlc"
    original.write_bytes(saved)
    text = dlc.load(original, tier="tcc").text
    for k in range(OF_SHARD):
        data = mutated(saved, random.Random(shard.number * OF_SHARD + k))
        path.write_bytes(data)
        try:
            model = dlc.load(path, check=True, tier="tcc")
        except FileError as error:
            assert "\n" not in str(error), k
        else:
            assert model.text == text, k


def test_mutated_signatures_and_programs(
    saved: bytes, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The same where the hash is right again: what can be run runs, on arrays that fit, without a crash."""
    shard = Shard.parse(request.config.option.shard)
    path, x = tmp_path / "m.dlc", np.ones(5, np.float32)
    for k in range(OF_SHARD // 2):
        source = random.Random(shard.number * OF_SHARD + k)
        rows, data = parts(saved)
        key = source.choice(("dlc.program", "dlc.signature"))
        text = bytearray(rows["__metadata__"][key].encode())
        at, to = source.randrange(len(text)), source.randrange(len(text))
        match source.randrange(3):
            case 0:
                text[at] = source.randrange(32, 127)
            case 1:
                del text[at : at + source.randrange(1, 4)]
            case _:
                text[at : at + 3] = text[to : to + 3]
        rows["__metadata__"][key] = text.decode()
        path.write_bytes(resealed(rows, data))
        try:
            dlc.load(path, tier="tcc")(x)
        except FileError as error:
            assert "\n" not in str(error), k
        except (ValueError, TypeError, KeyError, IndexError):
            pass


def test_the_shares_are_all() -> None:
    assert OF_SHARD * 120 >= MUTATIONS


def test_another_reader_reads_it(saved: bytes, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "m.dlc"
    path.write_bytes(saved)
    found = safetensors.load_file(path)
    assert sorted(found) == ["dlc.example.0", "dlc.state.b", "w"]
    assert np.array_equal(found["w"], np.arange(12, dtype=np.float32).reshape(4, 3))


def test_a_file_of_another_writer(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3, np.int8), "c": np.array(2.0)}
    safetensors.save_file(arrays, tmp_path / "m.safetensors", {"format": "np"})
    file = Tensors(tmp_path / "m.safetensors", lambda metadata: None)
    assert file.metadata == {"format": "np"}
    for name, kind in (("a", "f32"), ("b", "i8"), ("c", "f64")):
        assert np.array_equal(file.array(name, kind), arrays[name])
    assert resource.getpagesize() > 0

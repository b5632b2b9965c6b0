"""Models for browsers: m.wasm by wasmtime, m.mjs by node, and their bits.

They are those of dlc on a processor without fused multiply-adds, and of the same C compiled for one.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlc
from dlc import ir
from dlc.files import wasm as exporter
from tests.export.test_export import NAMES, SMALL
from tests.export.wasm import CASES, Wasmtime, bits, native, node, run_node, table

pytest.importorskip("wasmtime")
needs_node = pytest.mark.skipif(not node(), reason="needs node, and finds none in PATH")
MOST = 100_000  # bytes of a program without its weights
#: Runs m.run for each call of calls.json, on the arrays of a safetensors file each; prints the bits.
CALLS = """
import { readFileSync } from "node:fs";
const folder = process.argv[2], calls = JSON.parse(readFileSync(`${folder}/calls.json`));
const m = await load(), found = [];
for (const [k, sizes] of calls.entries()) {
  const { arrays } = tensors(new Uint8Array(readFileSync(`${folder}/call${k}.safetensors`)));
  const inputs = Object.fromEntries(Object.entries(arrays).map(([name, one]) => [name, one.array]));
  const results = m.run(inputs, sizes), rows = m.arrays(sizes).slice(-m.program.outputs.length);
  found.push(rows.map(({ name, shape }) => [shape,
    Buffer.from(results[name].buffer).toString("hex")]));
}
console.log(JSON.stringify({ found, bytes: m.wasm.memory.buffer.byteLength, base: m.base }));
"""


def saved(name: str, folder: Path) -> tuple[Any, list[list[np.ndarray]]]:
    """A model of the file m.dlc, and the arrays of calls with each of its sizes."""
    import torch

    case = CASES[name]()
    numbers = [tuple(np.asarray(a) for a in case.arguments(n)) for n in case.sizes]
    first, dim = case.arguments(case.sizes[0]), torch.export.Dim("N", min=1, max=256)
    dynamic = tuple(
        {axis: dim for axis, (n, m) in enumerate(zip(a.shape, b.shape, strict=True)) if n != m}
        for a, b in zip(*numbers[:2], strict=True)
    )
    dlc.save(case.build(), folder / "m.dlc", first, dynamic_shapes=dynamic)
    return dlc.load(folder / "m.dlc"), [list(arrays) for arrays in numbers]


def sizes_of(m: Any, arrays: list[np.ndarray]) -> dict[str, int]:
    found = {}
    for k, array in zip(m._free, arrays, strict=True):
        dims = m._function.params[k].type.partition("[")[2].removesuffix("]").split(", ")
        found |= {dim: n for dim, n in zip(dims, array.shape, strict=False) if dim in m._run.sizes}
    return found


def compiled_c(function: ir.Function, weights: set[str], out: Path, folder: Path) -> Any:
    """The C of the program for SSE2, as a function of arrays, sizes and arrays like the results."""
    for name, text in exporter.sources(function, "m", weights).items():
        (folder / name).write_bytes(text)
    flags = [flag for flag in exporter.FLAGS if not flag.startswith(("-nostdlib", "-Wno"))]
    command = ["gcc", *flags, "-msse2", "-mno-avx", "-shared", "-fPIC", "-o", "m.so", "m.c"]
    subprocess.run(command, cwd=folder, check=True)
    library, known = ctypes.CDLL(str(folder / "m.so")), table(out)
    library.m_workspace.restype = ctypes.c_size_t
    data = np.frombuffer((out / "m.safetensors").read_bytes(), np.uint8)
    room = np.empty(data.size + 64, np.uint8)
    file = room[-room.ctypes.data % 64 :][: data.size]  # as aligned as an allocation
    file[:] = data
    pointers = (ctypes.c_void_p * max(len(weights), 1))()

    def run(arrays: list[np.ndarray], sizes: dict[str, int], like: list[np.ndarray]) -> list[np.ndarray]:
        if weights:
            place, size = ctypes.c_void_p(file.ctypes.data), ctypes.c_size_t(file.size)
            assert library.m_bind(pointers, place, size) == 0
        values = [ctypes.c_int64(sizes[name]) for name in known["sizes"]]
        work = np.empty(library.m_workspace(*values), np.uint8)
        made = [np.empty_like(array) for array in like]
        all_of = [*map(np.ascontiguousarray, arrays), *made, work]
        places = [ctypes.c_void_p(array.ctypes.data) for array in all_of]
        assert library.m_run(*([pointers] if weights else []), *values, *places, None) == 0
        return made

    return run


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("name", CASES)
def test_bits(name: str, tmp_path: Path) -> None:
    """Of wasmtime, node and C for SSE2, for several sizes: those of dlc without fused multiply-adds."""
    m, calls = saved(name, tmp_path)
    paths = m.export_wasm(tmp_path / "out")
    assert {"m.wasm", "m.mjs", "m.html", "m.safetensors", "README.md"} <= {path.name for path in paths}
    out = tmp_path / "out"
    want = native(tmp_path / "m.dlc", calls, tmp_path)
    sizes = [sizes_of(m, arrays) for arrays in calls]
    weights = {m._function.params[k].name for k in m._fixed}
    machine, run_c = Wasmtime(out, table(out)), compiled_c(m._function, weights, out, tmp_path)
    other = 0
    for arrays, size, results in zip(calls, sizes, want, strict=True):
        by_c = run_c(arrays, size, results)
        by_wasm = machine.run(arrays, size, results)
        for a, b, c in zip(results, by_c, by_wasm, strict=True):
            assert bits(a) == bits(b), "of C for SSE2"
            assert bits(a) == bits(c), "of wasmtime"
        fused = m._results([array.copy() for array in arrays])
        for a, b in zip(results, fused, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
            other += bits(a) != bits(np.asarray(b))
    assert other or dlc._C.isa() == "sse2", "a class of its own"
    if node():
        check_node(m, out, calls, sizes, want)


def check_node(m: Any, out: Path, calls: Any, sizes: Any, want: Any) -> None:
    from dlc.files.tensors import stored, write

    names = [row[0] for row in table(out)["inputs"]]
    types = [m._function.params[k].type.partition("[")[0] for k in m._free]
    for k, arrays in enumerate(calls):
        given = {n: stored(a, t) for n, a, t in zip(names, arrays, types, strict=True)}
        write(out / f"call{k}.safetensors", given, lambda entries: {})
    (out / "calls.json").write_text(json.dumps(sizes))
    said = json.loads(run_node(out, CALLS, str(out)))
    for results, found in zip(want, said["found"], strict=True):
        for array, (shape, text) in zip(results, found, strict=True):
            assert (list(array.shape), bits(array).hex()) == (shape, text)
    # The memory is that of the call that needs most: arrays, each on a line of a cache, and the workspace.
    machine = Wasmtime(out, table(out))
    tops = []
    for arrays, size, results in zip(calls, sizes, want, strict=True):
        machine.run(arrays, size, results)
        tops.append(machine.at)
    assert said["bytes"] == -(-max(tops) // 65536) * 65536


@pytest.mark.parametrize("rows", [0, 1, 2, 17])
@pytest.mark.parametrize("n", [1, 15, 16, 257, 1030])
@pytest.mark.parametrize("name", ["softmax", "product"])
def test_sizes_are_parameters(name: str, rows: int, n: int, folders: Any) -> None:
    """wasmtime against C for SSE2."""
    function, machine, c = folders[name]
    sizes = dict(zip(function.sizes, (rows, n), strict=True))
    random = np.random.default_rng(rows + n)

    def made(kind: str) -> np.ndarray:
        dims = kind.partition("[")[2].removesuffix("]").split(", ")
        shape = [sizes[dim] if dim in sizes else int(dim) for dim in dims]
        return random.random(shape).astype(np.float32)

    arrays = [made(param.type) for param in function.params]
    like = [made(result) for result in function.results]
    for a, b in zip(c(arrays, sizes, like), machine.run(arrays, sizes, like), strict=True):
        assert bits(a) == bits(b)
        assert np.isfinite(a).all() and (not a.size or a.any())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = {}
    for name in ("softmax", "product"):
        to, out = (
            tmp_path_factory.mktemp(name),
            folder_of(SMALL[name], tmp_path_factory.mktemp(f"{name}-out")),
        )
        function = ir.parse(SMALL[name])
        made[name] = (function, Wasmtime(out, table(out)), compiled_c(function, set(), out, to))
    return made


@pytest.mark.parametrize("name", ["gpt", "mobilenet"])
def test_sizes_of_files_and_vectors(name: str, tmp_path: Path) -> None:
    m, _ = saved(name, tmp_path)
    m.export_wasm(tmp_path / "out")
    code = (tmp_path / "out/m.wasm").read_bytes()
    assert len(code) < MOST
    assert (tmp_path / "out/m.mjs").stat().st_size < 10_000
    assert code.count(b"\xfd\xe6\x01") > 8, "f32x4.mul"  # 0xfd begins an instruction on v128


def folder_of(text: str, to: Path, **given: np.ndarray) -> Path:
    exporter.export(ir.parse(text), to, "m", given, set(given))
    return to


LINEAR = """dlc 1 graph
fn linear[B in 0..100](x: f32[B, 3], w: f32[3, 2], b: f32[2]) -> (f32[B, 2]) {
  let p: f32[B, 2] = contract x, w over="bk,kn->bn"
  let c: f32[B, 2] = expand b to=[1]
  let y: f32[B, 2] = add p, c
  ret y
}
"""
W = {"w": np.arange(6, dtype=np.float32).reshape(3, 2), "b": np.array([10, 20], np.float32)}
SAYS = """
import { readFileSync } from "node:fs";
const say = async (f) => { try { console.log(String(await f())); } catch (e) { console.log(e.message); } };
"""


@needs_node
def test_errors(tmp_path: Path) -> None:
    """Each is a sentence, and a call after it is right."""
    folder_of(LINEAR, tmp_path, **W)
    script = """
const m = await load();
await say(() => m.run({x: new Float32Array(6)}, {B: 1}));
await say(() => m.run({x: new Float64Array(3)}, {B: 1}));
await say(() => m.run({}, {B: 1}));
await say(() => m.run({x: new Float32Array(3), w: new Float32Array(6)}, {B: 1}));
await say(() => m.run({x: new Float32Array(3)}));
await say(() => m.run({x: new Float32Array(3)}, {B: 1.5}));
await say(() => m.run({x: new Float32Array(3)}, {N: 1, B: 1}));
await say(() => m.run({x: new Float32Array(303)}, {B: 101}));
await say(() => m.run({x: new Float32Array(3)}, {B: -1}));
await say(() => m.run({x: new Float32Array([1, 1, 1])}, {B: 1}).y);
await say(() => m.run({x: new Float32Array(0)}, {B: 0}).y.length);
const file = new Uint8Array(readFileSync(new URL("m.safetensors", import.meta.url)));
await say(() => load({weights: file.slice(0, file.length - 4)}));
await say(() => load({weights: file.slice(0, 5)}));
await say(async () => (await load({weights: file})).run({x: new Float32Array([1, 1, 1])}, {B: 1}).y);
const grow = m.wasm.memory.grow.bind(m.wasm.memory);
m.wasm.memory.grow = () => { throw new RangeError(); };
await say(() => { m.reserve(m.wasm.memory.buffer.byteLength + 1); });
await say(() => m.run({x: new Float32Array([1, 1, 1])}, {B: 1}).y);
"""
    said = run_node(tmp_path, SAYS + script).splitlines()
    pages = said[14].split()[-2]
    assert said == [
        "x is a Float32Array of 3 numbers, [1,3]: it is a Float32Array of 6",
        "x is a Float32Array of 3 numbers, [1,3]: it is a Float64Array of 3",
        "x is a Float32Array of 3 numbers, [1,3]: it is missing",
        "there is no input w",
        "the size B is missing or no integer",
        "the size B is missing or no integer",
        "there is no size N",
        "these sizes are not allowed: see the header",
        "these sizes are not allowed: see the header",
        "16,29",
        "0",
        "the file lacks a weight of this type and shape",
        "the file lacks a weight of this type and shape",
        "16,29",
        f"there is no memory for {pages} bytes",
        "16,29",
    ]


@needs_node
def test_memory_that_no_machine_has(tmp_path: Path) -> None:
    """A workspace that fits into the addresses, with arrays that do not."""
    folder_of(LINEAR.replace(" in 0..100", ""), tmp_path, **W)
    script = """
const m = await load(), before = m.wasm.memory.buffer.byteLength;
await say(() => m.reserve(2 ** 33));
await say(() => m.wasm.memory.buffer.byteLength - before);
await say(() => m.run({x: new Float32Array(3)}, {B: 2 ** 50}));
await say(() => m.run({x: new Float32Array([1, 1, 1])}, {B: 1}).y);
"""
    said = run_node(tmp_path, SAYS + script).splitlines()
    assert said == [
        f"there is no memory for {2**33} bytes",
        "0",
        "these sizes are not allowed: see the header",
        "16,29",
    ]


@needs_node
def test_an_index_out_of_range_and_numbers_of_64_bits(tmp_path: Path) -> None:
    folder_of(NAMES, tmp_path)
    script = """
const m = await load(), [size, p] = m.program.sizes, [x, at] = m.program.inputs.map(([name]) => name);
const run = (last) => Object.values(m.run({[x]: new Float32Array([1, 2, 3, 4]),
  [at]: new BigInt64Array([0n, 1n, last])}, {[size]: 2, [p]: 2})).join(" ");
await say(() => run(2n));
await say(() => run(-2n));
"""
    said = run_node(tmp_path, SAYS + script).splitlines()
    assert said == ["an index in an input is out of range", "-1,-2,-3,-4,-1,-2 4"]


@needs_node
@pytest.mark.parametrize(
    "dtype", ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128"]
)
def test_every_dtype_comes_and_goes(dtype: str, tmp_path: Path) -> None:
    """As an input, and as an array that the file has: bits are unchanged."""
    text = f"""dlc 1 graph
fn both[N](x: {dtype}[N, 3], w: {dtype}[3]) -> ({dtype}[N, 3], {dtype}[N, 3]) {{
  let y: {dtype}[N, 3] = expand w to=[1]
  ret x, y
}}
"""
    numbers = np.array([[1, 0, 1], [0, 1, 1]]).astype(dlc.files.model._NUMPY[dtype])
    exporter.export(ir.parse(text), tmp_path, "m", {"w": numbers[0]}, {"w"})
    flat = bits(numbers).hex()
    script = f"""
const m = await load(), {{ Kind }} = m.arrays({{N: 2}})[0];
const x = new Kind(new Uint8Array(Buffer.from("{flat}", "hex")).buffer);
const results = Object.values(m.run({{x}}, {{N: 2}}));
for (const array of results) console.log(Buffer.from(array.buffer).toString("hex"));
"""
    assert run_node(tmp_path, script).splitlines() == [flat, 2 * bits(numbers[0]).hex()]


def test_states_are_given_and_come_back(tmp_path: Path) -> None:
    import torch

    class Mean(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.full((3,), 5.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total += x
            return self.total / 2

    dlc.save(Mean(), tmp_path / "m.dlc", (torch.ones(3),))
    dlc.load(tmp_path / "m.dlc").export_wasm(tmp_path / "out")
    if node():
        script = """
const m = await load(), [[name]] = m.program.inputs.filter(([name]) => !m.given[name]);
console.log(Object.values(m.run({[name]: new Float32Array([1, 2, 3])})).map(String).sort().join(" "));
"""
        assert run_node(tmp_path / "out", script).split() == ["3,3.5,4", "6,7,8"]


def two_sizes(folder: Path) -> Any:
    """A model of two sizes, saved with rows of 3 by 5."""
    import torch

    rows, n = torch.export.Dim("R", min=1, max=64), torch.export.Dim("N", min=2, max=64)
    model = dlc.jit(lambda x, y: torch.softmax(x, -1) @ y)
    shapes = ({0: rows, 1: n}, {0: n})
    dlc.save(model.__wrapped__, folder / "m.dlc", (torch.ones(3, 5), torch.ones(5, 2)), dynamic_shapes=shapes)
    return dlc.load(folder / "m.dlc")


def export_command(folder: Path) -> list[str]:
    """Of the model in the folder, to a folder in it."""
    files = [str(folder / name) for name in ("m.dlc", "out")]
    return [sys.executable, "-m", "dlc", "export", *files, "--wasm"]


@pytest.mark.parametrize("given", [{}, {"R": 3}, {"R": 4}, {"R": 3, "N": 5}, {"N": 7}])
def test_sizes_that_are_numbers(given: dict[str, int], tmp_path: Path) -> None:
    """They are no parameters then, the bits are the same, and the example stays if it has them."""
    m = two_sizes(tmp_path)
    paths = m.export_wasm(tmp_path / "out", sizes=given)
    example = {"R": 3, "N": 5}
    kept = all(example[size] == n for size, n in given.items())
    assert (tmp_path / "out/m_example.safetensors" in paths) == kept
    assert table(tmp_path / "out")["sizes"] == [size for size in m.sizes if size not in given]
    sizes = example | given
    numbers = np.random.default_rng(0)
    arrays = [
        numbers.normal(size=shape).astype("f4") for shape in ((sizes["R"], sizes["N"]), (sizes["N"], 2))
    ]
    like = [np.zeros((sizes["R"], 2), np.float32)]
    (made,) = Wasmtime(tmp_path / "out", table(tmp_path / "out")).run(arrays, sizes, like)
    m.export_wasm(tmp_path / "whole")
    (want,) = Wasmtime(tmp_path / "whole", table(tmp_path / "whole")).run(arrays, sizes, like)
    assert made.tobytes() == want.tobytes()


def test_sizes_that_cannot_be(tmp_path: Path) -> None:
    m = two_sizes(tmp_path)
    with pytest.raises(ValueError, match="the size R cannot be 65: the program takes 2 to 64"):
        m.export_wasm(tmp_path / "out", sizes={"R": 65})
    with pytest.raises(ValueError, match="has no size 'Q'; it has R, N"):
        m.export_wasm(tmp_path / "out", sizes={"Q": 1})
    command = export_command(tmp_path)
    done = subprocess.run([*command, "--size", "R=4"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert table(tmp_path / "out")["sizes"] == ["N"]
    done = subprocess.run([*command, "--target", "hls"], capture_output=True, text=True)
    assert done.returncode == 2 and "give one of them" in done.stderr


def test_the_command_and_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dlc.save(dlc.jit(lambda x: x * 2 + 1), tmp_path / "m.dlc", (np.ones(3, np.float32),))
    command = export_command(tmp_path)
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(tmp_path / "out/m.wasm") in done.stdout.splitlines()
    monkeypatch.setattr(exporter.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="pip install ziglang"):
        dlc.load(tmp_path / "m.dlc").export_wasm(tmp_path / "other")

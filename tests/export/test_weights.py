"""Weights in a safetensors file: what m_bind finds there, and what it refuses, with sanitizers."""

from __future__ import annotations

import hashlib
import json
import random
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dlc import ir
from dlc.files.tensors import Tensors
from tests.export.compilers import CLANG, NATIVE, STRICT, TCC, build, passes

LINEAR = """dlc 1 graph
fn linear[B](x: f32[B, 3], w: f32[3, 2], b: f32[2]) -> (f32[B, 2]) {
  let p: f32[B, 2] = contract x, w over="bk,kn->bn"
  let c: f32[B, 2] = expand b to=[1]
  let y: f32[B, 2] = add p, c
  ret y
}
"""
# Prints the status, or the results for a row of ones.
CALLER = r"""
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    for (int k = 1; k < argc; k++) {
        FILE *file = fopen(argv[k], "rb");
        size_t room = 1 << 16;
        char *all = malloc(room), *bytes;
        size_t n = fread(all, 1, room, file);
        fclose(file);
        bytes = malloc(n ? n : 1); /* no byte more, for the sanitizer */
        for (size_t j = 0; j < n; j++) {
            bytes[j] = all[j];
        }
        m_weights weights;
        m_status status = m_bind(&weights, bytes, n);
        if (status == M_HASH) {
            puts(m_message(status));
        }
        if (status == M_OK || status == M_HASH) {
            const float x[3] = {1, 1, 1};
            float y[2];
            void *work = malloc(m_workspace(1));
            status = m_run(&weights, 1, x, y, work, NULL);
            printf("%g %g\n", y[0], y[1]);
            free(work);
        } else {
            puts(m_message(status));
        }
        free(all);
        free(bytes);
    }
    return 0;
}
"""
W = np.arange(6, dtype=np.float32).reshape(3, 2)
B = np.array([10, 20], np.float32)


def file_of(
    tensors: dict[str, np.ndarray], more: dict[str, object] | None = None, indent: int | None = None
) -> bytes:
    """A safetensors file."""
    names = {"float32": "F32", "float64": "F64"}
    head: dict[str, object] = {"__metadata__": {"format": "np", "odd": 'a "quoted" {[,'}}
    at = 0
    for name, t in tensors.items():
        head[name] = {
            "dtype": names[t.dtype.name],
            "shape": list(t.shape),
            "data_offsets": [at, at + t.nbytes],
        }
        at += t.nbytes
    head |= more or {}
    text = json.dumps(head, indent=indent).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(t.tobytes() for t in tensors.values())


@pytest.fixture
def caller(tmp_path: Path) -> Path:
    ir.parse(LINEAR).export_c(tmp_path, weights=["w", "b"])
    (tmp_path / "caller.c").write_text(CALLER)
    flags = [*NATIVE, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *flags, "-o", "caller", "caller.c", "m.c"], cwd=tmp_path, check=True)
    return tmp_path / "caller"


def say(caller: Path, *files: bytes) -> list[str]:
    for k, data in enumerate(files):
        (caller.parent / f"{k}.safetensors").write_bytes(data)
    names = [f"{k}.safetensors" for k in range(len(files))]
    done = subprocess.run([str(caller), *names], cwd=caller.parent, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_check_fills_the_weights(tmp_path: Path) -> None:
    ir.parse(LINEAR).export_c(tmp_path, weights=["w", "b"])
    passes(build(tmp_path, *STRICT))
    for cc, flags in ((CLANG, STRICT), (TCC, ["-std=c11", "-Wall", "-Werror"])):
        if cc:
            passes(build(tmp_path, *flags, cc=cc))


def test_weights_are_found(caller: Path) -> None:
    other = {"zero": np.zeros(4, np.float64), "b": B, "w": W}
    files = file_of({"w": W, "b": B}), file_of(other), file_of({"w": W, "b": B}, indent=2)
    assert say(caller, *files) == ["16 29"] * 3


def test_other_files_are_refused(caller: Path) -> None:
    good = file_of({"w": W, "b": B})
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]}
    wrong = [
        b"",
        good[:7],
        good[:20],
        good[:-1],
        file_of({"w": W}),
        file_of({"w": W.T.copy(), "b": B}),
        file_of({"w": W.astype(np.float64), "b": B}),
        file_of({"w": W, "b": B.reshape(1, 2)}),
        b"\xff" * 8 + good[8:],
        (1 << 63).to_bytes(8, "little") + good[8:],
        *(
            file_of({"w": W, "b": B}, {"b": entry | {"data_offsets": offsets}})
            for offsets in (
                [-8, 0],
                [32, 40],
                [24, 28],
                [32, 24],
                [22, 30],
                [10**30, 10**30 + 8],
                [24.5, 32.5],
            )
        ),
    ]
    assert say(caller, *wrong) == ["the file lacks a weight of this type and shape"] * len(wrong)


def test_damaged_files_do_no_harm(caller: Path) -> None:
    good, draw, files = file_of({"w": W, "b": B}), random.Random(1), []
    for _ in range(1000):
        data = bytearray(good)
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(data))
            change = draw.randrange(3)
            if change == 0:
                data[at] = draw.randrange(256)
            elif change == 1:
                del data[at : at + draw.randint(1, 9)]
            else:
                data[at:at] = draw.choice([b'"', b"{", b"[", b"}", b"]", b"\\", b",", b"9" * 30])
        files.append(bytes(data))
    assert len(say(caller, *files)) == 1000


def large(tmp_path: Path) -> Path:
    """A program with more weights than stand in a text, one of them of complex numbers, and its caller."""
    text = """dlc 1 graph
fn m[B](x: f32[B, 3], w: f32[3, 2], b: f32[2], table: i64[20000], c: c64[2, 2])
    -> (f32[B, 2], i64[20000], c64[2, 2]) {
  let p: f32[B, 2] = contract x, w over="bk,kn->bn"
  let r: f32[B, 2] = expand b to=[1]
  let y: f32[B, 2] = add p, r
  let t: i64[20000] = add table, 1
  ret y, t, c
}
"""
    arrays = {"w": W, "b": B, "table": np.arange(20000), "c": np.array([[1j, 2], [3, 4 - 1j]], np.complex64)}
    names = {"w": 'layer."w?\\\\"', "b": "b", "table": "\u00fc", "c": "c"}
    paths = ir.parse(text).export_c(tmp_path, weights={k: (names[k], v) for k, v in arrays.items()})
    assert tmp_path / "m.safetensors" in paths
    caller = CALLER.replace("y, work", "y, t, d, work").replace(
        "float y[2];", "float y[2], d[8]; static int64_t t[20000];"
    )
    (tmp_path / "caller.c").write_text(caller.replace("1 << 16", "1 << 20"))
    for name, *flags in (["caller"], ["unhashed", "-DDLC_UNHASHED"]):
        flags += [*NATIVE, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        subprocess.run(["gcc", *flags, "-o", name, "caller.c", "m.c"], cwd=tmp_path, check=True)
    return tmp_path / "caller"


def test_large_weights_are_a_file_whose_hash_is_compared(tmp_path: Path) -> None:
    caller = large(tmp_path)
    data = (tmp_path / "m.safetensors").read_bytes()
    changed = bytearray(data)
    changed[-1] ^= 1  # of the last float
    other = "these are other weights than those of the export"
    said = say(caller, data, bytes(changed))
    assert said[:2] == ["16 29", other] and len(said) == 3
    assert len(say(tmp_path / "unhashed", bytes(changed))) == 1
    for flags, cc in ((STRICT, "gcc"), (STRICT, CLANG), (["-std=c11", "-Wall", "-Werror"], TCC)):
        if cc:
            program = build(tmp_path, *flags, cc=cc)
            done = subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0 and "the bits are the same" in done.stdout, done.stdout
    done = subprocess.run([str(program), "none"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "m: none cannot be read\n")
    (tmp_path / "m.safetensors").write_bytes(changed)
    done = subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and other in done.stdout


def test_the_hash_is_sha256(tmp_path: Path) -> None:
    """That of Python's hashlib, of texts around the length of a block."""
    header = Path(__file__).resolve().parents[2] / "csrc/codegen/export/sha256.h"
    rows = []
    for n in (0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000):
        text = bytes(k * 7 % 251 for k in range(n))
        words = [hashlib.sha256(text).hexdigest()[8 * k : 8 * k + 8] for k in range(8)]
        wanted = ", ".join(f"0x{word}" for word in words)
        rows.append(f"    wrong += test({n}, (const uint32_t[]){{{wanted}}});")
    body = """
static int test(int n, const uint32_t *wanted) {
    uint8_t text[1000];
    int wrong = 0;
    for (int k = 0; k < n; k++) text[k] = (uint8_t)(k * 7 % 251);
    for (int step = 1; step <= 130; step += 43) {
        dlc_sha256 sha;
        dlc_sha256_begin(&sha);
        for (int k = 0; k < n; k += step) {
            dlc_sha256_add(&sha, text + k, (size_t)(n - k < step ? n - k : step));
        }
        wrong += !dlc_sha256_is(&sha, wanted);
    }
    return wrong;
}
"""
    lines = [
        header.read_text(),
        body,
        "int main(void) {\n    int wrong = 0;",
        *rows,
        "    return wrong;\n}\n",
    ]
    (tmp_path / "sha.c").write_text("\n".join(lines))
    flags = [*STRICT, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *flags, "-o", "sha", "sha.c"], cwd=tmp_path, check=True)
    subprocess.run(["./sha"], cwd=tmp_path, check=True)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], np.float32)


@pytest.mark.parametrize(
    "kind, array",
    [
        ("f32[7]", SPECIAL),
        ("f64[3]", np.array([np.nan, 1e-320, -0.0])),
        ("i64[2]", np.array([-(2**63), 2**63 - 1])),
        ("u8[3]", np.array([0, 255, 1], np.uint8)),
        ("bool[2]", np.array([True, False])),
        ("f16[2]", np.array([np.inf, 6e-8], np.float16)),
        ("bf16[2]", np.array([0x7F80, 0x8000], np.uint16)),
        ("c64[]", np.array(1 - 2j, np.complex64)),
        ("f32[0]", np.zeros(0, np.float32)),
        ("f32[2, 3]", np.arange(6, dtype=np.float32).reshape(3, 2).T),
    ],
)
def test_small_weights_are_part_of_the_program(kind: str, array: np.ndarray, tmp_path: Path) -> None:
    """Each element has its bits, whatever it is."""
    text = f"dlc 1 graph\nfn m(w: {kind}) -> ({kind}) {{\n  ret w\n}}\n"
    names = [path.name for path in ir.parse(text).export_c(tmp_path, weights={"w": array})]
    assert "m.safetensors" not in names and "m_bind" not in (tmp_path / "m.h").read_text()
    wanted = np.ascontiguousarray(array).tobytes()
    (tmp_path / "try.c").write_text(
        '#include "m.h"\n#include <stdio.h>\nint main(void) {\n    static _Alignas(64) unsigned char y[64];\n'
        "    char work[4096];\n    m_status status = m_run((void *)y, work, NULL);\n"
        f'    for (int k = 0; k < {len(wanted)}; k++) printf("%02x", y[k]);\n    return status;\n}}\n'
    )
    for cc in filter(None, ("gcc", TCC)):
        flags = STRICT if cc == "gcc" else ["-std=c11", "-Wall", "-Werror"]
        subprocess.run([cc, *flags, "-o", "try", "try.c", "m.c"], cwd=tmp_path, check=True)
        done = subprocess.run(["./try"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == wanted.hex()
    passes(build(tmp_path, *STRICT))


def test_a_weight_of_another_shape_or_type(tmp_path: Path) -> None:
    program = ir.parse(LINEAR)
    wrong = {"w": W, "b": np.ones(3, np.float32)}
    transposed = {"w": np.ascontiguousarray(W.T), "b": np.ones(2, np.float32)}  # with as many bytes
    for prepare in (True, False):
        with pytest.raises(ValueError, match=r"weight b is an array of shape \[3\], and .* takes f32\[2\]"):
            program.export_c(tmp_path, weights=wrong, prepare=prepare)
        with pytest.raises(ValueError, match=r"weight w is .* shape \[2, 3\], and .* takes f32\[3, 2\]"):
            program.export_c(tmp_path, weights=transposed, prepare=prepare)
    with pytest.raises(ValueError, match="weight b is an array of float64"):
        program.export_c(tmp_path, weights={"w": W, "b": np.ones(2)})
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_a_weight(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no parameter 'z'"):
        ir.parse(LINEAR).export_c(tmp_path, weights=["z"])
    with pytest.raises(ValueError, match="x cannot be a weight"):
        ir.parse(LINEAR).export_c(tmp_path, weights=["x"])


# -- what is prepared

#: By name: a program, the arrays of its weights, and the names of those that it has when they are prepared.
PREPARED: dict[str, tuple[str, dict[str, str], set[str]]] = {
    "panels": (
        """fn m[B](x: f32[B, 70], w: f32[70, 50], b: f32[50]) -> (f32[B, 50]) {
  let p: f32[B, 50] = contract x, w over="bk,kn->bn"
  let r: f32[B, 50] = expand b to=[1]
  let y: f32[B, 50] = add p, r
  ret y
}""",
        {"w": "f32[70, 50]", "b": "f32[50]"},
        {"layer.w.panels", "layer.b"},
    ),
    "columns of rows, f64": (
        """fn m[B](x: f64[B, 33], w: f64[40, 33]) -> (f64[B, 40]) {
  let y: f64[B, 40] = contract x, w over="bk,nk->bn"
  ret y
}""",
        {"w": "f64[40, 33]"},
        {"layer.w.panels"},
    ),
    "read twice": (  # by a product and by rows
        """fn m[B](i: i64[B], w: f32[60, 32]) -> (f32[B, 32], f32[B, 60]) {
  let x: f32[B, 32] = gather w, i axis=0
  let y: f32[B, 60] = contract x, w over="bk,nk->bn"
  ret x, y
}""",
        {"w": "f32[60, 32]"},
        {"layer.w", "layer.w.panels"},
    ),
    "two orders of one": (
        """fn m[B](x: f32[B, 48], z: f32[B, 64], w: f32[48, 64]) -> (f32[B, 64], f32[B, 48]) {
  let y: f32[B, 64] = contract x, w over="bk,kn->bn"
  let v: f32[B, 48] = contract z, w over="bn,kn->bk"
  ret y, v
}""",
        {"w": "f32[48, 64]"},
        {"layer.w.panels", "layer.w.panels1"},
    ),
    "computed of two": (  # scaled columns
        """fn m[B](x: f32[B, 40], w: f32[40, 48], s: f32[48]) -> (f32[B, 48]) {
  let e: f32[48] = exp s
  let r: f32[40, 48] = expand e to=[1]
  let v: f32[40, 48] = mul w, r
  let y: f32[B, 48] = contract x, v over="bk,kn->bn"
  ret y
}""",
        {"w": "f32[40, 48]", "s": "f32[48]"},
        {"layer.w+layer.s.panels"},
    ),
    "a result": (  # is the weight's own
        """fn m[B](x: f32[B, 40], w: f32[40, 48]) -> (f32[40, 48], f32[B, 48]) {
  let y: f32[B, 48] = contract x, w over="bk,kn->bn"
  ret w, y
}""",
        {"w": "f32[40, 48]"},
        {"layer.w", "layer.w.panels"},
    ),
    "written state": (  # behind a weight that is gone
        """fn m(w: f32[40, 48], s: f32[2, 48], x: f32[2, 40]) -> (f32[2, 48] into s) {
  let y: f32[2, 48] = contract x, w over="bk,kn->bn"
  let t: f32[2, 48] = add s, y
  ret t
}""",
        {"w": "f32[40, 48]"},
        {"layer.w.panels"},
    ),
}


def drawn(kinds: dict[str, str], seed: int) -> dict[str, tuple[str, np.ndarray]]:
    draw, found = np.random.default_rng(seed), {}
    for name, kind in kinds.items():
        dtype, shape = kind[:3], [int(n) for n in kind[4:-1].split(",")]
        found[name] = (f"layer.{name}", draw.standard_normal(shape).astype({"f32": "f4", "f64": "f8"}[dtype]))
    return found


def hash_of_results(folder: Path) -> str:
    found = re.search(r"example_result == (\w+)", (folder / "m_check.c").read_text())
    assert found
    return found[1]


@pytest.mark.parametrize("large", [False, True], ids=["in the text", "in a file"])
@pytest.mark.parametrize("name", PREPARED)
def test_what_depends_on_weights_alone_is_prepared(name: str, large: bool, tmp_path: Path) -> None:
    """The file has what is prepared; the check finds dlc's bits, which the program as it is has, too."""
    text, kinds, wanted = PREPARED[name]
    if large:  # beyond what stands in the text
        text = text.replace("(", "(big: f32[30000], ", 1).replace(") -> (", ") -> (f32[30000], ")
        text = text.replace("  ret ", "  let more: f32[30000] = add big, 1\n  ret more, ")
        kinds, wanted = kinds | {"big": "f32[30000]"}, wanted | {"layer.big"}
    program, weights = ir.parse("dlc 1 graph\n" + text + "\n"), drawn(kinds, 1)
    program.export_c(tmp_path / "a", weights=weights)
    program.export_c(tmp_path / "b", weights=weights, prepare=False)
    if large:
        table = Tensors(tmp_path / "a/m.safetensors", lambda metadata: None).entries
        assert set(table) == wanted
        plain = Tensors(tmp_path / "b/m.safetensors", lambda metadata: None).entries
        assert set(plain) == {f"layer.{one}" for one in kinds}
    flags = [*NATIVE, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    passes(build(tmp_path / "a", *flags))
    assert hash_of_results(tmp_path / "a") == hash_of_results(tmp_path / "b")
    for cc, options in ((CLANG, [*STRICT, "-O1"]), (TCC, ["-std=c11", "-Wall", "-Werror"])):
        if cc and large:
            passes(build(tmp_path / "a", *options, cc=cc))


def test_a_program_that_is_unprepared_takes_weights_trained_anew(tmp_path: Path) -> None:
    text, kinds, _ = PREPARED["panels"]
    text = text.replace("[B, 70]", "[B, 700]").replace("[70, 50]", "[700, 50]")
    program, kinds = ir.parse(f"dlc 1 graph\n{text}\n"), kinds | {"w": "f32[700, 50]"}
    results = []
    for seed, folder in ((1, "a"), (2, "b")):
        program.export_c(tmp_path / folder, weights=drawn(kinds, seed), prepare=False)
        build(tmp_path / folder, *STRICT)
        results.append(hash_of_results(tmp_path / folder))
    assert results[0] != results[1]
    (tmp_path / "a/m.safetensors").write_bytes((tmp_path / "b/m.safetensors").read_bytes())
    done = subprocess.run(["./check"], cwd=tmp_path / "a", capture_output=True, text=True)
    assert done.returncode == 2 and "these are other weights" in done.stdout

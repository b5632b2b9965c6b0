"""Weights in a safetensors file: what m_bind finds there, and what it refuses, with sanitizers."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dlc import ir
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
        if (status == M_OK) {
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


def test_what_cannot_be_a_weight(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no parameter 'z'"):
        ir.parse(LINEAR).export_c(tmp_path, weights=["z"])
    with pytest.raises(ValueError, match="x cannot be a weight"):
        ir.parse(LINEAR).export_c(tmp_path, weights=["x"])

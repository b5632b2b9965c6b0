"""What docs/target.md says: its row and head, in place of the row `hls`, make a target whose C runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sources import ROOT

CHANGED = (
    "codegen/emit/emit.c",
    "codegen/pipeline.c",
    "codegen/compile/targets.c",
    "codegen/emit/c/emit_c.c",
)
PROGRAM = """dlc 1 graph
fn f(x: f32[4, 64], w: f32[64, 40]) -> (f32[4, 40]) {
  let p: f32[4, 40] = contract x, w over="mk,kn->mn"
  let y: f32[4, 40] = neg p
  ret y
}
"""
# x is k % 3, w is k % 5: small whole numbers, of which all sums are right.
CALLER = """
#include <stdio.h>
int main(void)
{
    static float x[256], w[2560], y[160];
    int wrong = 0;
    for (int k = 0; k < 256; k++) x[k] = k % 3;
    for (int k = 0; k < 2560; k++) w[k] = k % 5;
    if (k0_0(CALLED)) return 2;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 40; j++) {
            float sum = 0;
            for (int k = 0; k < 64; k++) sum += x[64 * i + k] * w[40 * k + j];
            wrong += y[40 * i + j] != -sum;
        }
    }
    printf("%d wrong", wrong);
    return wrong != 0;
}
"""


def of_the_page() -> tuple[str, str]:
    """The row and the head."""
    blocks = re.findall(r"```c\n(.*?)```", (ROOT / "docs/target.md").read_text(), re.S)
    row = next(block for block in blocks if block.startswith("TARGET("))
    head = next(block for block in blocks if "emit_mesh_head" in block)
    return row, head


def changed_tree(folder: Path) -> None:
    row, head = of_the_page()
    shutil.copytree(ROOT / "csrc", folder / "csrc")
    table = folder / "csrc/codegen/targets.def"
    text, n = re.subn(
        r"^TARGET\( hls,.*?DO\(pipeline_hls\)\)\n", lambda _: row, table.read_text(), flags=re.M | re.S
    )
    assert n == 1
    table.write_text(text)
    emitter = folder / "csrc/codegen/emit/c/emit_c.c"
    emitter.write_text(
        emitter.read_text().replace("const char emit_hls_head[]", head + "const char emit_hls_head[]")
    )


def build_optimiser(folder: Path) -> Path:
    """The sources that read rows, compiled again, with the objects of all others."""
    changes = [word for name in CHANGED for word in ("-W", f"csrc/{name}")]
    make = ["make", "-n", "--no-print-directory", "-f", "csrc/build.mk", *changes, "build/dlc-opt"]
    lines = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    link = next(line.split("; ")[-1] for line in lines if "-o build/dlc-opt " in line)
    words = shlex.split(link)
    for name in CHANGED:
        built = f"build/obj/{name.removesuffix('.c')}.o"
        mine = folder / Path(name).with_suffix(".o").name
        line = next(line for line in lines if line.endswith(f"-o {built}"))
        compile_it = [
            f"-I{folder}/csrc" if word == "-Icsrc" else f"{folder}/{word}" if word == f"csrc/{name}" else word
            for word in shlex.split(line)
            if word not in ("-MMD", "-MP", "-O2")
        ]
        subprocess.run([*compile_it[:-1], str(mine)], cwd=ROOT, check=True)
        words = [str(mine) if word == built else word for word in words]
    program = folder / "dlc-opt"
    subprocess.run(
        [str(program) if word == "build/dlc-opt" else word for word in words], cwd=ROOT, check=True
    )
    return program


@pytest.mark.in_turn(6)
def test_the_page_makes_a_target(tmp_path: Path) -> None:
    changed_tree(tmp_path)
    program = build_optimiser(tmp_path)
    assert "--emit mesh    C for the compiler of an accelerator." in subprocess.run(
        [program, "--list"], capture_output=True, text=True, check=True).stdout  # fmt: skip
    (tmp_path / "f.dlc").write_text(PROGRAM)
    kernels = subprocess.run(
        [program, "--pipeline", "f.dlc"], cwd=tmp_path, capture_output=True, check=True
    ).stdout
    command = [program, "--pass", "lower,schedule,mesh", "--emit", "mesh", "-"]
    text = subprocess.run(command, input=kernels, capture_output=True, check=True).stdout.decode()
    assert "#pragma mesh pipeline\n" in text and re.search(r"#pragma mesh banks\(\w+, 16\)\n", text)
    assert "void *const" not in text and '#include "mesh.h"' in text
    named = re.search(r"^k0_0\((.*)\)$", text, re.M)
    assert named
    called = {"256": "x", "2560": "w", "160": "y"}
    arrays = ", ".join(called[size] for size in re.findall(r"\[(\d+)\]", named[1]))
    (tmp_path / "mesh.h").write_text("")
    (tmp_path / "try.c").write_text(text + CALLER.replace("CALLED", arrays))
    flags = [
        "-std=c11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Wno-unknown-pragmas",
        "-Werror",
        "-ffp-contract=off",
        "-fwrapv",
    ]
    subprocess.run(["gcc", *flags, "-o", "try", "try.c", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run(["./try"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0 wrong")

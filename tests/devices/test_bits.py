"""The bits of a program on ARM of 64 bits, big-endian s390x, x86 of 32 bits and the Cortex-M4 are those here.

The check of an export compares them. aarch64 and s390x have fused multiply-adds, the Cortex-M4 has those of
floats, and x86 of 32 bits has none, so that the program computes them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dlc import ir
from tests.devices.machine import FLAGS, PROCESSORS, compile_for, needs_machines, run
from tests.devices.nets import MODELS, load
from tests.export.test_export import SMALL
from tests.export.test_many import programs
from tests.export.test_weights import LINEAR, file_of

pytestmark = needs_machines
CHECK = ("m.c", "m_check.c")
DYNAMIC = [path for path in programs("tests/replay/corpus") if "_dynamic_" in path.stem]  # small examples


def same_bits(processor: str, folder: Path) -> None:
    ran = run(processor, compile_for(processor, folder, *CHECK))
    assert (ran.code, "the bits are the same" in ran.said) == (0, True), ran.said


@pytest.mark.in_turn(6, "language-aarch64", "spotter-s390x", "numpy-x86")
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, processor: str, tmp_path: Path) -> None:
    load(name, tmp_path).export_c(tmp_path)
    same_bits(processor, tmp_path)


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", SMALL)
def test_sizes_and_products(name: str, processor: str, tmp_path: Path) -> None:
    ir.parse(SMALL[name]).export_c(tmp_path, sizes={"B": 3, "N": 1030} if name == "softmax" else None)
    same_bits(processor, tmp_path)


@pytest.mark.in_turn(100)
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("path", DYNAMIC, ids=lambda path: path.stem)
def test_captured_programs(path: Path, processor: str, tmp_path: Path) -> None:
    ir.parse(path.read_text()).export_c(tmp_path)
    same_bits(processor, tmp_path)


def test_the_check_finds_another_result(tmp_path: Path) -> None:
    """A check that cannot fail would not be one, on big-endian machines either."""
    ir.parse(SMALL["softmax"]).export_c(tmp_path)
    text = (tmp_path / "m.c").read_text()
    (tmp_path / "m.c").write_text(text.replace("/ sum", "* sum"))
    ran = run("s390x", compile_for("s390x", tmp_path, *CHECK))
    assert (ran.code, "the bits are others" in ran.said) == (1, True)


@pytest.mark.parametrize(
    ("processor", "said"), [("aarch64", "29"), ("s390x", "little-endian, and this machine is not")]
)
def test_a_file_of_weights(processor: str, said: str, tmp_path: Path) -> None:
    """It is little-endian. A machine that is not refuses it: m_bind copies nothing, so it swaps nothing."""
    import numpy as np

    ir.parse(LINEAR).export_c(tmp_path, weights=["w", "b"])
    data = file_of({"w": np.arange(6, dtype=np.float32).reshape(3, 2), "b": np.array([10, 20], np.float32)})
    (tmp_path / "try.c").write_text(
        '#include "m.h"\n#include <stdio.h>\n#include <stdlib.h>\n'
        f"static _Alignas(8) const unsigned char file[] = {{{', '.join(map(str, data))}}};\n"
        "int main(void) {\n    m_weights weights;\n"
        "    m_status status = m_bind(&weights, file, sizeof file);\n"
        "    const float x[3] = {1, 1, 1};\n    float y[2];\n"
        "    if (status == M_OK) {\n"
        "        status = m_run(&weights, 1, x, y, calloc(1, m_workspace(1)), NULL);\n"
        '        puts(y[0] == 16 && y[1] == 29 ? "16 29" : "others");\n    } else {\n'
        "        puts(m_message(status));\n    }\n    return 0;\n}\n"
    )
    assert said in run(processor, compile_for(processor, tmp_path, "m.c", "try.c")).said


def test_floats_that_are_computed_as_wider_numbers_are_refused(tmp_path: Path) -> None:
    """x87 rounds to 64 bits: other bits, and the compiler says which flags help."""
    ir.parse(SMALL["softmax"]).export_c(tmp_path)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86-freestanding", "-mcpu=i686", *FLAGS]
    done = subprocess.run([*command, "-c", "m.c"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and "-msse2 -mfpmath=sse" in done.stderr

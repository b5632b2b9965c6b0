"""Every row of torch_abi.def is the prototype that torch's own headers have."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ABI = ROOT / "csrc/capture/torch/torch_abi.def"

PROOF = f"""
#include <type_traits>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/stable/c/shim.h>

using TorchTensor = AtenTensorHandle;

#define NEED(result, name, arguments) \\
    static_assert(std::is_same_v<decltype(&::name), result (*) arguments>, #name);
#define MAY(result, name, arguments) NEED(result, name, arguments)
#include "{ABI}"
"""


def compile_proof(text: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler: the prototypes are not compared with torch's headers")
    from torch.utils.cpp_extension import include_paths

    source = folder / "proof.cpp"
    source.write_text(text)
    includes = [f"-I{path}" for path in include_paths()]
    command = [compiler, "-std=c++20", "-fsyntax-only", *includes, str(source)]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_prototype_is_the_header_s(tmp_path: Path) -> None:
    done = compile_proof(PROOF, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.in_turn(4)
def test_a_wrong_prototype_is_found(tmp_path: Path) -> None:
    table = tmp_path / "wrong.def"
    table.write_text(ABI.read_text().replace("(TorchTensor, int32_t *)", "(TorchTensor, int64_t *)"))
    done = compile_proof(PROOF.replace(str(ABI), str(table)), tmp_path)
    assert done.returncode != 0
    assert "aoti_torch_get_dtype" in done.stderr

"""Rows of torch_abi.def are the prototypes of torch's own headers; what dlc can do without, it does."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fresh import run

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
#define MAY(result, name, arguments, without) NEED(result, name, arguments)
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


def rows(kind: str) -> list[str]:
    return re.findall(rf"^{kind}\(.*?, +(\w+), +\(", ABI.read_text(), re.MULTILINE)


#: What a torch without the function does otherwise: dlc's own operators and the library's products are right,
#: results large enough for their memory to be used again too, and a frozen module and its profile.
WITHOUT = """
    from dlc import _C
    init = _C.torch_init
    _C.torch_init = lambda *args: init(*args, {hidden!r})
    import torch, dlc, dlc.backend
    x, w, b = torch.randn(300, 500), torch.randn(500, 40), torch.randn(40)
    def program(x):
        return torch.addmm(b, (x * 2).relu(), w) + 1
    f = torch.compile(program, backend="dlc", options={{"products": "library"}})
    want = program(x)
    for _ in range(3):
        assert torch.equal(f(x), want)
        assert torch.equal(f(x.clone()), want)
    m = torch.nn.Linear(500, 4).eval()
    frozen = torch.compile(m, backend="dlc", options={{"freeze": True}})
    with torch.no_grad(), torch.profiler.profile() as seen:
        assert torch.allclose(frozen(x), m(x), rtol=1e-4, atol=1e-5)
        assert torch.allclose(frozen(x), m(x), rtol=1e-4, atol=1e-5)
        m.weight.mul_(2)
        assert torch.allclose(frozen(x), m(x), rtol=1e-4, atol=1e-5)
    try:
        assert torch.equal(dlc.jit(lambda x: x * 2)(x), x * 2)
        assert torch.allclose(dlc.jit(m)(x), m(x), rtol=1e-4, atol=1e-5)
        taken = True
    except ImportError as error:
        assert "works without that" in str(error), error
        taken = False
    from dlc import doctor
    lines = [text for what, well, text in doctor.findings() if what == "torch lacks" and not well]
    assert len(lines) >= 1 and any("{name}" in line for line in lines), lines
    assert taken != any("dlc.jit" in line and "is refused" in line for line in lines), lines
    doctor._run(None)
"""


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("name", rows("MAY") + rows("CPP"))
def test_a_torch_without_the_function_will_do(name: str) -> None:
    done = run(WITHOUT.format(hidden=(name,), name=name))
    assert done.returncode == 0, done.stderr
    assert "advice   torch lacks" in done.stdout


@pytest.mark.in_turn(6)
def test_a_torch_without_any_of_them_will_do() -> None:
    done = run(WITHOUT.format(hidden=tuple(rows("MAY") + rows("CPP")), name="has_callbacks"))
    assert done.returncode == 0, done.stderr


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("name", rows("NEED"))
def test_a_torch_without_what_dlc_needs_is_refused(name: str) -> None:
    done = run(f"""
        from dlc import _C
        init = _C.torch_init
        _C.torch_init = lambda *args: init(*args, ({name!r},))
        import dlc.backend
    """)
    assert done.returncode == 1 and f"this torch has no {name}" in done.stderr, done.stderr


def test_every_row_is_called() -> None:
    sources = "".join(path.read_text() for path in ROOT.glob("csrc/capture/**/*.c"))
    unused = [
        name for kind in ("NEED", "MAY", "CPP") for name in rows(kind) if f"torch_abi.{name}" not in sources
    ]
    assert unused == []


@pytest.mark.in_turn(6)
def test_this_torch_lacks_nothing_that_is_not_in_the_table() -> None:
    """docs/limits.md says what each version lacks: of 2.13 and 2.14 that is nothing."""
    done = run("""
        import torch, dlc.backend
        from dlc import _C
        lacks = [what for what, _ in _C.torch_lacks()]
        old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)
        assert lacks == ["torch_exception_get_what_without_backtrace"] * old, lacks
    """)
    assert done.returncode == 0, done.stderr


#: Before 2.13 a number too large for float8_e4m3fn is NaN. 464 lies between 448, the largest one, and 480.
OVERFLOWS = """
    from dlc import _C
    init = _C.torch_init
    _C.torch_init = lambda *args: init(*args[:-1], {overflows})
    import torch, dlc.backend
    f = torch.compile(lambda x: x.to(torch.float8_e4m3fn).view(torch.uint8), backend="dlc")
    x = torch.tensor([1., 464., 465., -1e6, float("inf"), float("nan")])
    print(f(x).tolist())
"""


@pytest.mark.parametrize(
    ("overflows", "codes"),
    [(True, [56, 126, 127, 255, 127, 127]), (False, [56, 126, 126, 254, 126, 127])],
)
def test_numbers_that_are_too_large_for_float8(overflows: bool, codes: list[int]) -> None:
    done = run(OVERFLOWS.format(overflows=overflows))
    assert (done.returncode, done.stdout.strip()) == (0, str(codes)), done.stderr

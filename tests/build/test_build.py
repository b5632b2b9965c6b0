"""The build: incremental, and the same for make and for pip."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["make", "--file=csrc/build.mk", f"PYTHON={sys.executable}", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)


def compiled(output: str) -> set[str]:
    return {word for line in output.splitlines() for word in line.split() if word.endswith(".c")}


def test_a_second_build_does_nothing() -> None:
    done = make("-n", "ext", "programs")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {":"}


def test_a_changed_header_compiles_what_includes_it() -> None:
    before, done = make("-n", "ext"), make("-n", "--what-if=csrc/codegen/strips/strips.h", "ext")
    assert compiled(done.stdout) - compiled(before.stdout) == {
        "csrc/codegen/jit/kernel_key.c",  # its key covers all sources
        "csrc/codegen/strips/strips.c",
        "csrc/codegen/strips/strips_isa.c",
    }


def test_a_changed_prelude_changes_the_embedded_text() -> None:
    done = make("-n", "--what-if=csrc/ir/math/prelude_poly.h", "ext")
    assert any(name.endswith("prelude_text.c") for name in compiled(done.stdout))


def test_without_libtcc_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho libtcc.so\n")
    compiler.chmod(0o755)
    done = make("ext", f"CC={compiler}", f"B={tmp_path}")
    assert done.returncode != 0
    assert "libtcc is missing: install it" in done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    environment["DLC_BUILD"] = str(ROOT / "build/obj")  # the objects are there: only the link is new
    subprocess.run([*command, "-w", folder, ROOT], check=True, cwd=folder, env=environment)
    (path,) = folder.glob("dlc-*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_the_package_alone(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert [name for name in names if name.startswith("dlc/_C.") and name.endswith(".so")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dlc"}
    assert not [name for name in names if name.endswith((".c", ".h", ".def"))]
    assert [name for name in names if name.endswith("licenses/NOTICE")]
    assert {"dlc/py.typed", "dlc/_C.pyi"} <= set(names)  # what type checkers read


def test_the_wheel_registers_the_backend_and_asks_for_no_torch(wheel: zipfile.ZipFile) -> None:
    text = {
        name.rsplit("/", 1)[-1]: wheel.read(name).decode() for name in wheel.namelist() if "info/" in name
    }
    assert "dlc = dlc.backend:dlc_backend" in text["entry_points.txt"]
    needs = [line for line in text["METADATA"].splitlines() if line.startswith("Requires-Dist")]
    assert [need for need in needs if "extra" not in need] == ["Requires-Dist: numpy>=1.25"]

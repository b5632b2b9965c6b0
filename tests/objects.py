"""What `make` has compiled of csrc, for drivers and tests that link it instead of compiling it again."""

import ctypes
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"
OBJECTS = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "obj"
SANITIZED = bool(os.environ.get("DLC_ASAN"))
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"] * SANITIZED


def objects(*folders: str) -> list[str]:
    """Those of all sources in folders of csrc; skips the test where the programs are another processor's."""
    if "DLC_BIN" in os.environ and not OBJECTS.is_dir():
        pytest.skip("DLC_BIN has no objects: they are of another processor")
    sources = (path for folder in folders for path in sorted((CSRC / folder).rglob("*.c")))
    return [str(OBJECTS / path.relative_to(CSRC).with_suffix(".o")) for path in sources]


def table_address(name: str, table: str) -> int:
    """Of the table in an object, which is loaded for it: there it is hidden, as in the extension."""
    with TemporaryDirectory() as folder:
        source, library = Path(folder) / "shown.c", Path(folder) / "shown.so"
        source.write_text(f"extern const char {table}[];\nconst void *shown(void) {{ return {table}; }}\n")
        command = ["cc", "-shared", "-fPIC", *SANITIZE, str(source), str(OBJECTS / f"{name}.o"), "-lm"]
        subprocess.run([*command, "-o", str(library)], check=True)
        shown = ctypes.CDLL(str(library)).shown
    shown.restype = ctypes.c_void_p
    address = shown()
    assert address
    return address

"""python -m dlc doctor: what was found on this machine, and what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _C, __version__, cache
from .options import COMPILERS, environment_problems

_TIMEOUT = 60.0  # seconds


def _package() -> tuple[bool, str]:
    python = f"Python {platform.python_version()}, NumPy {importlib.metadata.version('numpy')}"
    return True, f"{__version__} in {Path(__file__).parent}; {python}, {' '.join(platform.libc_ver())}"


def _command() -> list[str] | None:
    """The compiler and the words behind it, as the tier finds them: a path with blanks may be one word."""
    asked = os.environ.get("DLC_CC", "").strip()
    for words in [[asked], asked.split()] if asked else [[name] for name in COMPILERS]:
        path = shutil.which(words[0])
        if path is not None:
            return [path, *words[1:]]
    return None


def _reason(output: str) -> str:
    """The first line with the word error in it, else the first, as csrc/codegen/jit/cc_failure.c has it."""
    lines = [line for line in output.splitlines() if line.strip()] or ["no reason given"]
    return next((line for line in lines if "error" in line.lower()), lines[0])


def _run_program(words: list[str]) -> str | None:
    """Why it failed; None when it did not."""
    try:
        made = subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=_TIMEOUT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if made.returncode == 0 else _reason(made.stderr + made.stdout)


def _makes_objects(command: list[str]) -> str | None:
    """What is wrong with the compiler when it cannot make a shared object; None when it can."""
    with tempfile.TemporaryDirectory(prefix="dlc-doctor-") as folder:
        text, made = Path(folder, "unit.c"), Path(folder, "unit.so")
        text.write_text("int unit(void) { return 1; }\n")
        wrong = _run_program([*command, "-O2", "-fPIC", "-shared", "-o", str(made), str(text)])
        if wrong is not None:
            return wrong
        if not made.is_file():
            return "it wrote nothing"
        # in another process: what is no shared object may end the one that loads it
        load = f"import ctypes, sys; sys.exit(ctypes.CDLL({str(made)!r}).unit() != 1)"
        wrong = _run_program([sys.executable, "-c", load])
        return wrong and f"what it wrote cannot be loaded: {wrong}"


def _compiler() -> tuple[bool, str]:
    command = _command()
    if command is None and os.environ.get("DLC_CC", "").strip():
        return False, f"DLC_CC is {os.environ['DLC_CC']!r}, which is no program on the PATH"
    if command is None:
        return False, "none: kernels stay on the libtcc tier; install gcc or clang for the settled tier"
    wrong = _makes_objects(command)
    if wrong is not None:
        return (
            False,
            f"{' '.join(command)} makes no shared objects, so kernels stay on the libtcc tier: {wrong}",
        )
    version = subprocess.run(
        [command[0], "--version"], capture_output=True, text=True, errors="replace", check=False
    )
    first = next(iter((version.stdout or version.stderr).splitlines()), "gives no version")
    return True, f"{' '.join(command)}: {first}"


def _environment() -> tuple[bool, str]:
    found = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("DLC_")]
    problems = environment_problems()
    if problems:
        return False, "; ".join(problems)
    return True, ", ".join(found) or "no variable DLC_.. is set"


def _torch() -> tuple[bool, str]:
    try:
        import torch
    except ImportError as error:
        return False, f"not importable ({error}); install torch to use the backend"
    try:
        from . import backend
    except ImportError as error:
        return False, f"{torch.__version__}: {error}"
    return True, f"{torch.__version__}, {torch.get_num_threads()} threads, backend {backend.__name__}"


def _entry_point() -> tuple[bool, str]:
    points = importlib.metadata.entry_points(group="torch_dynamo_backends")
    found = [point.value for point in points if point.name == "dlc"]
    return bool(found), found[0] if found else "missing: install the package (pip install .)"


def _cache() -> tuple[bool, str]:
    folder = cache.folder()
    if folder is None:
        return False, f"none: {_C.cache_refusal()}; set DLC_CACHE_DIR to a folder that is yours alone"
    return True, f"{folder}: {cache.describe()}"


def findings() -> Iterator[tuple[str, bool, str]]:
    """(what, is it well, what was found or how to mend it)"""
    yield "dlc", *_package()
    yield "processor", True, f"{platform.machine()}, strips for {_C.isa()}"
    yield "libtcc", True, "linked into the extension"
    yield "compiler", *_compiler()
    yield "torch", *_torch()
    yield "entry point", *_entry_point()
    yield "cache", *_cache()
    yield "environment", *_environment()


def _run(_args: argparse.Namespace) -> int:
    well = True
    for what, good, text in findings():
        word = "ok" if good else "wrong" if what == "environment" else "missing"
        print(f"{word:8} {what:12} {text}")
        well = well and (good or what in ("compiler", "cache"))
    return 0 if well else 1


def add_command(commands: Any) -> None:
    parser = commands.add_parser("doctor", help="what dlc found on this machine and what is missing")
    parser.set_defaults(run=_run)

"""python -m dlc doctor: what was found on this machine, and what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from . import _C, cache


def _compiler() -> tuple[bool, str]:
    names = [os.environ["DLC_CC"]] if "DLC_CC" in os.environ else ["cc", "gcc", "clang"]
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None and "DLC_CC" in os.environ:
        return False, f"DLC_CC is {names[0]!r}, which is no program on the PATH"
    if path is None:
        return False, "none: kernels stay on the libtcc tier; install gcc or clang for the settled tier"
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    first = (version.stdout or version.stderr or "gives no version").splitlines()[0]
    return version.returncode == 0, f"{path}: {first}"


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
        return False, "none: no folder that is yours and writable by you alone; set DLC_CACHE_DIR to one"
    return True, f"{folder}: {cache.describe()}"


def findings() -> Iterator[tuple[str, bool, str]]:
    """(what, is it well, what was found or how to mend it)"""
    yield "processor", True, f"{platform.machine()}, strips for {_C.isa()}"
    yield "libtcc", True, "linked into the extension"
    yield "compiler", *_compiler()
    yield "torch", *_torch()
    yield "entry point", *_entry_point()
    yield "cache", *_cache()


def _run(_args: argparse.Namespace) -> int:
    well = True
    for what, good, text in findings():
        print(f"{'ok     ' if good else 'missing'}  {what:12} {text}")
        well = well and (good or what in ("compiler", "cache"))
    return 0 if well else 1


def add_command(commands: Any) -> None:
    parser = commands.add_parser("doctor", help="what dlc found on this machine and what is missing")
    parser.set_defaults(run=_run)

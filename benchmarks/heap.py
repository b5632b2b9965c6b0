"""Bytes of the heap that a call takes, whoever asks for them: in a process that heap.c is preloaded into.

`command(...)` is that process's command and environment; there, `peak(call)` measures.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_VARIABLE = "HEAP_LIBRARY"


def run(module: str, *arguments: str, **variables: str) -> str:
    """What `python -m module arguments` prints, with the heap counted."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/heap.so"
        source = Path(__file__).with_name("heap.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", library], check=True)
        environment = os.environ | {"LD_PRELOAD": library, _VARIABLE: library} | variables
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def _library() -> Any:
    library = ctypes.CDLL(os.environ[_VARIABLE])
    library.heap_live.restype = library.heap_peak.restype = ctypes.c_int64
    return library


def peak(call: Callable[[], Any]) -> int:
    """The most bytes that were alive during the call, beside those that were before."""
    library = _library()
    gc.collect()
    gc.disable()
    try:
        before = library.heap_live()
        library.heap_begin()
        kept = call()
        most = library.heap_peak() - before
    finally:
        gc.enable()
    del kept
    return most

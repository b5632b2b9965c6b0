"""The machine code of a kernel as assembly, where the machine has objdump."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .. import _C
from .model import Graph, Step

_TIMEOUT = 20.0  # seconds


@functools.lru_cache(maxsize=64)
def _disassemble(key: str, folder: str | None) -> dict[str, str]:
    """Of an object of the cache: each function's text."""
    found = _C.cache_program(key, folder)
    objdump = shutil.which("objdump")
    if found is None or objdump is None:
        return {}
    with tempfile.TemporaryDirectory(prefix="dlc-explain-") as made:
        path = Path(made, "unit.so")
        path.write_bytes(found[1])
        words = [objdump, "-d", "--no-show-raw-insn", "--no-addresses", str(path)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            return {}
    parts = re.split(r"\n(?=<[^>]+>:\n)", done.stdout)
    return {name: part for part in parts if (name := part[1 : part.find(">")])}


def assembly(step: Step, graph: Graph) -> str:
    """That of the C compiler's kernel; "" where there is none in the cache."""
    if step.tier in ("", "tcc") or graph.cache == "":
        return ""
    for key in graph.keys:
        functions = _disassemble(key, graph.cache)
        found = [text for name, text in functions.items() if name.split(".")[0] in step.symbols]
        if found:
            return "\n".join(found)
    return ""

"""Runs saved models in a process where torch cannot be imported: python -m tests.files.apart FILE.."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [a for key in value for a in flat(value[key])]
    if isinstance(value, (tuple, list)):
        return [a for item in value for a in flat(item)]
    return [np.asarray(value)]


def run(code: str, *args: str, **environment: str) -> str:
    """What a program prints in which `import torch` raises."""
    head = "import sys; sys.modules['torch'] = None\n"
    found = subprocess.run(
        [sys.executable, "-c", head + code, *args],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


def call(file: Path, *calls: list[np.ndarray], tier: str = "tcc") -> list[list[np.ndarray]]:
    """The results of calls of a model, in such a process."""
    given = {f"{k}.{j}": array for k, arrays in enumerate(calls) for j, array in enumerate(arrays)}
    into, out = file.with_suffix(".in.npz"), file.with_suffix(".out.npz")
    np.savez(into, **given)
    code = f"""
import numpy as np, dlc
from tests.files.apart import flat
m, given = dlc.load({str(file)!r}, check=True, tier={tier!r}), np.load({str(into)!r})
made = {{}}
for k in range({len(calls)}):
    args = [given[name] for name in given.files if name.startswith(f"{{k}}.")]
    made |= {{f"{{k}}.{{j}}": array for j, array in enumerate(flat(m(*args)))}}
np.savez({str(out)!r}, **made)
assert sys.modules['torch'] is None
"""
    run(code)
    found = np.load(out)
    return [[found[name] for name in found.files if name.startswith(f"{k}.")] for k in range(len(calls))]

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
from .environment import FALSE
from .options import COMPILERS, environment_problems

_TIMEOUT = 60.0  # seconds
_WORD = {"environment": "wrong", "slow here": "advice", "torch lacks": "advice"}


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
        return True, "none, which dlc does without: kernels are libtcc's. With gcc or clang they are faster"
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
        from .torch_init import SERIES, version
    except ImportError as error:
        return False, f"{torch.__version__}: {error}"
    untried = ", a version that the tests were not run on" if not SERIES[0] <= version() <= SERIES[1] else ""
    return (
        True,
        f"{torch.__version__}{untried}, {torch.get_num_threads()} threads, backend {backend.__name__}",
    )


def _lacking() -> Iterator[tuple[bool, str]]:
    """What this torch has not, a line for each thing that is done without it."""
    lacking: dict[str, list[str]] = {}
    for what, without in _C.torch_lacks():
        lacking.setdefault(without, []).append(what)
    for without, what in lacking.items():
        yield False, f"{', '.join(what)}: {without}"


def _entry_point() -> tuple[bool, str]:
    points = importlib.metadata.entry_points(group="torch_dynamo_backends")
    found = [point.value for point in points if point.name == "dlc"]
    return bool(found), found[0] if found else "missing: install the package (pip install .)"


def _cache() -> tuple[bool, str]:
    folder = cache.folder()
    if folder is None:
        return False, f"none: {_C.cache_refusal()}; set DLC_CACHE_DIR to a folder that is yours alone"
    return True, f"{folder}: {cache.describe()}"


def _others() -> tuple[bool, str]:
    """The other compilers that option cc may name, each tried."""
    first = _command()
    rows = []
    for name in ("gcc", "clang", "cc"):
        path = shutil.which(name)
        if path is None:
            rows.append(f"{name}: not on the PATH")
        elif first is None or os.path.realpath(path) != os.path.realpath(first[0]):
            wrong = _makes_objects([path])
            rows.append(f"{path}: {'works' if wrong is None else wrong}")
    return True, "; ".join(rows) or f"none besides {first[0] if first else 'nothing'}"


def _flags() -> str:
    """Of the processor's instruction sets, those that matter here."""
    known = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd")
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    line = next((row for row in text.splitlines() if row.startswith(("flags", "Features"))), "")
    return ", ".join(flag for flag in known if flag in line.split()) or "none of those that dlc uses"


def _processor() -> tuple[bool, str]:
    from .report.machine import _processor as name

    return True, f"{name()}, {platform.machine()}, has {_flags()}; strips for {_C.isa()}"


def _quota() -> float | None:
    """Processors that the control group grants; None: no bound."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _processors() -> float:
    """Those that this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(allowed, _quota() or allowed)


def _threads() -> tuple[bool, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    named = ", ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
    free = f"{os.cpu_count()} processors, {_processors():g} for this process"
    return True, f"{free}; {named or 'neither ' + ' nor '.join(names) + ' is set'}"


def _pools() -> tuple[bool, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    bound = os.environ.get("DLC_POOL") or f"{min(512, memory // 16 >> 20)} MiB"
    return (
        True,
        f"up to {bound} of results and as much of workspaces stay (DLC_POOL); dlc.release() frees them",
    )


def _is_off(variable: str) -> bool:
    return bool(os.environ.get(variable)) and os.environ[variable].lower() in FALSE


def slow() -> Iterator[str]:
    """What would be slow here, each with what to do."""
    if _command() is None:
        yield "no C compiler: loops stay on libtcc's tier. Install gcc or clang"
    if _is_off("DLC_CACHE"):
        yield "DLC_CACHE=0: each process compiles again. Unset it"
    elif cache.folder() is None:
        yield f"no cache folder ({_C.cache_refusal()}): each process compiles again. Set DLC_CACHE_DIR"
    if _C.isa() == "sse2" and not os.environ.get("DLC_ISA"):
        yield "kernels for SSE2 alone: this processor has no AVX2"
    for name in ("DLC_ISA", "DLC_VERIFY", "DLC_DUMP", "DLC_TRACE", "DLC_FUEL"):
        if os.environ.get(name) and not _is_off(name):
            yield f"{name}={os.environ[name]}: meant for finding faults. Unset it"
    if os.environ.get("DLC_TIER") == "tcc":
        yield "DLC_TIER=tcc: the C compiler is not used. Unset it"
    threads, free = _thread_count(), int(_processors())
    if threads is not None and threads > max(free, 1):
        yield f"{threads} threads on {free} processors. Set OMP_NUM_THREADS={max(free, 1)}"
    if threads == 1 and free >= 2:
        yield f"1 thread on {free} processors. torch.set_num_threads({free}) uses them"


def _thread_count() -> int | None:
    try:
        import torch
    except ImportError:
        return None
    return torch.get_num_threads()


def _slow() -> tuple[bool, str]:
    found = list(slow())
    return not found, "; ".join(found) or "nothing that is known"


def findings() -> Iterator[tuple[str, bool, str]]:
    """(what, is it well, what was found or how to mend it)"""
    yield "dlc", *_package()
    yield "processor", *_processor()
    yield "threads", *_threads()
    own = Path(__file__).with_name("libdlctcc.so")
    yield "libtcc", True, f"{own.name}, beside the extension" if own.exists() else "the system's"
    yield "compiler", *_compiler()
    yield "compilers", *_others()
    yield "torch", *_torch()
    for line in _lacking():
        yield "torch lacks", *line
    yield "entry point", *_entry_point()
    yield "cache", *_cache()
    yield "pools", *_pools()
    yield "environment", *_environment()
    yield "slow here", *_slow()


def _run(_args: argparse.Namespace) -> int:
    well = True
    for what, good, text in findings():
        word = "ok" if good else _WORD.get(what, "missing")
        print(f"{word:8} {what:12} {text}")
        well = well and (good or what in ("compiler", "cache", "slow here", "torch lacks"))
    return 0 if well else 1


def add_command(commands: Any) -> None:
    parser = commands.add_parser("doctor", help="print what dlc found on this machine, and what is missing")
    parser.set_defaults(run=_run)

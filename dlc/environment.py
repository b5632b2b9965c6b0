"""The variables DLC_<NAME> of the environment: all that there are, and what is wrong with those that are set.

Each option has one (dlc/options.py reads it); here are the others.  docs/options.md has a sentence for each.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator

TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def is_yes(name: str) -> bool:
    return os.environ.get(name, "").lower() in TRUE


def _is_truth(text: str) -> bool:
    return text.lower() in TRUE | FALSE


def _is_size(text: str) -> bool:
    """As csrc/codegen/environment.c reads it."""
    size = r" *\+?(\d+\.?\d*|\.\d+)(e[+-]?\d+)? *([KMGT](iB|B)?|B)? *"
    return re.fullmatch(size, text, re.IGNORECASE) is not None


def _is_time(text: str) -> bool:
    try:
        return 0 < float(text) <= 1e9
    except ValueError:
        return False


def _is_processor(text: str) -> bool:
    return text in ("sse2", "avx2", "avx512")


def _has_costs(text: str) -> bool:
    return _is_processor(text) or text == "neon"


def _is_any(text: str) -> bool:
    return True


#: Of the process: how to see that a value is one, and what it is.
PROCESS: dict[str, tuple[Callable[[str], bool], str]] = {
    "DLC_CACHE_DIR": (_is_any, "a folder"),
    "DLC_CACHE_SIZE": (_is_size, "a number of bytes such as 512M"),
    "DLC_CC_TIMEOUT": (_is_time, "a number of seconds above 0"),
    "DLC_POOL": (_is_size, "a number of bytes such as 64M"),
    "DLC_ISA": (_is_processor, "sse2, avx2 or avx512"),
    "DLC_COSTS": (_has_costs, "sse2, avx2, avx512 or neon"),
    "DLC_DUMP_DIR": (_is_any, "a folder"),
    "DLC_ANY_TORCH": (_is_truth, "1 or 0"),
    "DLC_LOG": (_is_truth, "1 or 0"),
    "DLC_PERF": (_is_truth, "1 or 0"),
    "DLC_GDB": (_is_truth, "1 or 0"),
    "DLC_TRACE": (_is_any, "a file"),
}
#: Of the build and the tests, which no compile reads.
WORKSHOP = ("DLC_ASAN", "DLC_BIN", "DLC_BUILD", "DLC_DAMAGE", "DLC_FUZZ", "DLC_OPT", "DLC_TEXTS")


def _set() -> Iterator[tuple[str, str]]:
    """Those that are set; one that is empty is as good as none."""
    return ((name, text) for name, text in os.environ.items() if name.startswith("DLC_") and text)


def unknown(options: Iterable[str]) -> list[str]:
    """What is to be said of names that nothing reads.  options: the names of the options."""
    known = [*(f"DLC_{name.upper()}" for name in options), *PROCESS, *WORKSHOP]
    said = []
    for name, text in _set():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            said.append(f"the variable {name}={text} is none of dlc's{hint}; docs/options.md lists them")
    return said


def wrong() -> list[str]:
    """What is wrong with values of the process's variables."""
    rows = ((name, text, *PROCESS[name]) for name, text in _set() if name in PROCESS)
    bad = ((name, text, what) for name, text, good, what in rows if not good(text))
    return [f"the variable {name} is {what}, not {text!r}" for name, text, what in bad]

"""The values that each option takes: one table, for options that are given and for variables DLC_<NAME>.

A value that is given has to be of its type: "no" is a true text of Python's, and no folder that anybody
means. A variable is text, so there the words of environment.TRUE and FALSE are truth values, and digits are
numbers.
"""

from __future__ import annotations

import contextlib
import difflib
import numbers
import operator
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ._C import ir_passes
from .environment import FALSE, TRUE


class Values(NamedTuple):
    """The values of an option."""

    what: str  # they are, in words
    take: Callable[[Any], Any]  # the value as Options has it; raises ValueError or TypeError
    read: Callable[[str], Any] = str  # a variable's text as such a value; raises ValueError


class Wrong(Exception):
    """A value that the option does not take, with the whole of the message."""


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError


def _verify(value: Any) -> bool | str:
    return "run" if value == "run" else _truth(value)


def _is_word(text: str) -> bool:
    return text.lower() in TRUE | FALSE


def _read_truth(text: str) -> Any:
    return text.lower() in TRUE if _is_word(text) else text


def _folder(value: Any) -> bool | str:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and _is_word(value):
        raise ValueError
    return str(Path(os.fspath(value)).expanduser())


def _number(least: float, most: float) -> Callable[[Any], float]:
    def take(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not least <= value <= most:
            raise ValueError
        return float(value)

    return take


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _bytes(value: Any) -> int | None:
    """A number, or a text such as 512M."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)([KMGkmg]?)", value if isinstance(value, str) else str(_whole(value)))
    if found is None:
        raise ValueError
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2].lower()]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError


def _one_of(*words: str) -> Values:
    def take(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    *first, last = (f'"{word}"' for word in words)
    return Values(f"{', '.join(first)} or {last}", take)


def _weights() -> Values:
    words = _one_of("int8", "int4", "auto")
    return Values(words.what + ", or None", lambda value: None if value is None else words.take(value))


def _dump(value: Any) -> str | None:
    """Names of passes, and of what code generation makes."""
    made = ["loops", "tcc_loops", "cc_loops", "tcc", "cc", "plan"]
    names = [*(name for name, _ in ir_passes()), "prepare", "weights", *made, "all"]
    for word in filter(None, (_text(value) or "").split(",")):
        if word not in names:
            raise Wrong(
                f"dlc option 'dump' takes the names {', '.join(names)}, not {word!r}{_near(word, names)}"
            )
    return _text(value)


_TRUTH = Values("True or False", _truth, _read_truth)
_BUDGET = Values("a number from 0 to 1", _number(0, 1), float)
TABLE: dict[str, Values] = {
    "tier": _one_of("auto", "tcc", "gcc"),
    "cache": Values("True, False or a folder", _folder, _read_truth),
    "strict": _TRUTH,
    "cc": Values("a string or None", _text),
    "verify": Values('True, False or "run"', _verify, _read_truth),
    "dump": Values("a string or None", _dump),
    "fuel": Values("an integer", _whole, int),
    "capture": _one_of("auto", "direct", "aot"),
    "memory_budget": _BUDGET,
    "memory_limit": Values("a number of bytes or such as '512M'", _bytes),
    "tune": _TRUTH,
    "tune_budget": Values("a number of seconds from 0 on", _number(0, 1e9), float),
    "freeze": _TRUTH,
    "products": _one_of("auto", "own", "library"),
    "weights": _weights(),
    "activations": _one_of("exact", "i32", "i16", "i8"),
}


def _near(value: Any, words: list[str]) -> str:
    found = difflib.get_close_matches(value.lower(), words, 1) if isinstance(value, str) else []
    return f": did you mean {found[0]!r}?" if found else ""


def _hint(name: str, value: Any) -> str:
    """What whoever wrote such a value means: a word near to one that there is, or one for a truth value."""
    if name == "tier" and value in ("cc", "clang"):
        return f": write {{'tier': 'gcc', 'cc': '{value}'}}"
    if isinstance(value, str) and TABLE[name].read in (int, float):
        with contextlib.suppress(ValueError):
            return f": write {TABLE[name].take(TABLE[name].read(value))}, without quotes"
    near = _near(value, re.findall(r'"(\w+)"', TABLE[name].what))
    if near or not isinstance(value, str) or not _is_word(value) or TABLE[name].read is not _read_truth:
        return near
    also = f", or './{value}' for a folder of that name" if name == "cache" and value else ""
    return f": write {value.lower() in TRUE}{also}"


def take(name: str, value: Any) -> Any:
    """The value of an option that is given; raises ValueError with what the option takes."""
    try:
        return TABLE[name].take(value)
    except Wrong as error:
        raise ValueError(str(error)) from None
    except (TypeError, ValueError):
        what = f"dlc option {name!r} is {TABLE[name].what}, not {value!r}{_hint(name, value)}"
        raise ValueError(what) from None


def read(name: str, text: str) -> Any:
    """The value that a variable's text stands for; raises ValueError with what the option takes."""
    try:
        value = TABLE[name].read(text)
    except ValueError:
        value = text
    return take(name, value)

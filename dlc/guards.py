"""What a function of aot_compile says of arguments that it was not compiled for.

torch's own text is a dump of what its guards found. Of functions that dlc compiled it becomes sentences: the
argument by the user's name, what differs, and what to write.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

from torch._dynamo.aot_compile import AOTCompiledFunction

from .inputs import word_of

_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
_TENSOR = re.compile(
    r"tensor '(?P<source>.*)' (?P<what>[\w ]+?) mismatch(?: at index (?P<axis>\d+))?\. "
    r"expected (?P<want>.*), actual (?P<have>.*)"
)


def _of_tensor(found: re.Match[str]) -> str:
    what, axis, want, have = found["what"], found["axis"], found["want"], found["have"].rstrip(". ")
    name = word_of(found["source"]) or found["source"]
    variable = name.split("'")[1] if "'" in name else name
    if what == "size":
        return (
            f"{name} has size {have} along axis {axis}, and was compiled for {want}: call "
            f"torch._dynamo.mark_dynamic({variable}, {axis}) on the example before aot_compile, and it takes "
            "any size from 2 on"
        )
    if what == "stride":
        return (
            f"{name} has another layout than the example (stride {have} along axis {axis}, not {want})"
            f": pass {variable}.contiguous(), or compile with an example of this layout"
        )
    if what == "dtype":
        want, have = _DTYPES.get(want, want), _DTYPES.get(have, have)
        return f"{name} is of {have}, and was compiled for {want}: pass {variable}.to(torch.{want})"
    if what == "rank":
        return f"{name} has {have} axes, and was compiled for {want}"
    return f"{name} has another {what} than the example ({have}, not {want})"


def _of_others(part: str) -> str:
    text = re.sub(r"\bL\['(\w+)'\]", r"\1", part.partition("  #")[0].strip())
    if found := re.match(r"tensor '(.*)' requires_grad mismatch\. expected requires_grad=(\d)", text):
        needs = ("requires a gradient", "requires no gradient")[int(found[2])]
        return f"'{found[1]}' {needs}, unlike the example: compile with one that is like it"
    if found := re.match(r"expected type of '(.*)' to be a tensor type, .*found <class '(.*)'>", text):
        return f"'{found[1]}' is a {found[2]}, and was a tensor when it was compiled"
    if found := re.match(r"GLOBAL_STATE changed: (.*)", text):
        return (
            f"{found[1].strip()} is not as it was when it was compiled: call it as it was compiled, under "
            "torch.no_grad(), for instance, or not"
        )
    return f"{text} does not hold, as it did for the example"


def sentences(parts: list[str]) -> str:
    """Of what guards found, GuardDebugInfo.verbose_code_parts."""
    said = []
    for part in parts:
        found = _TENSOR.fullmatch(part.strip())
        said.append(_of_tensor(found) if found else _of_others(part))
    return "; ".join(said) or "the arguments are not like those that it was compiled for"


class _Said:
    """What torch's guards found (GuardDebugInfo), with sentences for its text."""

    def __init__(self, info: Any, text: str) -> None:
        self._info, self._text = info, text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._info, name)


class _Check:
    """torch's check of guards that says what it found."""

    said_by_dlc = True

    def __init__(self, check: Any) -> None:
        self._check = check

    def __call__(self, *given: Any) -> Any:
        info = self._check(*given)
        parts = getattr(info, "verbose_code_parts", None)
        return info if parts is None else _Said(info, sentences([str(part) for part in parts]))


#: What torch calls the backend: by its name, or given as the function that it is.
_NAMES = ("dlc", "dlc_backend")


def _say(function: Any) -> None:
    """Has a saved function of dlc's say it. One of another backend, or of another torch, is left as it is."""
    artifacts = getattr(function, "_artifacts", None)
    manager = getattr(artifacts, "guard_manager", None)
    check = getattr(manager, "check_verbose", None)
    if getattr(artifacts, "backend_name", None) not in _NAMES or check is None:
        return
    if not getattr(check, "said_by_dlc", False):
        with contextlib.suppress(AttributeError, TypeError):  # of a manager that takes no attribute
            manager.check_verbose = _Check(check)  # type: ignore[union-attr]


def make_readable() -> None:
    """Has torch's functions say this where the backend is dlc, at no cost for calls whose guards hold."""
    begin = getattr(AOTCompiledFunction, "__post_init__", None)
    if begin is None or getattr(begin, "said_by_dlc", False):
        return

    @functools.wraps(begin)
    def begun(self: AOTCompiledFunction, *args: Any) -> None:
        begin(self, *args)
        _say(self)

    begun.said_by_dlc = True  # type: ignore[attr-defined]
    AOTCompiledFunction.__post_init__ = begun  # type: ignore[method-assign]

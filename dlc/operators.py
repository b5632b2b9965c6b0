"""Which operators an artifact may call: a list, and what this process allows. See docs/aot_compile.md."""

from __future__ import annotations

import functools
from pathlib import Path

from torch._ops import OpOverload, OpOverloadPacket

_allowed: set[str] = set()  # "namespace.name", or "namespace.name.overload"


@functools.cache
def listed() -> frozenset[str]:
    """The names, as str(overload) has them."""
    names = set()
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            operator, *overloads = line.replace("::", ".").split()
            names |= {f"{operator}.{overload}" for overload in overloads}
    return frozenset(names)


def is_allowed(name: str) -> bool:
    """name: as str(overload) has it."""
    return name in listed() or name in _allowed or name.rpartition(".")[0] in _allowed


def allow_operators(*operators: OpOverload | OpOverloadPacket | str) -> None:
    """Let artifacts call these operators, in this process.

    An artifact may call the operators of PyTorch that only compute, and no others: whoever wrote its bytes
    chooses the arguments. So allow those of yours that are harmless with any.

    operators: as torch.ops has them, or names: "mine::twice" for all its overloads, "mine::twice.default".
    Raises ValueError for what is no such name.
    """
    names = [str(operator).replace("::", ".") for operator in operators]
    for name in names:
        if name.count(".") not in (1, 2) or not all(name.split(".")):
            raise ValueError(f"{name!r} is no operator's name: namespace::name or namespace::name.overload")
    _allowed.update(names)

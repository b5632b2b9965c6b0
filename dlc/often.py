"""A warning for functions of dlc.jit that are compiled again and again."""

from __future__ import annotations

import warnings
from typing import Any

from .variables import is_plain

#: So many values of one argument, each compiled for, are a sign that it is one at each call.
MANY_VALUES = 16
#: As many variants as csrc/capture/jit/jit.c keeps.
MANY_VARIANTS = 64


class Often:
    """Counts the variants of one function and says once that they are many."""

    def __init__(self, function: str, names: tuple[str, ...]) -> None:
        self.function = function
        self.names = names
        self.values: list[set[Any]] = [set() for _ in names]
        self.variants = 0
        self.said = False

    def added(self, args: tuple[Any, ...], inputs: list[int]) -> None:
        """A variant was compiled for args; inputs: those that are no constants of it."""
        self.variants += 1
        if self.said:
            return
        for k, value in enumerate(args):
            if k not in inputs and is_plain(value):
                self.values[k].add((type(value), repr(value)))
            if len(self.values[k]) >= MANY_VALUES:
                many = f"for {MANY_VALUES} values of its argument {self.names[k]!r}"
                return self.say(f"{many}, {_advice(value)}")
        if self.variants > MANY_VARIANTS:
            self.say(
                f"in more than {MANY_VARIANTS} variants, of which the oldest is forgotten each time: it is "
                "given ever other dtypes, numbers of axes or constants"
            )

    def say(self, what: str) -> None:
        self.said = True
        warnings.warn(f"dlc.jit: {self.function}() was compiled {what}", RuntimeWarning, stacklevel=7)


def _advice(value: Any) -> str:
    if isinstance(value, float):
        return "a float by which it decides: torch.where and np.where choose without another compile"
    if isinstance(value, int):
        return "an int, which is a constant: as a float or an array it would be an input"
    return f"a constant of type {type(value).__name__}: each one is compiled for"

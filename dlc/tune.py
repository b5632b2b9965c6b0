"""What the option tune shows while the first call of a graph looks for schedules."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any


class Progress:
    """Called by the extension after each step; a bar on standard error where a person reads it.

    Without tqdm there is none: what is compiled does not depend on it.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._shown = find_spec("tqdm") is not None

    def __call__(self, done: int, total: int, line: str | None) -> None:
        """`done` of `total`; line: what was found for a kernel, and the schedule on lines behind it."""
        if not self._shown or (self._bar is None and done >= total):
            return
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc="dlc: tuning", leave=False, disable=None)
        if line is not None:
            self._bar.set_postfix_str(line.splitlines()[0], refresh=False)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._bar.close()
            self._bar = None

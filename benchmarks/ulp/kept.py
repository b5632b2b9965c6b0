"""What was measured before, so that a sweep of hours can be stopped and goes on where it was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.ulp.strips import Worst


@dataclass(frozen=True)
class Line:
    """What one function's measurement gave for one dtype."""

    own: Worst
    eager: Worst


def digest(arrays: list[np.ndarray]) -> str:
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def plain(worst: Worst) -> dict[str, object]:
    return {"ulp": worst.ulp, "at": list(worst.at), "wrong": worst.wrong, "wrong_at": list(worst.wrong_at)}


def worst_of(fields: dict) -> Worst:
    worst = Worst(fields["ulp"], wrong=fields["wrong"])
    worst.at[:], worst.wrong_at[:] = fields["at"], fields["wrong_at"]
    return worst


class Kept:
    """A file with one measurement a line.  A line counts while the function and eager's give on a
    sample what they gave then."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.lines: dict[str, dict] = {}
        if path and path.exists():
            for text in path.read_text().splitlines():
                fields = json.loads(text)
                self.lines[fields["what"]] = fields

    def find(self, what: str, sample: str) -> Line | None:
        fields = self.lines.get(what)
        if not fields or fields["sample"] != sample:
            return None
        return Line(worst_of(fields["own"]), worst_of(fields["eager"]))

    def add(self, what: str, sample: str, line: Line) -> None:
        if self.path:
            fields = {"what": what, "sample": sample, "own": plain(line.own), "eager": plain(line.eager)}
            with self.path.open("a") as file:
                file.write(json.dumps(fields) + "\n")

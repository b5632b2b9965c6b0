"""Which part of a long sweep a run does: shard k of n, where n shards are everything.

A cell is an entry of one of torch's databases and a way to run it; it has samples. Where a sample belongs is
a hash of the names of its cell and of its number, so that an entry more or less moves no other. The samples
of a cell stay together as far as that goes, as those that are run together share most of what they cost: of
180, 360, 540 .. shards every 180th visits it.

`make test` visits the cells of shard k of 180, where k counts the commits, and runs some samples of each.
A hundred and eighty commits in a row run each entry in each way; the next as many run other samples of it.
"""

import hashlib
import subprocess
from dataclasses import dataclass
from datetime import date
from functools import cache
from math import gcd
from pathlib import Path

CELLS = 180  # shards that the cells are cut into
ROOT = Path(__file__).resolve().parents[1]


def digest(*key: object) -> int:
    """64 bits that depend on nothing but the names."""
    text = "/".join(map(str, key))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


@cache
def place(*cell: object) -> int:
    """The digest of a cell, which every shard asks for."""
    return digest(*cell)


@dataclass(frozen=True)
class Shard:
    """One part of everything. `number` may go on counting: what is beyond `count` is another round."""

    number: int
    count: int = CELLS

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str, count: int = CELLS) -> "Shard":
        """`7` or `7/60`; `commit` and `commit/60` are the shard of the commit."""
        number, _, of = text.partition("/")
        shard = cls(of_commit() if number == "commit" else int(number), int(of or count))
        if shard.number < 0 or shard.count < 1:
            raise ValueError(f"no shard: {text}")
        return shard

    def visits(self, *cell: object) -> bool:
        """Whether samples of the cell may be in this shard."""
        common = gcd(self.count, CELLS)
        return place(*cell) % common == self.number % common

    def samples(self, total: int, *cell: object) -> list[int]:
        """Those of the numbers below `total` that are in this shard."""
        first = place(*cell) % CELLS
        found = (first + CELLS * digest(*cell, i) for i in range(total))
        return [i for i, p in enumerate(found) if p % self.count == self.number % self.count]

    def some(self, total: int, window: int, *cell: object) -> list[int]:
        """`window` of the samples of a visited cell, by the round: all of them after enough rounds."""
        order = sorted(range(total), key=lambda i: digest(*cell, i))
        first = self.number // self.count * window
        return sorted({order[(first + j) % total] for j in range(min(window, total))})


@cache
def of_commit() -> int:
    """How many commits lead to this one, so that successive commits see successive shards.

    The day, where git does not know: without git, and in a clone that was cut off.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if git("rev-parse", "--is-shallow-repository") == "false":
            return int(git("rev-list", "--count", "HEAD"))
    except (OSError, ValueError, subprocess.CalledProcessError):
        pass
    return date.today().toordinal()


if __name__ == "__main__":
    print(of_commit())

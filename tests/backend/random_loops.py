"""Random functions of loops that are left in every way, as their text and as functions."""

import linecache
import random
from collections.abc import Callable
from typing import Any

NAMES = "abcd"


class _Text:
    """items: of what a loop goes over; values: what decides; both may name n, a number, and x, an array."""

    def __init__(self, seed: int, items: list[str], values: list[str], assigned: list[str]) -> None:
        self.rng = random.Random(seed)
        self.items, self.values, self.assigned = items, values, assigned
        self.loops = 0

    def block(self, depth: int, loop: bool) -> list[str]:
        lines = []
        for _ in range(self.rng.randrange(1, 4)):
            lines += self.statement(depth, loop)
        return lines

    def statement(self, depth: int, loop: bool) -> list[str]:
        rng = self.rng
        kind = rng.randrange(10)
        if kind < 3 and depth:
            ways = [f"if {rng.choice(self.values)}:", *self.inner(self.block(depth - 1, loop))]
            if rng.random() < 0.5:
                ways += ["else:", *self.inner(self.block(depth - 1, loop))]
            return ways
        if kind < 6 and loop:
            return [rng.choice(["break", "continue", "return a, b, c, d", "break", "continue"])]
        if kind < 8 and depth and self.loops < 3:
            return self.loop(depth)
        return [rng.choice(self.assigned)]

    def loop(self, depth: int) -> list[str]:
        self.loops += 1
        rng, index, count = self.rng, "ijk"[self.loops - 1], f"w{self.loops}"
        body = self.block(depth - 1, True)
        if rng.random() < 0.3:
            test = rng.choice([f"{count} < 12", f"{count} < 12 and {rng.choice(self.values)}"])
            head = [f"{count} = 0", f"while {test}:"]
            body = [f"{count} += 1", f"if {count} > 14: break", *body]
        else:
            head, body = (
                [f"for {index} in {rng.choice(self.items)}:"],
                [f"{rng.choice(NAMES)} = {index}", *body],
            )
        made = [*head, *self.inner(body)]
        if rng.random() < 0.4:
            made += ["else:", *self.inner(self.block(0, False))]
        return made

    @staticmethod
    def inner(lines: list[str]) -> list[str]:
        return [f"    {line}" for line in lines]


def random_loops(
    seed: int, items: list[str], values: list[str], assigned: list[str], **names: Any
) -> tuple[Callable[..., Any], str]:
    """f(x, n), which gives a tuple."""
    made = _Text(seed, items, values, assigned)
    lines = ["def f(x, n):", *(f"    {name} = {k + 1}" for k, name in enumerate(NAMES))]
    lines += made.inner([*made.loop(3), *made.block(2, False), "return a, b, c, d"])
    text, file = "\n".join(lines), f"<loops {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = dict(names)
    exec(compile(text, file, "exec"), scope)
    return scope["f"], text

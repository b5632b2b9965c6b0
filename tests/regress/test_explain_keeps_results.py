"""Results of a measured run live until those of the next are made.

Where they did not, kernels that make large results were measured with the faults of fresh pages: those of a
step of training seemed to take half as long again as they do.
"""

import weakref
from typing import Any

import torch

import dlc
from dlc.report import gather


def scaled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(x * float(k) for k in range(1, 5))


def test_results_live_until_the_next_are_made(monkeypatch: Any) -> None:
    alive: list[bool] = []
    again = gather._again

    class Watched:
        """The callable itself; each call asks whether the results before it are there."""

        def __init__(self, compiled: Any) -> None:
            self.compiled, self.last = compiled, None

        def profile(self, **how: Any) -> Any:
            return self.compiled.profile(**how)

        def __call__(self, args: list[Any]) -> Any:
            made = self.compiled(args)
            if self.last is not None:
                alive.append(self.last() is not None)
            self.last = weakref.ref(made[0])
            return made

    def watched(report: dict[str, Any]) -> None:
        again(report | {"callable": Watched(report["callable"])})
        again(report)

    monkeypatch.setattr(gather, "_again", watched)
    report = dlc.explain(scaled, torch.randn(1000))
    assert report.graphs[0].measured and len(alive) >= 2 and all(alive)

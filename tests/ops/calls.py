"""Torch's operators, every sample, forward: which run without a call of an eager operator, and what the
others call: python -m tests.ops.calls

What spends its time in a library's routine (products, convolutions, decompositions, transforms, sorts) and
what draws random numbers stays a call; such samples are counted apart.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm

from dlc.report import collect
from tests.ops.check import Way, as_function, call, chosen, entries, samples

#: Beginnings of overloads whose time is a library's, which draw random numbers, or read data on the host.
LIBRARY = """
    addbmm addmm addmv addr baddbmm bmm mm mv dot vdot _int_mm _addmm_activation _cdist _pdist convolution
    mkldnn mkl _scaled_dot _flash _fft linalg_ _linalg cholesky geqrf ormqr orgqr lu_ triangular_solve svd qr
    sort topk kthvalue median nanmedian mode msort unique _unique histogram
    bernoulli native_dropout normal uniform rand exponential_ geometric cauchy log_normal multinomial
    rrelu_with_noise poisson _local_scalar_dense nonzero masked_select _to_sparse to_sparse quantize
"""
PREFIXES = tuple(f"aten.{name}" for name in LIBRARY.split())


@dataclass
class Tally:
    """What became of the samples; calls: of each overload that stays and is no library's, in how many."""

    whole: int = 0
    library: int = 0
    part: int = 0
    dark: int = 0  # eager raises, or Dynamo captures nothing
    failed: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    where: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, targets: list[str] | None) -> None:
        own = {t for t in targets or [] if not t.startswith(PREFIXES)}
        if targets is None:
            self.dark += 1
        elif own:
            self.part += 1
            for target in own:
                self.calls[target] += 1
                self.where.setdefault(target, set()).add(name)
        elif targets:
            self.library += 1
        else:
            self.whole += 1

    def text(self) -> str:
        counted = max(self.whole + self.part, 1)
        lines = [
            f"{self.whole} of {counted} samples ({100 * self.whole / counted:.1f} %) run without a call; "
            f"{self.library} more call libraries; of {self.dark} nothing is compiled; {self.failed} fail"
        ]
        for target, n in self.calls.most_common():
            lines.append(f"{n:5} {target}: {', '.join(sorted(self.where[target])[:4])}")
        return "\n".join(lines)


def targets(op: Any, sample: Any, capture: str) -> list[str] | None:
    """What the graphs of a sample call; None: eager raises, or there is no graph."""
    function = as_function(op)
    try:
        call(function, sample)
    except Exception:
        return None
    torch._dynamo.reset()
    options = {"tier": "tcc", "capture": capture}
    with collect() as reports:
        call(torch.compile(function, backend="dlc", dynamic=False, options=options), sample)
    calls = [target for r in reports for target, *_ in r.get("calls", [])]
    calls += [f"whole graph: {r['error']}"[:80] for r in reports if r.get("error")]
    return calls if reports else None


def count(names: str, fraction: float, seed: int, capture: str) -> Tally:
    tally = Tally()
    way = Way()
    found = [op for op in entries(way) if names in op.full_name]
    for op in tqdm(found, disable=None):
        listed = samples(op, way)
        for k in chosen(op.full_name, len(listed), fraction, seed):
            try:
                tally.add(op.full_name, targets(op, listed[k], capture))
            except Exception:
                tally.failed += 1
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ops.calls", description=__doc__)
    parser.add_argument("--fraction", type=float, default=1.0, help="of the samples of each entry")
    parser.add_argument("--seed", type=int, default=0, help="chooses the samples of a fraction")
    parser.add_argument("--only", default="", metavar="TEXT", help="entries with TEXT in their name")
    parser.add_argument("--capture", default="aot", choices=["auto", "aot", "direct"])
    args = parser.parse_args()
    print(count(args.only, args.fraction, args.seed, args.capture).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())

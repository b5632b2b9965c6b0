"""Torch's operators, every sample, forward or with gradients: which run without a call of an eager
operator, and what the others call: python -m tests.ops.calls

Samples that call what no kernel can take the place of are counted apart (`APART` says what and why); what
else they call is listed with the rest, and marked.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm

from dlc.report import collect
from tests.ops.check import Way, as_function, call, entries, samples
from tests.shards import Shard

#: Beginnings of names of calls that no kernel can take the place of, by the reason.
APART = {
    # matrix products and what is made of them: the time is that of BLAS and oneDNN
    "products": """
        addbmm addmm addmv addr baddbmm bmm mm mv dot vdot _int_mm _addmm_activation _cdist _pdist
        convolution mkldnn mkl _scaled_dot _flash torch_nn._linear_cross_entropy
    """,
    # LAPACK; its errors are read on the host, by a call with an effect
    "decompositions": """
        linalg_ _linalg cholesky geqrf ormqr orgqr lu_ triangular_solve svd qr with_effects
    """,
    # transforms, of pocketfft or MKL
    "transforms": "_fft",
    # comparison sorts: what is compared next depends on the last comparison
    "sorts": "sort topk kthvalue median nanmedian mode msort unique _unique",
    # random numbers: eager's stream has to be drawn by eager's generator
    "random numbers": """
        bernoulli native_dropout normal uniform rand exponential geometric cauchy log_normal multinomial
        rrelu_with_noise poisson binomial
    """,
    # how many elements there are, or what runs next, depends on data
    "sizes in data": "_local_scalar_dense nonzero masked_select _to_sparse to_sparse quantize segment_reduce",
    # a loop for each element, with as many steps as its operands say (degrees, convergence)
    "steps in data": """
        special_chebyshev_polynomial special_shifted_chebyshev_polynomial special_hermite_polynomial
        special_laguerre_polynomial special_legendre_polynomial special_zeta igamma
    """,
}


def reason(target: str) -> str | None:
    """Why a call is counted apart; None: it is not."""
    name = target.removeprefix("aten.")
    return next((why for why, names in APART.items() if name.startswith(tuple(names.split()))), None)


@dataclass
class Tally:
    """What became of the samples; calls: of each overload that stays and is not apart, in how many."""

    whole: int = 0
    part: int = 0
    dark: int = 0  # eager raises, or Dynamo captures nothing
    failed: int = 0
    apart: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    where: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, targets: list[str] | None) -> None:
        why = next((r for t in targets or [] if (r := reason(t))), None)
        if targets is None:
            self.dark += 1
        elif why:
            self.apart[why] += 1
        elif targets:
            self.part += 1
        else:
            self.whole += 1
        for target in {t for t in targets or [] if not reason(t)}:
            key = f"{target} (beside {why})" if why else target
            self.calls[key] += 1
            self.where.setdefault(key, set()).add(name)

    def text(self) -> str:
        counted = max(self.whole + self.part, 1)
        lines = [
            f"{self.whole} of {counted} samples ({100 * self.whole / counted:.1f} %) run without a call; "
            f"{self.apart.total()} more cannot; of {self.dark} nothing is compiled; {self.failed} fail"
        ]
        lines += [f"{n:5} cannot for {why}" for why, n in self.apart.most_common()]
        for target, n in self.calls.most_common():
            lines.append(f"{n:5} {target}: {', '.join(sorted(self.where[target])[:4])}")
        return "\n".join(lines)


def targets(op: Any, sample: Any, capture: str, gradients: bool) -> list[str] | None:
    """What the graphs of a sample call; None: eager raises, or there is no graph."""
    function = as_function(op)
    try:
        call(function, sample, gradients)
    except Exception:
        return None
    torch._dynamo.reset()
    options = {"tier": "tcc", "capture": capture}
    with collect() as reports:
        call(torch.compile(function, backend="dlc", dynamic=False, options=options), sample, gradients)
    calls = [target for r in reports for target, *_ in r.get("calls", [])]
    calls += [f"whole graph: {r['error']}"[:80] for r in reports if r.get("error")]
    return calls if reports else None


def count(names: str, shard: Shard, capture: str, gradients: bool) -> Tally:
    tally = Tally()
    way = Way(gradients=gradients)
    found = [op for op in entries(way) if names in op.full_name]
    for op in tqdm(found, disable=None):
        listed = samples(op, way)
        for k in shard.samples(len(listed), op.full_name, way):
            try:
                tally.add(op.full_name, targets(op, listed[k], capture, gradients))
            except Exception:
                tally.failed += 1
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ops.calls", description=__doc__)
    parser.add_argument(
        "--shard", type=Shard.parse, default="0/1", metavar="K/N", help="a part of the samples"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="entries with TEXT in their name")
    parser.add_argument("--capture", default="aot", choices=["auto", "aot", "direct"])
    parser.add_argument("--gradients", action="store_true", help="and those of the inputs")
    args = parser.parse_args()
    print(count(args.only, args.shard, args.capture, args.gradients).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())

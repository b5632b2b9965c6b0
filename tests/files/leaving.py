"""How many entries of torch's database leave torch: python -m tests.files.leaving [--shard K/N]

Two samples of each float32 entry are saved, loaded and compared with eager. An entry leaves if both do.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

import dlc
from dlc import FileError
from tests.ops.check import Way, as_function, entries, samples
from tests.shards import Shard, digest

SAMPLES = 2


@dataclass
class Count:
    leave: list[str] = field(default_factory=list)
    stay: dict[str, str] = field(default_factory=dict)  # why
    wrong: dict[str, str] = field(default_factory=dict)  # dlc's fault: a result, or an error that is none

    def text(self) -> str:
        total = len(self.leave) + len(self.stay) + len(self.wrong)
        share = 100 * len(self.leave) / max(total, 1)
        lines = [f"{len(self.leave)} of {total} entries leave torch ({share:.1f} %)"]
        for why, n in Counter(self.stay.values()).most_common():
            names = [name for name, reason in self.stay.items() if reason == why]
            lines.append(f"{n:5} {why}: {', '.join(names[:6])}")
        return "\n".join(lines + [f"WRONG {name}: {what}" for name, what in self.wrong.items()])


def _why(error: BaseException) -> str:
    """The first operator of torch's, or the first line."""
    lines = str(error).splitlines() or [type(error).__name__]
    calls = [line.split()[0] for line in lines[1:] if line.startswith("  ")]
    return calls[0] if isinstance(error, FileError) and calls else f"{type(error).__name__}: {lines[0][:90]}"


def _close(have: Any, want: Any) -> None:
    """Of an entry without tensors the results are arrays."""
    some, others = tree_leaves(have), tree_leaves(want)
    assert len(some) == len(others), f"{len(some)} results and not {len(others)}"
    for a, b in zip(some, others, strict=True):
        if isinstance(b, Tensor):
            torch.testing.assert_close(torch.as_tensor(a), b.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)


def _of_eigenvectors(results: Any) -> Any:
    """Vectors are one of two: the matrix of them is compared, and that they are orthogonal."""
    values, vectors = results
    return values, vectors * values.unsqueeze(-2) @ vectors.mT, vectors.mT @ vectors


def _of_singular_vectors(results: Any, rows: bool) -> Any:
    """rows: the last result has the vectors as rows, as linalg.svd has it."""
    left, values, right = results
    right, count = right.mT if rows else right, values.shape[-1]
    if not left.shape[-1] or not right.shape[-1]:
        return values  # no vectors were asked for
    product = left[..., :count] * values.unsqueeze(-2) @ right[..., :count].mT
    return values, product, left.mT @ left, right.mT @ right


def _by_the_largest(result: Any) -> Any:
    """Elements that cancel are as exact as the largest."""
    return result / result.abs().amax([-2, -1], keepdim=True).clamp(min=1.0)


#: Results that are not one, as what of them is.
_UNIQUE: dict[str, Callable[[Any], Any]] = {
    "linalg.eigh": _of_eigenvectors,
    "svd": lambda results: _of_singular_vectors(results, False),
    "linalg.svd": lambda results: _of_singular_vectors(results, True),
    "matrix_exp": _by_the_largest,
    "linalg.matrix_exp": _by_the_largest,
}


def try_sample(count: Count, op: Any, sample: Any, path: Path) -> bool:
    inner = as_function(op)
    leaves, tree = tree_flatten(sample)
    at = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    tensors = tuple(leaves[k] for k in at)

    def function(*given: Tensor) -> Any:
        """The operator of its tensors; dtypes, numbers and axes are the program's."""
        filled = list(leaves)
        for k, tensor in zip(at, given, strict=True):
            filled[k] = tensor
        return inner(*tree_unflatten(filled, tree))

    try:
        with torch.no_grad():
            want = function(*copy.deepcopy(tensors))
    except Exception:
        return True  # eager has no result
    try:
        dlc.save(function, path, copy.deepcopy(tensors), check=False)
    except dlc.InternalError as error:
        count.wrong[op.full_name] = _why(error)
        return False
    except Exception as error:  # torch.export's too
        count.stay[op.full_name] = _why(error)
        return False
    try:
        model = dlc.load(path, tier="tcc")
        made = model(*copy.deepcopy(tensors))
        if model._signature.states:
            made = made[0]  # behind it are the arguments that were written
        if "empty" not in op.name:  # whose elements are not defined
            unique = _UNIQUE.get(op.full_name, lambda results: results)
            _close(unique(made), unique(want))
    except Exception as error:
        count.wrong[op.full_name] = _why(error)
        return False
    return True


def count_all(shard: Shard, names: str = "") -> Count:
    warnings.simplefilter("ignore")
    count, way = Count(), Way()
    with tempfile.TemporaryDirectory() as folder:
        for op in entries(way):
            if names not in op.full_name or not shard.visits(op.full_name, way):
                continue
            listed = samples(op, way)
            chosen = {digest(op.full_name, k) % len(listed) for k in range(SAMPLES)} if listed else set()
            if all(try_sample(count, op, listed[k], Path(folder) / "m.dlc") for k in sorted(chosen)):
                count.leave.append(op.full_name)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.files.leaving", description=__doc__)
    parser.add_argument(
        "--shard", type=Shard.parse, default="0/1", metavar="K/N", help="a part of the entries"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="entries with TEXT in their name")
    args = parser.parse_args()
    found = count_all(args.shard, args.only)
    print(found.text())
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

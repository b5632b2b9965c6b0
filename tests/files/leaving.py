"""How many entries of torch's database leave torch: python -m tests.files.leaving [--shard K/N] [--json FILE]

Two samples of each float32 entry are saved, loaded and compared with eager. An entry leaves if both do.
`--write FILE..` merges what `--json` has written of all shards, and writes the table of docs/files.md.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
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
PAGE = Path(__file__).resolve().parents[2] / "docs/files.md"
_BEGIN, _END = "<!-- written by python -m tests.files.leaving --write -->\n", "<!-- end -->"

#: Why an entry stays, and how the operator or the error begins by which it does: the first row that fits.
REASONS = {
    "it draws random numbers, and would draw others than torch": (
        "rand", "normal", "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "uniform",
        "multinomial", "native_dropout", "rrelu",
    ),
    "the size of its result, or what it does next, is data": (
        "nonzero", "masked_select", "unique", "repeat_interleave", "_local_scalar", "equal", "allclose",
        "DataDependent", "GuardOnDataDependent", "PendingUnbacked", "_ctc_loss",
    ),
    "linear algebra without a form in loops": ("linalg_", "DynamicOutputShapeException: aten.linalg"),
    "functions of two arguments without a formula": ("igamma", "special_zeta"),
    "histograms, segments and modes": ("histogram", "_histogramdd", "segment_reduce", "mode", "hash_tensor"),
    "memory, layouts and dtypes of torch's own": (
        "as_strided", "resize", "_to_copy", "CaptureError: aten._to_sparse",
    ),
}  # fmt: skip
OTHERS = "operators that have no program yet"


@dataclass
class Count:
    leave: list[str] = field(default_factory=list)
    stay: dict[str, str] = field(default_factory=dict)  # why
    wrong: dict[str, str] = field(default_factory=dict)  # dlc's fault: a result, or an error that is none

    def add(self, other: Count) -> None:
        self.leave += other.leave
        self.stay |= other.stay
        self.wrong |= other.wrong

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


def reason(why: str) -> str:
    """The row of the table for what `_why` says."""
    operator = re.sub(r"^(DynamicOutputShapeException: )?aten\.", "", why)
    fits = lambda begin: why.startswith(begin) or operator.startswith(begin)  # noqa: E731
    return next((row for row, begins in REASONS.items() if any(map(fits, begins))), OTHERS)


def table(found: Count) -> str:
    """In Markdown."""
    total = len(found.leave) + len(found.stay)
    rows: dict[str, list[str]] = {row: [] for row in (*REASONS, OTHERS)}
    for name, why in sorted(found.stay.items()):
        rows[reason(why)].append(name)
    lines = [
        f"Of {total} entries of PyTorch {torch.__version__.partition('+')[0]}'s database with float32, "
        f"{len(found.leave)} leave torch ({100 * len(found.leave) / total:.1f} %).",
        "",
        "| why the others stay | entries | |",
        "|---|---|---|",
    ]
    ordered = sorted(rows.items(), key=lambda row: -len(row[1]))
    lines += [
        f"| {row} | {len(names)} | {', '.join(f'`{n}`' for n in names)} |" for row, names in ordered if names
    ]
    return "\n".join(lines) + "\n"


def written() -> set[str]:
    """The entries that stay, of docs/files.md."""
    section = PAGE.read_text().partition(_BEGIN)[2].partition(_END)[0]
    return set(re.findall(r"`([^`]+)`", section))


def write(found: Count) -> None:
    head, _, rest = PAGE.read_text().partition(_BEGIN)
    PAGE.write_text(f"{head}{_BEGIN}\n{table(found)}\n{_END}{rest.partition(_END)[2]}")


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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what is found there too")
    parser.add_argument(
        "--write", type=Path, nargs="+", metavar="FILE", help="write the table of docs/files.md"
    )
    args = parser.parse_args()
    found = Count()
    for path in args.write or ():
        found.add(Count(**json.loads(path.read_text())))
    if args.write:
        write(found)
    else:
        found = count_all(args.shard, args.only)
    if args.json:
        args.json.write_text(json.dumps(asdict(found)))
    print(found.text())
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

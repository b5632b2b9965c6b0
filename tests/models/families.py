"""Which way the families of the transformers library take: python -m tests.models.families [NAME...]

Each family is built from a small configuration, in a process of its own, and called in several ways: with and
without a mask of padding, decoders also with caches. Each way is compiled for its sizes (static), with
dynamic=True, and with the axes of its inputs marked. What is found (kinds of graphs, why a graph went through
AOTAutograd, graph breaks, results that differ from eager's) is kept in build/families; --page writes
docs/families.md from it.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from packaging.version import Version
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dlc.report import collect
from tests.models.family_list import CACHED, FAMILIES, Family
from tests.tolerance import assert_program, double

ROOT = Path(__file__).resolve().parents[2]
#: What was found, a folder for each version of the library.
FOUND, PAGE = ROOT / "build" / "families", ROOT / "docs" / "families.md"

CASES = ("bare", "masked", "dynamic cache", "static cache")
WAYS = ("static", "dynamic", "marked")
LENGTH, BATCH, ROOM = 12, 2, 32

Call, Results = dict[str, Any], dict[str, Tensor]


def build(family: Family) -> nn.Module:
    """The model in evaluation mode."""
    torch.manual_seed(0)
    config = getattr(transformers, family.config)(**family.arguments)
    return getattr(transformers, family.model)(config).eval()


def exact(model: nn.Module) -> nn.Module:
    """A copy in float64."""
    return copy.deepcopy(model).double()


def tokens(seed: int, length: int) -> Tensor:
    return torch.randint(3, 60, (BATCH, length), generator=torch.Generator().manual_seed(seed))


def padding(length: int) -> Tensor:
    """A mask in which the last tokens of the second text are missing."""
    mask = torch.ones(BATCH, length, dtype=torch.long)
    mask[1, -3:] = 0
    return mask


def features(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(BATCH, *shape, generator=torch.Generator().manual_seed(1))


def inputs(family: Family, seed: int = 0) -> Call:
    """What the model is called with."""
    given: Call = {}
    if family.kind != "vision" and family.main == "input_ids":
        given["input_ids"] = tokens(seed, LENGTH)
    if family.shape:
        given[family.main] = features(family.shape)
    if family.kind == "encoder-decoder":
        given["decoder_input_ids"] = tokens(seed + 1, LENGTH - 3)
    return given


def cache_of(model: nn.Module, kind: str) -> Any:
    config = model.config
    if kind == "dynamic cache":
        return transformers.DynamicCache(config=config)
    cache = transformers.StaticCache(config=config, max_cache_len=ROOM)
    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    parameter = next(model.parameters())
    cache.early_initialization(BATCH, heads, size, parameter.dtype, torch.device("cpu"))
    return cache


def calls(family: Family, model: nn.Module, case: str) -> Iterator[Call]:
    """The calls of a case, one after another."""
    given = inputs(family)
    if case == "bare":
        yield given | ({"use_cache": False} if family.caches else {})
    elif case == "masked":
        yield given | {"attention_mask": padding(LENGTH)} | ({"use_cache": False} if family.caches else {})
    else:
        cache = cache_of(model, case)
        for seed, length in enumerate((LENGTH, 1)):
            yield {"input_ids": tokens(seed, length), "past_key_values": cache, "use_cache": True}


def tensors(result: Any) -> dict[str, Tensor]:
    """What the model returns, but for the cache."""
    found: dict[str, Tensor] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            found[name] = value.detach().clone()
        elif isinstance(value, (tuple, list)):
            for k, item in enumerate(value):
                add(f"{name}[{k}]", item)

    for key, value in result.items():
        if key not in CACHED:
            add(key, value)
    return found


def run(family: Family, model: nn.Module, case: str, way: str | None, call: Any) -> dict[str, Tensor]:
    """Results of all calls of a case."""
    results: dict[str, Tensor] = {}
    for k, given in enumerate(calls(family, model, case)):
        if next(model.parameters()).dtype == torch.float64:
            given = double(given)
        if way == "marked":
            mark(given)
        results |= {f"call {k}: {name}": t for name, t in tensors(call(**given)).items()}
    return results


def mark(given: Call) -> None:
    """Batch and length of texts, the batch of images and sounds."""
    for value in given.values():
        if isinstance(value, Tensor) and value.shape[-1] > 1:
            axes = range(value.dim()) if value.dtype == torch.long else (0,)
            for axis in axes:
                torch._dynamo.maybe_mark_dynamic(value, axis)


def cases(family: Family) -> list[str]:
    return ["bare"] + (["masked"] if family.masks else []) + [f"{c} cache" for c in family.caches]


def one(family: Family, model: nn.Module, case: str, way: str, want: list[Results]) -> dict[str, Any]:
    """What became of one case, compiled one way; want: eager's results, and the exact ones if
    there are any."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    found: dict[str, Any] = {"case": case, "way": way, "wrong": None}
    with torch.no_grad(), collect() as reports:
        options = {"tier": "tcc", "cache": False}
        dynamic = True if way == "dynamic" else None
        compiled = torch.compile(model, backend="dlc", dynamic=dynamic, options=options)
        try:
            actual = run(family, model, case, way, compiled)
            if len(want) == 2:
                assert_program(actual, *want)
            else:
                torch.testing.assert_close(actual, *want)
        except Exception as error:
            found["wrong"] = f"{type(error).__name__}: {error}"[:400]
    found["kinds"] = [r["kind"] for r in reports if r["kind"] != "body"]
    found["why"] = [r["indirect"] for r in reports if r.get("indirect")]
    found["eager"] = [r["error"] for r in reports if r.get("error")]
    breaks = torch._dynamo.utils.counters["graph_break"]
    found["breaks"] = {str(k).strip().splitlines()[0][:200]: n for k, n in breaks.items()}
    return found


class AllDouble(TorchFunctionMode):
    """What a model asks for in float32, whatever its parameters are, is float64: positions, routers."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        wide = {torch.float32: torch.float64}
        given = {
            key: wide.get(value, value) if key == "dtype" else value for key, value in (kwargs or {}).items()
        }
        function = torch.Tensor.double if function is torch.Tensor.float else function
        return function(*(wide.get(a, a) if isinstance(a, torch.dtype) else a for a in args), **given)


def wanted(family: Family, model: nn.Module, case: str) -> list[Results]:
    """Eager's results, and those of float64 unless an operator has none of that."""
    with torch.no_grad():
        eager, truth = run(family, model, case, None, model), exact(model)
        torch.set_default_dtype(torch.float64)
        try:
            with AllDouble():
                return [eager, run(family, truth, case, None, truth)]
        except RuntimeError:
            return [eager]
        finally:
            torch.set_default_dtype(torch.float32)


def kept(name: str, version: str = transformers.__version__) -> list[dict[str, Any]]:
    """What has been found of a family in a version of the library."""
    path = FOUND / version / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def child(name: str, only: list[str], missing: bool) -> None:
    """Runs a family; what is found is kept as soon as it is there."""
    family, rows = FAMILIES[name], {(r["case"], r["way"]): r for r in kept(name)}
    chosen = [(c, w) for c in cases(family) for w in WAYS if _is_meant(only, c, w)]
    chosen = [key for key in chosen if not missing or key not in rows]
    if not chosen:
        return
    model, want = build(family), dict[str, list[Results]]()
    folder = FOUND / transformers.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for case, way in chosen:
        if case not in want:
            want[case] = wanted(family, model, case)
        rows[case, way] = one(family, model, case, way, want[case])
        print(text(name, rows[case, way]), flush=True)
        (folder / f"{name}.json").write_text(json.dumps(list(rows.values())))


def _is_meant(only: list[str], case: str, way: str) -> bool:
    """Is there no word about cases, or this one, and of ways likewise?"""
    return all(not set(only) & set(words) or word in only for word, words in ((case, CASES), (way, WAYS)))


def is_direct(row: dict[str, Any]) -> bool:
    return bool(row["kinds"]) and set(row["kinds"]) == {"direct"} and not row["eager"]


def text(name: str, row: dict[str, Any]) -> str:
    counts = Counter(row["kinds"])
    line = f"{name:14} {row['case']:14} {row['way']:8} {dict(counts)}"
    reasons = sorted(set(row["why"] + row["eager"])) + list(row["breaks"])
    return "\n    ".join([line, *reasons, *([f"WRONG {row['wrong']}"] if row["wrong"] else [])])


# -- the page ------------------------------------------------------------------------------------------

_HEAD = """# Families of transformers

Written by `python -m tests.models.families --page` for transformers {versions}, PyTorch {torch}; to test
another version, set `PYTHONPATH` to a folder of `pip install --target`. Each family is built from a small
configuration and called without gradients: *bare*, with a *mask* of padding, and, if it is a decoder, twice
with one *dynamic* or *static cache*. Each call is compiled in three ways: for its sizes, with `dynamic=True`,
and with its axes marked as dynamic. A cell gives the number of graphs that went through AOTAutograd in each
way: `direct` means none, and `-` means that the family has no such call. If not all ways were run, the cell
names those that were. Results were compared with eager's. Below each table are the reasons why graphs went
through AOTAutograd or were broken.
"""

_SECTION = """
## transformers {version}

In every call that was run, {direct} of {all} families are compiled directly; without caches, {plain}.
{complete} families were run in all ways.

| family | kind | bare | masked | dynamic cache | static cache |
|---|---|---|---|---|---|
"""


def _cell(family: Family, case: str, rows: list[dict[str, Any]]) -> str:
    if case not in cases(family):
        return "-"
    indirect = [sum(kind != "direct" for kind in row["kinds"]) for row in rows]
    broken = sum(sum(row["breaks"].values()) for row in rows)
    if any(row["wrong"] for row in rows):
        return "**wrong**"
    if not rows:
        return "not run"
    word = "AOTAutograd: " + ", ".join(map(str, indirect)) if any(indirect) else "direct"
    if len(rows) < len(WAYS):
        word += f" ({', '.join(row['way'] for row in rows)} only)"
    return word + (" (graph breaks)" if broken else "")


def _reasons(name: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for row in rows:
        reasons = [*row["why"], *row["eager"], *(f"graph break: {b}" for b in row["breaks"]), row["wrong"]]
        for reason in filter(None, reasons):
            first, *_ = str(reason).splitlines()
            found.setdefault(first, []).append(row["case"])
    for reason, where in found.items():
        yield f"- {name}, {', '.join(dict.fromkeys(where))}: {reason}"


def section(version: str) -> str:
    """The table of a version, and its reasons."""
    found = {name: rows for name in FAMILIES if (rows := kept(name, version))}
    whole = [n for n, rows in found.items() if all(map(is_direct, rows))]
    plain = [n for n, rows in found.items() if all(is_direct(r) for r in rows if "cache" not in r["case"])]
    head = _SECTION.format(
        version=version,
        direct=len(whole),
        plain=len(plain),
        all=len(found),
        complete=sum(len(rows) == len(WAYS) * len(cases(FAMILIES[n])) for n, rows in found.items()),
    )
    lines = []
    for name, rows in found.items():
        family = FAMILIES[name]
        cells = (_cell(family, case, [r for r in rows if r["case"] == case]) for case in CASES)
        lines.append(f"| {name} | {FAMILIES[name].kind} | {' | '.join(cells)} |")
    reasons = [line for name, rows in found.items() for line in _reasons(name, rows)]
    return head + "\n".join([*lines, "", *reasons]) + "\n"


def page() -> str:
    """The page, of what the runs of each version have left in build/families."""
    versions = sorted((p.name for p in FOUND.iterdir() if p.is_dir()), key=Version)
    head = _HEAD.format(versions=" and ".join(versions), torch=torch.__version__.split("+")[0])
    return head + "".join(map(section, versions))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.models.families", description=__doc__)
    parser.add_argument("names", nargs="*", help="of families; all without one")
    parser.add_argument("--only", action="append", default=[], help="this case or way alone, for a look")
    parser.add_argument("--missing", action="store_true", help="what has not been found yet")
    parser.add_argument("--page", action="store_true", help="write docs/families.md from what was found")
    args = parser.parse_args()
    if args.page:
        PAGE.write_text(page())
        return
    processes = multiprocessing.get_context("fork")  # what is imported is there
    for name in args.names or FAMILIES:
        process = processes.Process(target=child, args=(name, args.only, args.missing))
        process.start()
        process.join()


if __name__ == "__main__":
    main()

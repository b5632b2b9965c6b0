"""The programs of the corpus, captured anew: python -m tests.replay.collect

Each is the graph-stage text of one graph: of the functions of `python -m benchmarks kernels` and of the
models of the examples in their small size, with sizes that are symbols and with numbers, in evaluation and,
of the models, in training. Equal texts are kept once. The corpus is captured anew when capture has changed
and its new programs are to be replayed too; that changes every digest of these programs.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from torch import Tensor
from tqdm import tqdm

from benchmarks.cases import CASES
from benchmarks.peers import own_code
from dlc.report import collect
from examples.programs import MODELS

CORPUS = Path(__file__).parent / "corpus"
ELEMENTS = {True: 800_000, False: 1 << 22}  # of a case: hardly two sizes are equal; powers of two
TENSORS = {"adam_of_100": 12}  # of a hundred equal parameters, three; each is four tensors
WAYS = {True: "dynamic", False: "static"}


def total(result: Any) -> Tensor:
    """The sum of all the floating tensors that a model returns."""
    if isinstance(result, (tuple, list)):
        return torch.stack([total(part) for part in result]).sum()
    return result.sum()


def graphs(call: Callable[..., Any], inputs: tuple[Any, ...], dynamic: bool, train: bool) -> list[str]:
    """The texts of the graphs that one call compiles; train: and its backward pass."""
    torch._dynamo.reset()
    options = {"tier": "tcc", "cache": False, "strict": True}
    compiled = torch.compile(call, backend="dlc", dynamic=dynamic, options=options)
    with collect() as reports, torch.set_grad_enabled(train):
        made = compiled(*inputs)
        if train:
            total(made).backward()
    return [report["graph"] for report in reports]


def cases(dynamic: bool) -> Iterator[tuple[str, list[str]]]:
    for case in CASES:
        inputs = case.arguments(ELEMENTS[dynamic])[: TENSORS.get(case.name)]
        yield case.title, graphs(own_code(case.call), inputs, dynamic, case.train)


def models(dynamic: bool) -> Iterator[tuple[str, list[str]]]:
    for name, about in MODELS.items():
        for train in (False, True):
            model = about.build(small=True).train(train)
            found = graphs(model, about.arguments(small=True), dynamic, train)
            yield f"{name} in training" if train else name, found


def anonymous(text: str) -> str:
    """Without the nodes and lines that lets come from, and with short names for long ones."""
    text = re.sub(r"[ ]*@\S+(?: \"[^\"]*\")?$", "", text, flags=re.MULTILINE)
    long = dict.fromkeys(re.findall(r"\b[a-z_]\w{20,}\b", text))
    short = {name: f"long{k}" for k, name in enumerate(long)}
    return re.sub(r"\b[a-z_]\w{20,}\b", lambda found: short[found[0]], text)


def main() -> int:
    argparse.ArgumentParser(prog="python -m tests.replay.collect", description=__doc__).parse_args()
    CORPUS.mkdir(exist_ok=True)
    for old in CORPUS.glob("*.dlc"):
        old.unlink()
    seen: set[str] = set()
    for dynamic in (True, False):
        for family in (cases, models):
            label = f"{WAYS[dynamic]} {family.__name__}"
            for title, texts in tqdm(family(dynamic), desc=label, disable=None):
                for k, text in enumerate(map(anonymous, texts)):
                    if text not in seen:
                        seen.add(text)
                        name = f"{title} {WAYS[dynamic]} {k}".replace(" ", "_")
                        (CORPUS / f"{name}.dlc").write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Torch's modules, every sample, training and not, eager against compiled: python -m tests.ops.modules

What fails with the backend aot_eager in the same words is not this compiler's doing; a run of all modules
lists it in not_counted_modules.md.
"""

import argparse
import copy
import functools
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from tqdm import tqdm

from tests.ops.check import SEED, arranged, compare, derived, first_line
from tests.tolerance import double

NOT_COUNTED = Path(__file__).parent / "not_counted_modules.md"
Compiler = Callable[..., Any]


def same(value: Any) -> Any:
    return value


def doubled(tree: Any) -> Any:
    return arranged(double(tree), "contiguous")


def peer(target: Any) -> Any:
    """The captured operators as they are."""
    return torch.compile(target, backend="aot_eager")


def inputs(info: ModuleInfo, training: bool) -> list[ModuleInput]:
    torch.manual_seed(SEED)
    made = info.module_inputs_func(info, "cpu", torch.float32, requires_grad=True, training=training)
    return [sample for sample in made if sample.forward_input is not None]


def step(
    info: ModuleInfo, sample: ModuleInput, training: bool, compiler: Compiler, as_dtype: Compiler = same
) -> Any:
    """The result, the gradients of weights and inputs, and the buffers afterwards."""
    torch.manual_seed(SEED)
    module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    module = module.to(as_dtype(torch.zeros(1)).dtype).train(training)
    forward = sample.forward_input
    args, kwargs = as_dtype(copy.deepcopy(arranged((forward.args, dict(forward.kwargs)), "contiguous")))
    torch.manual_seed(SEED)
    result = compiler(module)(*args, **kwargs)
    weights = [p for p in module.parameters() if p.requires_grad]
    return result, derived(result, (args, kwargs, weights)), [b.clone() for b in module.buffers()]


def failure(info: ModuleInfo, sample: ModuleInput, training: bool, compiler: Compiler) -> str | None:
    """Why the compiled module does not do what eager does; no sample sees what Dynamo learned of another."""
    torch._dynamo.reset()
    run = functools.partial(step, info, sample, training)
    eager = run(same)
    try:
        compare(run(compiler), eager, lambda: run(same, doubled), True)
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return None


def is_shared(info: ModuleInfo, sample: ModuleInput, training: bool, reason: str) -> bool:
    """Does aot_eager fail so too?"""
    return failure(info, sample, training, peer) == reason


def not_counted(shared: Counter[tuple[str, str, str]], totals: Counter[tuple[str, str]]) -> str:
    lines = [
        "# Samples of modules that do not count",
        "",
        'Written by `python -m tests.ops.modules`. These fail with `backend="aot_eager"` as well, in the',
        "same words.",
        "",
        "| module | mode | samples | reason |",
        "|---|---|---|---|",
    ]
    for (name, mode, reason), count in sorted(shared.items()):
        text = reason.replace("|", "\\|")[:160]
        lines.append(f"| {name} | {mode} | {count} of {totals[name, mode]} | {text} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ops.modules", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="modules with TEXT in their name")
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    def compiler(target: Any) -> Any:
        return torch.compile(target, backend="dlc", options={"strict": True, "tier": "tcc"})

    own, shared, totals = list[str](), Counter[tuple[str, str, str]](), Counter[tuple[str, str]]()
    for info in tqdm([i for i in module_db if args.only in i.formatted_name], disable=None):
        for training in (True, False):
            key = info.formatted_name, "training" if training else "evaluation"
            for sample in inputs(info, training):
                totals[key] += 1
                reason = failure(info, sample, training, compiler)
                if reason is not None and is_shared(info, sample, training, reason):
                    shared[(*key, reason)] += 1
                elif reason is not None:
                    own.append(f"{' '.join(key)}: {reason}")
    print("\n".join(own))
    print(
        f"{len({name for name, _ in totals})} modules, {totals.total()} samples: {len(own)} fail; "
        f"{shared.total()} more fail with aot_eager too"
    )
    if not args.only:
        NOT_COUNTED.write_text(not_counted(shared, totals))
    return bool(own)


if __name__ == "__main__":
    sys.exit(main())

"""Options that others have, and values that are nearly right: the message says what to write."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import dlc
from dlc.options import parse

NAMES = {
    "max_autotune": "{'tune': True} is dlc's",
    "freezing": "{'freeze': True} is dlc's",
    "threads": "torch.set_num_threads(n)",
    "fullgraph": "an argument of torch.compile",
    "constant": "constants=True is an argument of dlc.jit",
    "cache_dir": "{'cache': '~/folder'}",
    "debug": "{'dump': 'all'}",
    "memory_limits": "did you mean 'memory_limit'?",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_another_compilers_option(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^unknown dlc option '{name}' \(.*{re.escape(NAMES[name])}"):
        parse({name: True})


def test_a_mode_that_is_nearly_one() -> None:
    with pytest.raises(ValueError, match=r"unknown mode 'max-autotun' \(did you mean 'max-autotune'\?\)"):
        parse(None, "max-autotun")


VALUES = {
    "tier": ("clang", r"not 'clang': write \{'tier': 'gcc', 'cc': 'clang'\}$"),
    "products": ("libary", r"not 'libary': did you mean 'library'\?$"),
    "capture": ("Direct", r"not 'Direct': did you mean 'direct'\?$"),
    "verify": ("runs", r"not 'runs': did you mean 'run'\?$"),
    "fuel": ("7", r"not '7': write 7, without quotes$"),
    "tune_budget": ("2.5", r"not '2\.5': write 2\.5, without quotes$"),
    "dump": ("fuses", r"not 'fuses': did you mean 'fuse'\?$"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_is_nearly_one(name: str) -> None:
    value, said = VALUES[name]
    with pytest.raises(ValueError, match=said):
        parse({name: value})


@pytest.mark.parametrize("fn", [lambda x: x + 1, torch.nn.Linear(2, 2).eval()])
def test_a_limit_that_dlc_jit_does_not_keep(fn: Any) -> None:
    with pytest.raises(ValueError, match=r"dlc\.jit does not take dlc option 'memory_limit'.* leave it out"):
        dlc.jit(fn, memory_limit="1M")


def test_a_limit_that_a_saved_function_does_not_keep() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="dlc", fullgraph=True, options={"memory_limit": 9})
    with pytest.raises(Exception, match="aot_compile does not take dlc option 'memory_limit'"):
        compiled.aot_compile(((torch.ones(3),), {}))

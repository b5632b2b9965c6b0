"""Values that an option does not take were taken in silence: freeze="yes" was True, cache="no" False."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

import dlc
from dlc import magics, option_values
from dlc.options import Options, parse
from tests.fresh import run_module

WRONG = [
    *[
        (name, word)
        for name in ("strict", "verify", "tune", "freeze")
        for word in ("yes", "no", "", 1, 0, None)
    ],
    *[("cache", value) for value in ("no", "yes", "off", "1", "", 0, None, 2.5)],
    *[("fuel", value) for value in ("7", 1.5, True, None, "much")],
    *[("memory_budget", value) for value in ("0.5", True, 1.5, float("nan"), None)],
    *[("memory_limit", value) for value in (-1, 1.5, True, "512 apples", "")],
    *[("tune_budget", value) for value in ("20", -1, float("inf"), False, None)],
    *[(name, value) for name in ("tier", "capture", "products") for value in ("", None, True, "Auto")],
    *[(name, value) for name in ("cc", "dump") for value in (1, True, ["gcc"])],
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=str)
def test_what_an_option_does_not_take(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"dlc option '{name}' (is|has) .*, not ") as raised:
        parse({name: value})
    assert repr(value) in str(raised.value)


def test_a_word_is_told_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"not 'yes': write True$"):
        parse({"freeze": "yes"})
    with pytest.raises(ValueError, match=r"not 'no': write False, or '\./no' for a folder of that name"):
        parse({"cache": "no"})


def test_every_option_has_a_row() -> None:
    assert list(option_values.TABLE) == [field.name for field in dataclasses.fields(Options)]
    for field in dataclasses.fields(Options):
        assert option_values.take(field.name, field.default) == field.default


def test_numbers_of_numpy_are_numbers() -> None:
    options = parse({"fuel": np.int64(3), "memory_budget": np.float32(0.5), "memory_limit": np.int32(7)})
    assert (options.fuel, options.memory_budget, options.memory_limit) == (3, 0.5, 7)


def test_variables_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"FREEZE": "yes", "CACHE": "no", "FUEL": "7", "TUNE_BUDGET": "2"}.items():
        monkeypatch.setenv(f"DLC_{name}", text)
    options = parse(None)
    assert (options.freeze, options.cache, options.fuel, options.tune_budget) == (True, False, 7, 2.0)


def test_words_of_a_magic() -> None:
    found, rest = magics._options("-o freeze=True -o fuel=3 -o tier=tcc f(x)")
    assert (found, rest) == ({"freeze": True, "fuel": 3, "tier": "tcc"}, "f(x)")


@pytest.mark.parametrize("make", [lambda f: dlc.jit(f, freeze="no"), lambda f: dlc.jit(f, constants="no")])
def test_a_function_of_dlc_jit(make: Any) -> None:
    with pytest.raises(ValueError, match="not 'no'"):
        make(lambda x: x + 1)


def test_explain_refuses_them_too() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="write False"):
        dlc.explain(lambda x: x + 1, torch.ones(2), options={"freeze": "no"})


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("text", ["abc", "-1", "nan", "inf", ""])
def test_the_size_to_trim_to(text: str) -> None:
    done = run_module("dlc", "cache", "trim", "--", text)
    assert done.returncode == 2 and f"{text!r} is no number of MiB: write one from 0 on" in done.stderr

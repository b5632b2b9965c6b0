"""Of two threads that saved, the later one noted the change of a registry, and torch mixed up the traces."""

import threading
from pathlib import Path

import pytest
import torch
from torch._higher_order_ops.effects import _get_effect

import dlc
from dlc.files.capture import _without_checks

NAME = "aten::_linalg_check_errors"


def test_the_registry_is_as_it_was() -> None:
    before = _get_effect(NAME)
    assert before is not None
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with _without_checks():
            entered.set()
            left.wait(10)
            assert _get_effect(NAME) is None

    thread = threading.Thread(target=other)
    with _without_checks(), _without_checks():
        thread.start()
        assert not entered.wait(0.2)
        assert _get_effect(NAME) is None
    assert entered.wait(10)
    left.set()
    thread.join()
    assert _get_effect(NAME) is before


def test_what_raises_puts_it_back() -> None:
    before = _get_effect(NAME)
    with pytest.raises(KeyError), _without_checks():
        raise KeyError
    assert _get_effect(NAME) is before


def test_threads_that_save(tmp_path: Path) -> None:
    found: dict[int, torch.Tensor] = {}

    def one(k: int) -> None:
        a = torch.eye(3 + k) * 2
        dlc.save(lambda a: torch.linalg.inv(a) + k, tmp_path / f"{k}.dlc", (a,), check=False)
        found[k] = dlc.load(tmp_path / f"{k}.dlc", tier="tcc")(a)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(3):
        torch.testing.assert_close(found[k], torch.eye(3 + k) / 2 + k)

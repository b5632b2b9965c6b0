"""The limits of the machine are kept, and a measurement that is disturbed says so."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dlc
from dlc.report import machine as limits
from dlc.report.machine import Machine, Watch, measured_machine
from dlc.report.model import Step, share_text
from dlc.report.text import doubts


@pytest.fixture
def forgotten() -> Iterator[None]:
    """As in a process that has measured nothing."""
    known = dict(limits._machines)
    limits._machines.clear()
    yield
    limits._machines.clear()
    limits._machines.update(known)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


def stored(folder: Path) -> dict[str, Any]:
    (row,) = json.loads((folder / "limits.json").read_text()).values()
    return row


def store(folder: Path, **fields: Any) -> None:
    rows = json.loads((folder / "limits.json").read_text())
    (key,) = rows
    rows[key].update(fields)
    (folder / "limits.json").write_text(json.dumps(rows))


def test_limits_are_kept(folder: Path, forgotten: None) -> None:
    first = measured_machine(str(folder))
    assert min(first.bandwidth, first.flops) > 0 and 0 <= first.launch < 1e-3
    assert first.date == time.strftime("%Y-%m-%d") and stored(folder) == dataclasses.asdict(first)
    store(folder, disturbed=False, flops=123.0)
    limits._machines.clear()
    assert measured_machine(str(folder)).flops == 123.0  # it is read, not measured


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(
    "wrong",
    [{"date": "2001-01-01"}, {"flops": -1.0}, {"date": "today"}, {"more": 1}, {"speeds": [1.0]}],
    ids=str,
)
def test_what_is_old_or_damaged_is_measured_again(
    wrong: dict[str, Any], folder: Path, forgotten: None
) -> None:
    measured_machine(str(folder))
    store(folder, **{"disturbed": False, "bandwidth": 1e30} | wrong)
    limits._machines.clear()
    assert measured_machine(str(folder)).bandwidth < 1e20
    assert "more" not in stored(folder)


def test_a_file_that_is_no_json(folder: Path, forgotten: None) -> None:
    (folder / "limits.json").write_text("{")
    assert measured_machine(str(folder)).flops > 0 and stored(folder)["flops"] > 0


def test_a_busy_machine_does_not_lower_a_limit(folder: Path, forgotten: None) -> None:
    measured_machine(str(folder))
    store(folder, disturbed=True, bandwidth=1e30, flops=1.0)
    limits._machines.clear()
    again = measured_machine(str(folder))
    assert again.bandwidth == 1e30 and again.flops > 1.0


def test_without_a_cache_nothing_is_kept(forgotten: None) -> None:
    assert measured_machine("").flops > 0
    assert limits._place("") is None


def test_the_cache_has_kernels_alone(folder: Path, forgotten: None) -> None:
    measured_machine(str(folder))
    assert dlc.cache.describe(folder).startswith("0 kernels")


# -- what is printed -----------------------------------------------------------------------------------

PLAIN = Step("k0", "kernel", (), (), 1e-6, 500, 1000, False, "gcc", "own", "")
QUIET = Machine("", "", 1, 1e9, 1e12)


def test_a_share_above_all_is_no_share() -> None:
    step = dataclasses.replace(PLAIN, operations=2_500_000)
    assert step.is_beyond(QUIET) and share_text(step, QUIET) == ""
    assert not PLAIN.is_beyond(QUIET) and share_text(PLAIN, QUIET) == "50 %"
    almost = dataclasses.replace(PLAIN, operations=1_010_000)
    assert not almost.is_beyond(QUIET) and share_text(almost, QUIET) == "100 %"


def test_the_start_of_a_kernel_counts() -> None:
    assert share_text(dataclasses.replace(PLAIN, bytes=4), dataclasses.replace(QUIET, launch=8e-7)) == "80 %"


def test_products_of_few_bits_have_no_share() -> None:
    step = dataclasses.replace(PLAIN, operations=2_500_000, product="library", kind="library", narrow=True)
    assert share_text(step, QUIET) == "" and not step.is_beyond(QUIET)


@pytest.fixture(scope="module")
def report() -> Any:
    a, b = torch.randn(96, 96), torch.randn(96, 96)
    with torch.no_grad():
        return dlc.explain(lambda a, b: (a @ b).relu() @ b, a, b)


def quiet(report: Any, **fields: Any) -> Any:
    machine = dataclasses.replace(report.machine, disturbed=False, **fields)
    return dataclasses.replace(report, disturbed="", machine=machine)


@pytest.mark.in_turn(3)
def test_a_disturbed_report_says_so(report: Any) -> None:
    busy = dataclasses.replace(quiet(report), disturbed="other programs used 1.9 processors")
    text = str(busy)
    assert "on a busy machine" in busy.headline() and "copy bandwidth" not in busy.headline()
    assert "disturbed: other programs used 1.9 processors while this was measured" in text
    rows = [line for line in text.splitlines() if line.lstrip().startswith("k0 ")]
    assert rows and not any("%" in line for line in rows)
    assert "other programs used 1.9" in busy._repr_html_() and "Roofline" not in busy._repr_html_()


def test_limits_of_a_busy_machine_are_none(report: Any) -> None:
    machine = dataclasses.replace(report.machine, disturbed=True)
    busy = dataclasses.replace(report, disturbed="", machine=machine)
    assert busy.limits is None and busy.beyond == [] and "measured again next time" in str(machine)


def test_a_step_that_cannot_be_is_named(report: Any) -> None:
    wrong = quiet(report, flops=1.0)
    assert [step.name for step in wrong.beyond] == [
        step.name for step in wrong.graphs[0].steps if step.operations
    ]
    assert any("not believed: k0" in line and "please report it" in line for line in doubts(wrong))


@pytest.mark.in_turn(3)
def test_loops_that_only_start_have_no_share() -> None:
    report = quiet(dlc.explain(lambda x: x.exp().sum(), torch.ones(4)), launch=1e-6, bandwidth=1e10)
    assert "copy bandwidth" not in report.headline()


PROGRAMS = {
    "own": (lambda a, b: a @ b, {"products": "own"}),
    "library": (lambda a, b: a @ b, {"products": "library"}),
    "fused": (lambda a, b: torch.tanh(a @ b + 1) @ b, {}),
    "vector": (lambda a, b: a[0] @ b, {}),
    "batch": (lambda a, b: torch.bmm(a.expand(3, -1, -1), b.expand(3, -1, -1)), {}),
    "attention": (lambda a, b: F.scaled_dot_product_attention(a[None], b[None], b[None]), {}),
}  # fmt: skip


@pytest.mark.in_turn(10)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_product_is_faster_than_the_processor(name: str, dtype: torch.dtype) -> None:
    f, options = PROGRAMS[name]
    a, b = torch.randn(160, 160).to(dtype), torch.randn(160, 160).to(dtype)
    with torch.no_grad():
        report = dlc.explain(f, a, b, options=options)
    assert report.beyond == [], str(report)


def test_names_of_several_graphs_are_explained(report: Any) -> None:
    both = dataclasses.replace(report, graphs=report.graphs * 2)
    said = "beside lines of the source, Ak0 is kernel k0 of graph A"
    assert said in str(both) and said not in str(report)
    key = "<b class='kernel'>Ak0</b> computed by kernel k0 of graph A"
    assert key in both._repr_html_() and key not in report._repr_html_()


def test_the_axis_of_the_roofline_has_a_unit(report: Any) -> None:
    page = quiet(report)._repr_html_()
    assert ">GFLOP/s</text>" in page and " G/s</text>" not in page


# -- what disturbs -------------------------------------------------------------------------------------


def test_other_programs_are_seen() -> None:
    """Two that compute, in other processes."""
    loop = "import time\nend = time.time() + 20\nwhile time.time() < end: pass"
    others = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(2)]
    try:
        time.sleep(1.0)
        watch = Watch()
        time.sleep(1.0)
        assert "other programs used" in watch.busy()
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_unlike_calls_are_seen() -> None:
    assert "half of the calls took 3.0 times as long" in Watch().busy([1.0, 3.0, 3.0, 4.0])
    assert "calls" not in Watch().busy([1.0, 1.1, 1.2, 9.0]) and "calls" not in Watch().busy([])

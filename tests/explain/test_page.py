"""The page of a real model: each break once, legends of marks and pictures, units, memory, own lines."""

from __future__ import annotations

import dataclasses
import re
from html import unescape
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dlc
from dlc.report.model import Machine, file_name, own_line
from dlc.report.page import document
from dlc.report.picture import roofline

MACHINE = Machine("a quiet one", "", 1, bandwidth=2e10, flops=1e11, launch=1e-6)


class Block(nn.Module):
    """It is called in a loop, has a branch on data, and convolves by the library."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.down, self.conv = nn.Linear(4 * width, width), nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(self.norm(x))
        if h.sum() > 1e9:
            h = h / 2
        h = self.down(nn.functional.gelu(h))
        return x + self.conv(h.transpose(1, 2)).transpose(1, 2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(16) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture(scope="module")
def report() -> Any:
    with torch.no_grad():
        made = dlc.explain(Net(), torch.randn(2, 20, 16))
    return dataclasses.replace(made, machine=MACHINE, disturbed="")  # whatever ran beside this


@pytest.fixture(scope="module")
def page(report: Any) -> str:
    return unescape(re.sub(r"<style>.*?</style>", "", document(report), flags=re.DOTALL))


def test_a_break_is_said_once(report: Any, page: str) -> None:
    """Dynamo tells of it as a break of the block, and as the reason why the loop around it is skipped."""
    assert len(report.breaks) > len(report.stops) == 1
    assert page.count("asks for the values of a tensor") == 1
    assert page.count("<div class='stop'>") == 1 and "break 1: " in page
    assert page.count("<span class='break'>break 1</span>") == 1  # its line
    assert report.headline().endswith("1 graph break")


def test_a_break_that_is_met_again_has_the_number_of_times(report: Any) -> None:
    (stop,) = report.stops
    again = dataclasses.replace(report, breaks=[*report.breaks, stop.first])
    assert [s.times for s in again.stops] == [stop.times + 1]
    assert f"({stop.times + 1} times)" in document(again)


def test_every_mark_is_in_the_legend(page: str) -> None:
    key = re.search(r"Marks beside the source: (.*?)</p>", page)
    assert key
    marked = set(re.findall(r"<span class='(\w+)", page)) - {"dim"}
    assert marked == {"kernel", "library", "break"}
    assert set(re.findall(r"<b class='(\w+)'>", key[1])) == marked
    assert "Ak0</b> computed by kernel k0 of graph A" in key[1]


def test_a_report_without_marks_has_no_legend() -> None:
    from dlc.report.model import Report

    assert "Marks beside" not in document(Report([]))


def test_pictures_have_units_and_legends(page: str) -> None:
    assert page.count("aria-label='roofline'") == page.count(">operations per byte moved<") > 1
    assert page.count("aria-label='roofline'") == page.count(">GFLOP/s<")
    assert page.count("aria-label='memory over a call'") == page.count(">bytes alive<")
    assert page.count(">steps of the call, in order<") == page.count("dashed line</b> the step with the most")
    assert "&#9679;</b> kernels" in page or "●</b> kernels" in page
    assert "memory (20.0 GB/s)" in page and "processor (100 GFLOP/s)" in page


def test_peak_and_workspace_are_in_the_page(report: Any, page: str) -> None:
    text = str(report)
    for line in re.findall(r"^  ((?:workspace|peak|inside of a call): .*)$", text, re.MULTILINE):
        assert f"<p class='dim'>{line}</p>" in page
    assert "workspace: " in page and "peak: " in page


def boxes(html: str) -> list[tuple[float, float, float, float]]:
    """Of labels of dots, which alone stand beside none of the axes."""
    labels = re.findall(r"<text x='([\d.]+)' y='([\d.]+)' text-anchor='(\w+)'>(k\d+|Conv[^<]*)</text>", html)
    found = []
    for x, y, anchor, said in labels:
        begin = float(x) - 6.2 * len(said) * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        found.append((begin, float(y) - 10, begin + 6.2 * len(said), float(y) + 2))
    return found


def test_labels_of_dots_in_one_place_do_not_overlap(report: Any) -> None:
    graph = next(graph for graph in report.graphs if graph.kernels)
    step = next(step for step in graph.steps if step.kind == "kernel" and step.operations)
    same = [dataclasses.replace(step, name=f"k{n}", seconds=1e-5) for n in range(6)]
    html = roofline(dataclasses.replace(graph, steps=same), MACHINE)
    found = boxes(html)
    assert html.count("<circle") == 6 and 2 <= len(found) <= 6
    for k, (left, top, right, bottom) in enumerate(found):
        for a, b, c, d in found[:k]:
            assert right <= a or c <= left or bottom <= b or d <= top


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("get_ipython().run_line_magic('dlc_explain', 'f(a)')", "%dlc_explain f(a)"),
        ("y = get_ipython().run_line_magic('dlc_explain', \"g('x')\")", "y = %dlc_explain g('x')"),
        ("get_ipython().run_line_magic('matplotlib', '')", "%matplotlib"),
        ("get_ipython().system('ls -l')", "!ls -l"),
        ("get_ipython().run_line_magic(name, words)", "get_ipython().run_line_magic(name, words)"),
        ("y = x + 1", "y = x + 1"),
    ],
)
def test_a_line_is_shown_as_it_was_written(line: str, own: str) -> None:
    assert own_line(line) == own


def test_a_cell_has_its_number() -> None:
    assert file_name("<ipython-input-12-0a1b>") == "cell 12"

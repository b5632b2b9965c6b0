"""What a report says is what the plan does, and every way to show it says the same."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dlc
from dlc.report.model import Machine, Place, Step, share_text
from dlc.report.page import document

from ..backend.test_command_line import command

HERE = Path(__file__).name


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.LayerNorm(24), nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24), nn.Softmax(-1)
    ).eval()


@pytest.fixture(scope="module")
def report() -> Any:
    with torch.no_grad():
        return dlc.explain(mlp(), torch.randn(6, 24), options={"products": "library"})


def branches(x: Tensor) -> Tensor:
    y = x.sin()
    if y.sum() > 0:
        y = y * 2
    return y.cos()


def loops(x: Tensor) -> Tensor:
    for k in range(2):
        if x.sum() > k:
            x = x + 1
    return x


def line_of(fn: Callable[..., Any], text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(k for k in range(fn.__code__.co_firstlineno, len(lines)) if text in lines[k])


def test_counts_agree_with_the_plan(report: Any) -> None:
    (graph,) = report.graphs
    plan = graph.texts["plan"].splitlines()
    kernels = [step for step in graph.steps if step.kind == "kernel"]
    assert len(kernels) == graph.kernels == sum(line.startswith("  launch") for line in plan)
    calls = [step for step in graph.steps if step.kind != "kernel"]
    assert len(calls) == len(graph.calls) == sum(line.startswith("  call") for line in plan)


def test_copies_of_the_plan_are_steps() -> None:
    def joins(*parts: Tensor) -> Tensor:
        return torch.cat([part @ part for part in parts])

    (graph,) = dlc.explain(joins, *[torch.randn(8, 8) for _ in range(9)]).graphs
    copies = [line for line in graph.texts["plan"].splitlines() if line.startswith("  copy")]
    (step,) = [step for step in graph.steps if step.kind == "copy"]
    assert len(copies) == 9 and step.name == "cat" and "copies its 9 operands" in step.note
    assert step.bytes == 2 * 9 * 4 * 8 * 8 and step.seconds > 0
    assert step.places[0].line == line_of(test_copies_of_the_plan_are_steps, "torch.cat")


def test_a_copy_of_a_result_is_a_step() -> None:
    def writes(x: Tensor, y: Tensor) -> Tensor:
        x.copy_(y)
        return y + 1

    (graph,) = dlc.explain(writes, torch.randn(100), torch.randn(100)).graphs
    (step,) = [step for step in graph.steps if step.kind == "copy"]
    assert step.name == "copy of results" and step.bytes == 2 * 4 * 100


def test_the_roofline_is_of_the_threads_that_run() -> None:
    """OpenMP may give fewer than torch asks for."""
    script = "import torch, dlc; torch.set_num_threads({}); print(max(dlc._C.peak() for _ in range(3)))"
    rates = []
    for threads in (4, 1):
        env = {**os.environ, "OMP_THREAD_LIMIT": "1"}
        done = subprocess.run(
            [sys.executable, "-c", script.format(threads)],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        rates.append(float(done.stdout))
    assert rates[0] < 1.5 * rates[1]


def test_steps_are_measured_and_named_by_the_user(report: Any) -> None:
    (graph,) = report.graphs
    names = [step.operators for step in graph.steps]
    assert names == [("LayerNorm (0)",), ("Linear (1)",), ("GELU (2)",), ("Linear (3)",), ("Softmax (4)",)]
    assert all(step.seconds > 0 for step in graph.steps) and graph.measured > 1
    assert sum(step.seconds for step in graph.steps) <= graph.call_seconds
    linear, gelu = graph.steps[1:3]
    assert linear.product == "library" and linear.operations == 2 * 6 * 24 * 48
    assert linear.bytes == 4 * (6 * 24 + 24 * 48 + 48 + 6 * 48) and gelu.bytes == 4 * 2 * 6 * 48
    assert "which dlc only calls" in gelu.note and gelu.tier in ("tcc", "gcc")


def test_memory_has_a_peak_and_holders(report: Any) -> None:
    (graph,) = report.graphs
    _, most, holders = graph.peak()
    assert most == max(graph.curve()) == sum(held.bytes for held in holders) == 4 * 2 * 6 * 48


def test_options_are_those_of_torch_compile() -> None:
    with torch.no_grad():
        report = dlc.explain(mlp(), torch.randn(6, 24), options={"freeze": True, "products": "own"})
    (graph,) = report.graphs
    assert [step.product for step in graph.steps if step.product] == ["frozen panels"] * 2
    assert graph.prepared[0] == 2 and graph.prepared[1] >= 2 * 4 * 24 * 48
    (product, *_) = [step for step in graph.steps if step.product]
    computes = dataclasses.replace(report.machine, bandwidth=1e30, launch=0.0)
    share = product.share(computes)
    assert 0 < share < 1.1  # no product is faster than multiply-adds in registers
    assert dataclasses.replace(product, wide=True).share(computes) == 2 * share
    with pytest.raises(Exception, match="frees"):
        dlc.explain(mlp(), torch.randn(6, 24), options={"frees": True})


def test_a_graph_break_has_its_line_and_a_fix() -> None:
    report = dlc.explain(branches, torch.ones(4))
    (stop,) = report.breaks
    assert stop.kind == "graph break" and stop.function == "branches"
    assert stop.place.line == line_of(branches, "if y.sum()") and "torch.where" in stop.fix
    assert [graph.function for graph in report.graphs] == [
        "branches",
        f"branches, after line {stop.place.line}",
    ]
    assert f"{HERE}:{stop.place.line}: `if y.sum() > 0:`: graph break" in str(report)


def test_steps_of_several_graphs_are_told_apart() -> None:
    report = dlc.explain(branches, torch.ones(4))
    for shown in (str(report), document(report)):
        assert "A: direct graph of branches" in shown and "B: direct graph of branches" in shown
        assert "Ak0" in shown and "Bk0" in shown


def test_a_step_of_training_that_calls_backward_says_what_to_move() -> None:
    layer = nn.Linear(4, 4)
    optimiser = torch.optim.SGD(layer.parameters(), 0.1)

    def step(x: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss

    text = str(dlc.explain(step, torch.ones(2, 4)))
    assert "call it outside of the function" in text and "end the function with the loss" in text
    breaks = [line for line in text.splitlines() if "graph break: " in line and "torch._dynamo" in line]
    assert len(breaks) == len(set(breaks))


def test_a_cell_of_a_notebook_is_called_so() -> None:
    assert str(Place("/tmp/ipykernel_12/345.py", 3)) == "cell:3"


def test_a_product_in_cache_may_pass_the_roofline() -> None:
    machine = Machine("", "", 1, 1e9, 1e12)
    step = Step("k0", "kernel", (), (), 1e-6, 2000, 1000, False, "gcc", "own", "")
    assert share_text(step, machine) == "in cache"
    assert share_text(dataclasses.replace(step, operations=2_500_000), machine) == ""  # it cannot be


def test_a_function_that_dynamo_skips_says_so() -> None:
    report = dlc.explain(loops, torch.ones(4))
    (stop,) = report.breaks
    assert stop.kind == "skipped" and stop.place.line == line_of(loops, "if x.sum()")
    assert not report.compiled and str(report).startswith("dlc compiled nothing")


def test_what_is_written_is_written_once() -> None:
    x = torch.ones(4)
    report = dlc.explain(lambda x: x.add_(1).mul_(2), x)
    assert x.tolist() == [4.0] * 4 and report.graphs[0].measured > 1


class Page(HTMLParser):
    VOID = ("meta", "line", "circle", "polygon", "polyline")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href"}
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_stands_alone(report: Any, tmp_path: Path) -> None:
    report.save(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    page = Page()
    page.feed(text)
    assert not page.open and {"svg", "details", "table"} <= page.seen
    assert (
        not page.seen & {"script", "link", "img", "iframe"} and "url(" not in text and "@import" not in text
    )
    assert len(text) < 300_000 and "prefers-color-scheme" in text and "LayerNorm (0)" in text


def test_many_kernels_fit_on_a_page() -> None:
    def deep(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(40):
            x = (x @ w).tanh().softmax(-1)
        return x

    page = dlc.explain(deep, torch.randn(8, 8), torch.randn(8, 8))._repr_html_()
    assert len(page) < 300_000 and "left out of the page" in page


def test_the_timeline_has_every_step(report: Any, tmp_path: Path) -> None:
    report.to_perfetto(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert [name for name in names if name in {s.label for s in report.graphs[0].steps}] == [
        step.label for step in report.graphs[0].steps
    ]
    assert {"walk", "fusion", "codegen"} <= set(names)


def test_two_reports_are_compared(report: Any) -> None:
    with torch.no_grad():
        own = dlc.explain(mlp(), torch.randn(6, 24), options={"products": "own"})
    said = own - report
    assert "- Linear (1)" in said and "+ k" in said and "a call " in said
    assert "\n+" not in report - report and "\n-" not in report - report


def test_as_dict_is_plain(report: Any) -> None:
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["graphs"][0]["steps"][0]["name"] == "k0" and plain["machine"]["bandwidth"] > 0


@pytest.mark.in_turn(2)
@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("print(torch.ones(3).sin())", 3, "nothing that ran was compiled"),
        ("torch.compile(lambda x: x.sin(), backend='dlc')(torch.ones(3))", 0, "1 kernel"),
    ],
)
def test_a_script_of_which_nothing_is_compiled(tmp_path: Path, text: str, status: int, said: str) -> None:
    (tmp_path / "script.py").write_text(f"import torch\n{text}\n")
    done = command("explain", "--html", str(tmp_path / "r.html"), str(tmp_path / "script.py"))
    assert done.returncode == status and said in done.stdout, done.stderr
    assert (tmp_path / "r.html").is_file()


def test_a_page_of_many_kernels_is_bounded(report: Any) -> None:
    (graph,) = report.graphs
    kernel = next(step for step in graph.steps if step.kind == "kernel")
    long = dataclasses.replace(kernel, texts=dict.fromkeys(kernel.texts, "<&>" * 1500))
    page = document(dataclasses.replace(report, graphs=[dataclasses.replace(graph, steps=[long] * 450)]))
    assert len(page.encode()) < 300_000
    assert "And 50 more" in page and "more kernels are left out" in page and "&lt;&amp;&gt;" in page

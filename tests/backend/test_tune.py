"""The option tune: schedules that the first call looks for, the same bits, a cache that remembers."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc
from dlc import options, tune
from tests.fresh import run


def rows(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Kernels over rows and columns, with a transpose and with a chain of expensive functions."""
    chain = F.mish(x) * torch.tanh(torch.exp(-x.abs()))
    return torch.softmax(chain, -1) + y.t(), x.sum(0) / (1 + y.var(1)).sqrt(), x.argmax(-1)


def inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(300, 70, generator=torch.Generator().manual_seed(3)), torch.randn(70, 300)


def compiled(fn: Any, folder: Path | str, **more: Any) -> Any:
    torch._dynamo.reset()
    given = {"tune": True, "tune_budget": 2, "cache": str(folder), "strict": True} | more
    return torch.compile(fn, backend="dlc", options=given)


def counters() -> dict[str, Any]:
    """What was counted so far, with what earlier tests left to the background."""
    assert dlc.wait()
    return dlc.counters()


def counts(before: dict[str, Any]) -> dict[str, Any]:
    return {name: value - before[name] for name, value in dlc.counters().items()}


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_bits_are_those_without_it(tmp_path: Path, dynamic: bool) -> None:
    x, y = inputs()
    torch._dynamo.reset()
    want = torch.compile(rows, backend="dlc", dynamic=dynamic, options={"cache": False})(x, y)
    torch._dynamo.reset()
    before = counters()
    given = {"tune": True, "tune_budget": 4, "cache": str(tmp_path / "cache")}
    fn = torch.compile(rows, backend="dlc", dynamic=dynamic, options=given)
    first, second = fn(x, y), fn(x, y)
    assert counts(before)["tuned"] > 0
    for a, b, c in zip(want, first, second, strict=True):
        assert torch.equal(a.view(torch.int32), b.view(torch.int32))
        assert torch.equal(a.view(torch.int32), c.view(torch.int32))


@pytest.mark.parametrize("mode", list(options.MODES))
def test_the_modes_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Programs written for TorchInductor give a mode; those that ask for the best speed tune."""
    monkeypatch.setenv("DLC_CACHE", str(tmp_path))
    monkeypatch.setenv("DLC_STRICT", "1")
    monkeypatch.setenv("DLC_TUNE_BUDGET", "3")
    x, y = inputs()
    torch._dynamo.reset()
    before = counters()
    torch.testing.assert_close(torch.compile(rows, backend="dlc", mode=mode)(x, y), rows(x, y))
    assert (counts(before)["tuned"] > 0) == mode.startswith("max-autotune")


PROCESS = """
    import torch, dlc
    def fn(x):
        return torch.softmax(torch.nn.functional.mish(x), -1), x.sum(0)
    x = torch.randn(200, 90, generator=torch.Generator().manual_seed(1))
    y, z = torch.compile(fn, backend="dlc", options={"tune": True, "tune_budget": 3, "strict": True})(x)
    names = ("tuned", "tuned_recalled", "tcc_compiles", "gcc_compiles", "gcc_failures")
    print({name: dlc.counters()[name] for name in names})
    print(y.view(torch.int32).tolist(), z.view(torch.int32).tolist())
"""


@pytest.mark.in_turn(3)
def test_a_second_process_compiles_and_measures_nothing(tmp_path: Path) -> None:
    first = run(PROCESS, DLC_CACHE_DIR=str(tmp_path / "cache"))
    assert first.returncode == 0, first.stderr
    tuned = int(re.findall(r"'tuned': (\d+)", first.stdout)[0])
    assert tuned > 0 and "'tuned_recalled': 0, 'tcc_compiles': 0" in first.stdout
    second = run(PROCESS, DLC_CACHE_DIR=str(tmp_path / "cache"), PATH="/nonexistent")
    found = f"'tuned': 0, 'tuned_recalled': {tuned}, 'tcc_compiles': 0, 'gcc_compiles': 0, 'gcc_failures': 0"
    assert second.stdout.splitlines() == [f"{{{found}}}", first.stdout.splitlines()[1]], second.stderr


def test_another_number_of_threads_is_another_question(tmp_path: Path) -> None:
    x, y = inputs()
    threads = torch.get_num_threads()
    try:
        for number in (1, threads + 1):
            torch.set_num_threads(number)
            before = counters()
            compiled(rows, tmp_path / "cache")(x, y)
            found = counts(before)
            assert found["tuned"] > 0 and found["tuned_recalled"] == 0
            torch._dynamo.reset()
    finally:
        torch.set_num_threads(threads)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    x, y = inputs()
    before = counters()
    result = compiled(rows, tmp_path / "cache")(x, y)
    assert counts(before)["tuned"] > 0
    torch.testing.assert_close(result, rows(x, y))


def test_a_budget_of_nothing(tmp_path: Path) -> None:
    x, y = inputs()
    before = counters()
    result = compiled(rows, tmp_path / "cache", tune_budget=0)(x, y)
    found = counts(before)
    assert found["tuned"] == found["tuned_swaps"] == 0 and found["gcc_compiles"] == 1
    torch.testing.assert_close(result, rows(x, y))


SUM = "Y[i] = sum[k] X[i,k]"


def notes_of(folder: Path) -> list[Path]:
    """Those of kernels: a comment, and a schedule behind it."""
    return [path for path in (folder).glob("note-*") if path.read_text().startswith("# ")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 64,
        "# a comment alone",
        "# 2 us -> 1 us\nfor i0 parallel vector vector",
        "# 2 us -> 1 us\ntarget cc\nfor nothing width=3\n",
        "# 2 us -> 1 us\ntarget cc\nfor i0 width=3\n",
    ],
)
def test_an_untrue_note_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    """It is ignored, the search begins again, and the log says so if there was a schedule."""
    monkeypatch.setenv("DLC_LOG", "1")
    x, y = inputs()
    folder = tmp_path / "cache"
    want = compiled(rows, folder)(x, y)
    torch._dynamo.reset()
    assert notes_of(folder)
    for note in folder.glob("note-*"):
        note.write_text(text)
    before = counters()
    capfd.readouterr()
    got = compiled(rows, folder)(x, y)
    said = "is not used, the search begins anew" in capfd.readouterr().err
    assert said == ("\n" in text)
    found = counts(before)
    assert found["tuned"] > 0 and found["tuned_recalled"] == 0
    assert all(map(torch.equal, got, want))


def total(x: Tensor) -> Tensor:
    return torch.exp(x).sum(-1)


def test_a_comment_of_any_bytes(tmp_path: Path) -> None:
    """What a note says of its schedule is shown as far as it can be; the schedule runs."""
    folder = tmp_path / "cache"
    x = torch.randn(60, 700)
    want = compiled(total, folder)(x)
    torch._dynamo.reset()
    (note,) = notes_of(folder)
    note.write_bytes(b"# caf\xe9" + note.read_bytes()[1:])
    before = counters()
    with pytest.MonkeyPatch.context() as patch:
        raised: list[object] = []
        patch.setattr("sys.unraisablehook", raised.append)
        assert torch.equal(compiled(total, folder)(x), want)
    assert counts(before)["tuned_recalled"] == 1 and not raised


def test_a_schedule_that_was_found_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note has it; edited, it is what the next process runs, and the report shows it."""
    folder = tmp_path / "cache"
    x = torch.randn(60, 700)
    want = compiled(total, folder)(x)
    torch._dynamo.reset()
    (note,) = notes_of(folder)
    kernel = dlc.explain(total, x).graphs[0].steps[0]
    lines = kernel.texts["schedule"].partition("target cc\n")[2]
    assert "parts=" not in lines
    schedule = "target cc\n" + re.sub(r"^(reduce \w+)(.*)$", r"\1\2 parts=4", lines, flags=re.M)
    note.write_text("# 3.0 us -> 2.0 us, candidate 1 of 1\n" + schedule)
    for name, value in {"DLC_TUNE": "1", "DLC_CACHE_DIR": str(folder), "DLC_CACHE": str(folder)}.items():
        monkeypatch.setenv(name, value)
    torch._dynamo.reset()
    before = counters()
    report = dlc.explain(total, x)
    found = counts(before)
    assert (found["tuned"], found["tuned_recalled"], found["tuned_swaps"]) == (0, 1, 1)
    (tuned,) = report.graphs[0].tuned
    assert re.fullmatch(r"\w+: 3.0 us -> 2.0 us, candidate 1 of 1\n" + re.escape(schedule), tuned)
    assert re.search(r"tuned \w+: 3.0 us -> 2.0 us, candidate 1 of 1$", str(report), re.M)
    torch._dynamo.reset()
    run = compiled(total, folder)
    assert torch.equal(run(x), want)
    assert dlc.explain(total, x).graphs[0].tuned == [tuned]  # of code that another call has put in place


def test_what_is_tried_first_is_what_gained_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What changes have gained on this machine is a note, too, and orders the next search."""
    monkeypatch.setenv("DLC_LOG", "1")
    folder = tmp_path / "cache"
    x = torch.randn(60, 700)

    def tried() -> list[str]:
        compiled(total, folder)(x)
        torch._dynamo.reset()
        for note in notes_of(folder):
            note.unlink()
        return re.findall(r"tune:   (\S+): [\d.]+ times as fast", capfd.readouterr().err)

    first = tried()
    (model,) = (path for path in folder.glob("note-*") if re.match(r"\S+ \d \d+ [\d.]+\n", path.read_text()))
    measured = dict(line.split(" ", 1) for line in model.read_text().splitlines())
    measured.pop("predictions", None)  # how far they come true, of all changes together
    assert set(first) == set(measured) and len(first) > 1
    last = first[-1]
    model.write_text("".join(f"{name} 1 9 {5.0 if name == last else 0.0}\n" for name in measured))
    assert tried()[0] == last
    model.write_text("no model\n" + "x" * 100)
    assert tried()[0] == first[0]


def two(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.softmax(x, -1).sin(), x.sum(0)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("at", ["before", "measured"])
def test_an_interrupt_leaves_what_there_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """What was found until then stays, and the bar ends."""
    calls: list[tuple[int, int]] = []
    when = {"before": 1, "measured": 2}[at]

    class Stops(tune.Progress):
        def __call__(self, done: int, total: int, line: str | None) -> None:
            super().__call__(done, total, line)
            calls.append((done, total))
            if len(calls) == when:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(tune, "Progress", Stops)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    x, before = inputs()[0], dlc.counters()
    fn = compiled(two, tmp_path / "cache", tune_budget=20)
    with pytest.raises(KeyboardInterrupt):
        fn(x)
    done, whole = calls[-1]
    assert len(calls) == when + 1 and done == whole  # the last one ends the bar
    assert counts(before)["tuned"] == (at == "measured")
    assert len(notes_of(tmp_path / "cache")) == (at == "measured")
    torch.testing.assert_close(fn(x), two(x))
    assert len(calls) == when + 1


def test_threads_that_come_at_once(tmp_path: Path) -> None:
    x, y = inputs()
    want = rows(x, y)
    fn, failures = compiled(rows, tmp_path / "cache"), list[BaseException]()

    def work() -> None:
        try:
            for _ in range(3):
                torch.testing.assert_close(fn(x, y), want)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_inputs_are_left_as_they_are(tmp_path: Path) -> None:
    def step(weight: Tensor, grad: Tensor) -> None:
        weight.sub_(grad * 0.5)
        weight.mul_(2)

    weight, grad = torch.arange(5000.0), torch.arange(5000.0)
    compiled(step, tmp_path / "cache")(weight, grad)
    torch.testing.assert_close(weight, torch.arange(5000.0), rtol=0, atol=0)


def test_indices_out_of_range_are_an_error(tmp_path: Path) -> None:
    table, index = torch.randn(10, 4), torch.tensor([1, 11])
    with pytest.raises(IndexError):
        compiled(lambda t, i: t[i] * 2, tmp_path / "cache")(table, index)


@pytest.mark.parametrize(
    ("tier", "line"), [("tcc", "nothing to choose in libtcc's tier"), ("auto", "nothing is measured: no C")]
)
def test_without_a_compiler_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tier: str, line: str
) -> None:
    monkeypatch.setenv("DLC_LOG", "1")
    x, before = inputs()[0], dlc.counters()
    result = compiled(two, tmp_path / "cache", tier=tier, cc="nonesuch")(x)
    assert counts(before)["tuned"] == 0 and capfd.readouterr().err.count(line) == 1
    torch.testing.assert_close(result, two(x))


def test_what_was_found_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_TUNE", "1")
    monkeypatch.setenv("DLC_TUNE_BUDGET", "2")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    report = dlc.explain(lambda x: torch.softmax(x, -1), torch.randn(64, 64))
    usual, better = r"the usual schedule, the best of \d+", r"[\d.]+ us -> [\d.]+ us, candidate \d+ of \d+"
    assert re.search(rf"tuned \w+: ({usual}|{better})(, not ended)?\n", str(report) + "\n"), str(report)


def test_the_loops_are_dumped_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    compiled(two, tmp_path / "cache", dump="loops")(inputs()[0])
    before, _, after = capfd.readouterr().err.partition("/* loops, tuned */")
    assert "for " in before and after.count("for ") == before.count("for ")


@pytest.mark.in_turn(3)
def test_gradients(tmp_path: Path) -> None:
    x = inputs()[0].requires_grad_()
    before = counters()
    compiled(two, tmp_path / "cache")(x)[0].sum().backward()
    assert counts(before)["tuned"] > 0
    want = torch.autograd.grad(two(x)[0].sum(), x)[0]
    torch.testing.assert_close(x.grad, want)


@pytest.mark.in_turn(3)
def test_a_jitted_function(tmp_path: Path) -> None:
    before = counters()["tuned"]
    fn = dlc.jit(lambda x: torch.exp(x) * 3, tune=True, tune_budget=8, cache=str(tmp_path / "cache"))
    x = torch.randn(50, 60)
    torch.testing.assert_close(fn(x), torch.exp(x) * 3)
    assert dlc.counters()["tuned"] == before + 1


@pytest.mark.parametrize("value", [-1, float("nan"), "soon", True])
def test_a_budget_is_seconds(value: object) -> None:
    with pytest.raises(ValueError, match="'tune_budget' is a number of seconds from 0 on"):
        options.parse({"tune_budget": value})


def test_tune_is_a_truth_value() -> None:
    with pytest.raises(ValueError, match="'tune' is True or False"):
        options.parse({"tune": "fast"})


def test_without_tqdm_there_is_no_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "find_spec", lambda name: None)
    before = counters()
    x, y = inputs()
    compiled(rows, tmp_path)(x, y)
    assert counts(before)["tuned"] > 0


def tried_in(text: str) -> list[str]:
    """The changes of which candidates were measured, and what was predicted for them."""
    return re.findall(r"tune:   (\S+: [\d.]+ times as fast, predicted [\d.]+)", text)


def test_a_search_that_was_cut_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its note has what was measured; the next search measures the rest, until nothing is left."""
    monkeypatch.setenv("DLC_LOG", "1")
    folder = tmp_path / "cache"
    x = torch.randn(60, 700)
    want = compiled(total, folder, tune_budget=0.2)(x)
    (note,) = notes_of(folder)
    first, line, *_ = note.read_text().splitlines()
    assert first.endswith(", not ended") and line.startswith("# not ended: ")
    seen, numbers, totals = line.split()[3:], [], []
    assert tried_in(capfd.readouterr().err) and seen
    for _ in range(40):
        torch._dynamo.reset()
        before = counters()
        assert torch.equal(compiled(total, folder, tune_budget=3)(x), want)
        found = counts(before)
        assert found["tuned_recalled"] == 1
        totals.append(found["tuned"])
        numbers.append(len(tried_in(capfd.readouterr().err)))
        first, *rest = note.read_text().splitlines()
        if not first.endswith("not ended"):
            break
        after = rest[0].split()[3:]
        assert after[: len(seen)] == seen  # nothing twice
        seen = after
    assert not first.endswith("not ended") and sum(numbers) >= 1 and max(totals) == 1
    torch._dynamo.reset()
    before = counters()
    compiled(total, folder, tune_budget=3)(x)
    assert (counts(before)["tuned"], counts(before)["tuned_recalled"]) == (0, 1)


def turned(x: Tensor) -> Tensor:
    return torch.exp(x.t()).contiguous()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "lines",
    [
        "for {i} split=64\nfor {i}_out parallel\nfor {j} vector\n",
        "for {i} split=64 reorder\nfor {i}_out parallel\nfor {j} parallel\nfor {i}_in vector\n",
        "for {i} reorder\nfor {j} parallel\nfor {i} vector\n",
    ],
)
def test_other_loops_take_the_place_of_the_usual_ones(tmp_path: Path, lines: str, threads: int) -> None:
    """A launch takes their number of iterations from the code; the first call, and those that follow."""
    folder, x, before = tmp_path / "cache", torch.randn(500, 700), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        want = compiled(turned, folder, tune_budget=1)(x)
        torch._dynamo.reset()
        (note,) = notes_of(folder)
        loops = dlc.explain(turned, x).graphs[0].steps[0].texts["loops"]
        i, j = re.findall(r"for (\w+) in", loops)
        note.write_text("# 2.0 us -> 1.0 us, candidate 1 of 1\n" + lines.format(i=i, j=j))
        torch._dynamo.reset()
        counted = counters()
        run = compiled(turned, folder)
        for scale in (1, 2):
            got = run(x * scale)
            torch.testing.assert_close(got, turned(x * scale))
            assert scale != 1 or torch.equal(got.view(torch.int32), want.view(torch.int32))
        found = counts(counted)
        assert (found["tuned_recalled"], found["tuned_swaps"]) == (1, 1)
    finally:
        torch.set_num_threads(before)

"""A result that is an input itself, in a file: its row has the kind "input"."""

from pathlib import Path

import torch

import dlc


def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.contiguous(), x + 1  # the first is x


def test_it_is_saved_with_a_bug(tmp_path: Path) -> None:
    assert dlc.save_repro(both, (torch.ones(3),), tmp_path / "bug.dlc")


def test_it_is_saved_ahead_of_time(tmp_path: Path) -> None:
    x = torch.ones(3)
    with torch.no_grad():
        compiled = torch.compile(both, fullgraph=True, backend="dlc").aot_compile(((x,), {}))
        compiled.save_compiled_function(str(tmp_path / "both.bin"))
        with (tmp_path / "both.bin").open("rb") as file:
            loaded = torch.compiler.load_compiled_function(file)
        same, more = loaded(x)
    assert same is x
    torch.testing.assert_close(more, x + 1)


def test_functions_that_have_no_schema_are_saved_as_operators(tmp_path: Path) -> None:
    """A convolution without gradients is a call of torch.conv2d in the graph of Dynamo's."""
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()).eval().requires_grad_(False)
    path = dlc.save_repro(net, (torch.ones(1, 1, 8, 8),), tmp_path / "bug.dlc")
    assert "aten.convolution.default" in Path(path).read_text()

"""Artifacts with random damage whose hash is right again.

Each is refused with ArtifactError, or it is an artifact: `python -m tests.backend.damage COUNT SEED` tries
more of them than the tests do.
"""

from __future__ import annotations

import contextlib
import copy
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from dlc.aot_compile import Artifact
from dlc.artifact import ArtifactError, pack, unpack

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, -(2**31), 2**63, -(2**63), 2**64, 10**400, 0.5, float("nan"),
    float("inf"), "", "x", "a", "tensor", "object", "default", "aten.sin.default", "\ud800", "\0", "f32", [],
    [0], [[]], {}, {"slot": ["a", 0]}, {"slot": ["d", 2**31]}, {"slot": []}, {"constant": 0},
    {"constant": -1}, {"constant": "0"}, {"tuple": [1]}, {"tuple": 1}, {"device": "cpu"},
    {"device": "cuda:0"}, {"complex": [0]}, {"complex": ["a", {}]}, {"dtype": "load"}, {"x": 1},
    {"a": 1, "b": 2},
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, 5, 8, 63, 64, 2**31, 2**62, 2**63 - 1, 2**64)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts."""
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*at, key))


def change_part(header: dict[str, Any], source: random.Random) -> None:
    """Another value in one place, or none, or that of another place."""
    every = list(places(header))
    *path, last = source.choice(every)
    holder: Any = header
    for key in path:
        holder = holder[key]
    match source.randrange(4):
        case 0:
            del holder[last]
        case 1:
            value: Any = header
            for key in source.choice(every):
                value = value[key]
            holder[last] = copy.deepcopy(value)
        case 2 if isinstance(holder, list):
            holder.insert(last, copy.deepcopy(holder[last]))
        case _:
            holder[last] = source.choice(VALUES)


def change_text(header: dict[str, Any], source: random.Random) -> None:
    """A number, a word or a piece of the program."""
    text = header["graph"]["text"]
    if source.random() < 0.5:
        found = source.choice(list(re.finditer(r"\d+", text)))
        piece = str(source.choice(NUMBERS))
    else:
        words = list(re.finditer(r"[a-z_0-9]+|[^ \n]", text))
        found, piece = source.choice(words), source.choice(words).group()
    header["graph"]["text"] = text[: found.start()] + piece + text[found.end() :]


def damaged(data: bytes, source: random.Random) -> bytes:
    """One to three changes; rarely to the bytes themselves."""
    if source.random() < 0.05:
        at = source.randrange(len(data))
        return data[:at] + source.randbytes(source.randrange(4)) + data[at + source.randrange(4) :]
    header, constants = unpack(data)
    for _ in range(source.choice((1, 1, 2, 3))):
        change = change_text if source.random() < 0.4 else change_part
        with contextlib.suppress(LookupError, TypeError):  # a change before took away what it needs
            change(header, source)
    if header.get("options"):  # others take the C compiler's time
        header["options"] = {"tier": "tcc", "cache": False}
    return pack(header, bytes(constants)[: source.choice((None, None, None, -1, 0))])


def first(x: Tensor, y: Tensor) -> Any:
    values = torch.sort(x * 2, 0)[0]
    return values, x.sum() + torch.tensor([float(k) for k in range(9)]), x @ y.t(), x, x.shape[0], None


def second(x: Tensor, y: Tensor) -> Any:
    return torch.cat([x, x[1:]]).softmax(-1), y[:, ::2].cumsum(0), x.t().clone() + y.mean(), y.argmax(1)


def third(x: Tensor, y: Tensor) -> Any:
    return torch.nn.functional.pad(x, (1, 2)), (y > 0).nonzero(), x[:, None].expand(-1, 2, -1) * y[None, :2]


def saved(function: Callable[..., Any]) -> bytes:
    x = torch.randn(5, 3)
    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(x, 0, min=3, max=4096)
    with torch.no_grad():
        options = {"tier": "tcc", "cache": False}
        compiled = torch.compile(function, fullgraph=True, backend="dlc", options=options)
        artifact = compiled.aot_compile(((x, torch.randn(2, 3)), {}))._artifacts.compiled_fn
    return Artifact.serialize_compile_artifacts(artifact)


FUNCTIONS = (first, second, third)


def run(count: int, seed: int) -> Counter[str]:
    """What became of them; anything but ArtifactError comes out, with the number of the artifact."""
    whole = [saved(function) for function in FUNCTIONS]
    outcomes: Counter[str] = Counter()
    for number in range(count):
        source = random.Random(f"{seed}/{number}")
        data = damaged(source.choice(whole), source)
        try:
            Artifact.deserialize_compile_artifacts(data)
            outcomes["loaded"] += 1
        except ArtifactError as error:
            assert str(error).strip() and "\n" not in str(error).splitlines()[0]
            outcomes["refused"] += 1
        except BaseException as error:
            error.add_note(f"artifact {number} of seed {seed}")
            raise
    return outcomes


if __name__ == "__main__":
    print(dict(run(int(sys.argv[1]), int(sys.argv[2]))))

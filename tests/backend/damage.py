"""Artifacts with random damage whose hash is right again.

Each is refused with ArtifactError, or it is an artifact: then it refuses a call or gives what the interpreter
gives. `python -m tests.backend.damage COUNT SEED [gcc]` tries more of them than the tests do.
"""

from __future__ import annotations

import contextlib
import copy
import os
import random
import re
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dlc import ir
from dlc.aot_compile import Artifact
from dlc.artifact import ArtifactError, pack, unpack

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, -(2**31), 2**63, -(2**63), 2**64, 10**400, 0.5, float("nan"),
    float("inf"), "", "x", "a", "tensor", "object", "int", "float", "input", "default", "aten.sin.default",
    "\ud800", "\0", "f32", [], [0], [[]], {}, {"slot": ["a", 0]}, {"slot": ["d", 2**31]}, {"slot": []},
    {"constant": 0},
    {"constant": -1}, {"constant": "0"}, {"tuple": [1]}, {"tuple": 1}, {"device": "cpu"},
    {"device": "cuda:0"}, {"complex": [0]}, {"complex": ["a", {}]}, {"dtype": "load"}, {"x": 1},
    {"a": 1, "b": 2},
)  # fmt: skip
PROMISES = ("into", "view of", "view of result 0", "view of result 1", "strides=[1, 3]")
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
            holder[last] = copy.deepcopy(source.choice(VALUES))


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


def change_promise(header: dict[str, Any], source: random.Random) -> None:
    """What is said of a result; the value returned may be another one, such as a parameter."""
    text = header["graph"]["text"]
    head, _, rest = text.partition("-> (")
    types, _, rest = rest.partition(")")
    param = source.choice(re.findall(r"^    (\w+):", head, re.MULTILINE))
    promise = source.choice(PROMISES)
    found = source.choice(list(re.finditer(r"\]", types)))
    said = f" {promise} {param}" if promise in ("into", "view of") else f" {promise}"
    types = types[: found.end()] + said + types[found.end() :]
    body, _, returned = rest.partition("  ret ")
    names = returned.strip(" }\n").split(", ")
    if source.random() < 0.7:
        names[source.randrange(len(names))] = source.choice([param, *names])
    header["graph"]["text"] = f"{head}-> ({types}){body}  ret {', '.join(names)}\n}}\n"


def damaged(data: bytes, source: random.Random, tier: str) -> bytes:
    """One to three changes; rarely to the bytes themselves."""
    if source.random() < 0.05:
        at = source.randrange(len(data))
        return data[:at] + source.randbytes(source.randrange(4)) + data[at + source.randrange(4) :]
    header, constants = unpack(data)
    for _ in range(source.choice((1, 1, 2, 3))):
        change = source.choice(
            (change_part, change_part, change_part, change_text, change_text, change_promise)
        )
        with contextlib.suppress(
            LookupError, TypeError, AttributeError
        ):  # a change before took away what it needs
            change(header, source)
    if header.get("options"):  # others take the C compiler's time
        header["options"] = {"tier": tier, "cache": False}
    return pack(header, bytes(constants)[: source.choice((None, None, None, -1, 0))])


def first(x: Tensor, y: Tensor) -> Any:
    values = torch.sort(x * 2, 0)[0]
    return values, x.sum() + torch.tensor([float(k) for k in range(40)]), x @ y.t(), x, x.shape[0], None


def second(x: Tensor, y: Tensor) -> Any:
    return torch.cat([x, x[1:]]).softmax(-1), y[:, ::2].cumsum(0), x.t().clone() + y.mean(), y.argmax(1)


def third(x: Tensor, y: Tensor) -> Any:
    return torch.nn.functional.pad(x, (1, 2)), (y > 0).nonzero(), x[:, None].expand(-1, 2, -1) * y[None, :2]


def saved(function: Callable[..., Any], products: str = "auto") -> bytes:
    x = torch.randn(5, 3)
    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(x, 0, min=3, max=4096)
    with torch.no_grad():
        options = {"tier": "tcc", "cache": False, "products": products}
        compiled = torch.compile(function, fullgraph=True, backend="dlc", options=options)
        artifact = compiled.aot_compile(((x, torch.randn(2, 3)), {}))._artifacts.compiled_fn
    return Artifact.serialize_compile_artifacts(artifact)


def fourth(x: Tensor, y: Tensor) -> Any:
    rows = (x[1:] * y[0] + 1).sum(1)
    return rows.relu(), x.flip(0)[2], torch.where(y > 0, y, -y).amax(0), x[:, 1:] + 0.5, rows.exp().mean()


def fifth(x: Tensor, y: Tensor) -> Any:
    """Of dlc's own."""
    scores = (x @ y.t()).softmax(-1)
    return scores @ y, (x.relu() @ y.t() + 1).sum(1), torch.einsum("bi,ci->bc", x[1:], y[:, :3])


def sixth(x: Tensor, y: Tensor) -> Any:
    """A size that the data say, and what is computed of it."""
    rows = x[x[:, 0] > 0]
    return rows.sum(0), rows.flip(0) * y[0], (y > 0).nonzero().sum(0)


WRITES = """dlc 1 graph

fn graph[s77 in 3..4096](
    arg1_1: f32[s77, 3],
    arg2_1: f32[2, 3]
) -> (
    f32[s77, 3] into arg1_1,
    f32[3, s77] strides=[1, 3] view of arg1_1,
    f32[s77, 3],
    f32[2, 2] strides=[3, 1] view of arg2_1
) {
  let t0: f32[3] = sum arg2_1 axes=[0]
  let t1: f32[s77, 3] = expand t0 to=[1]
  let t2: f32[s77, 3] = add arg1_1, t1
  let t3: f32[3, s77] = permute arg1_1 perm=[1, 0]
  let t4: f32[s77, 3] = exp t2
  let t5: f32[2, 2] = slice arg2_1 axis=1 start=1 step=1
  ret t2, t3, t4, t5
}
"""


def writing() -> bytes:
    """It writes to an argument and returns views of both."""
    header, _ = unpack(saved(fourth))
    outputs = [["tensor", k, None] for k in (1, 2, 3)]
    header["graph"] |= {"text": WRITES, "outputs": outputs}
    return pack(header | {"leaves": None}, b"")


FUNCTIONS = (first, second, third, fourth, sixth)

# -- calls -----------------------------------------------------------------------------------------------

DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "int64", "bool", "int32", "uint8")}
WORDS = {"f32": "float32", "f64": "float64", "i64": "int64", "bool": "bool", "i32": "int32", "u8": "uint8"}


def tensor_of(type_: str, sizes: dict[str, int]) -> Tensor | None:
    """One that the type describes, if it is a plain one."""
    word, _, rest = type_.partition("[")
    try:
        shape = eval(f"({rest.partition(']')[0]},)", {"__builtins__": {}}, sizes) if rest else ()
        return (torch.randn(shape) * 3).to(DTYPES[WORDS[word]])
    except Exception:  # of the damage: any tensor will do
        return None


def arguments(graph: dict[str, Any], function: ir.Function, source: random.Random) -> list[Any]:
    """What the inputs take, but now and then."""
    sizes = {name: source.choice((0, 1, 2, 3, 5, 8, 40)) for name in function.sizes}
    made: list[Any] = []
    for kind, index in graph["inputs"]:
        if kind == "tensor" and 0 <= index < len(function.params):
            tensor = tensor_of(function.params[index].type, sizes)
            made.append(torch.randn(source.choice((0, 1, 3)), 3) if tensor is None else tensor)
        elif kind == "size" and 0 <= index < len(function.sizes):
            made.append(sizes[function.sizes[index]])
        else:
            made.append(source.choice((0, 1, 2.5, True)))
    if source.random() < 0.2:
        made[source.randrange(len(made))] = source.choice((torch.randn(2), torch.zeros(3, 3).long(), 7, None))
    return made


def interpreted(graph: dict[str, Any], function: ir.Function, given: list[Any]) -> list[Any] | None:
    """The tensors among the outputs, by the interpreter; None: it refuses the arguments."""
    params: list[Any] = [None] * len(function.params)
    sizes = {}
    for (kind, index), value in zip(graph["inputs"], given, strict=True):
        if kind == "size":
            sizes[function.sizes[index]] = value
        elif kind != "unused":
            params[index] = value.numpy() if isinstance(value, Tensor) else value
    try:
        results = function(*params, **sizes)
    except (ValueError, RuntimeError, TypeError, AttributeError):
        return None
    every = results if isinstance(results, tuple) else (results,)
    return [every[index] for kind, index, _ in graph["outputs"] if kind == "tensor"]


def call_of_large(artifact: Artifact, graph: dict[str, Any], source: random.Random) -> str:
    """In a child, which may take 0.2 seconds and 1 GB: it must not crash."""
    child = os.fork()
    if child == 0:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with contextlib.suppress(Exception), torch.no_grad():
            artifact._callable(*arguments(graph, ir.parse(graph["text"]), source))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGALRM), f"a call of a large one ended with {status}"
    return "large" if status == 0 else "large, stopped"


def call(artifact: Artifact, header: dict[str, Any], source: random.Random) -> str:
    """What became of a call: it agrees with the interpreter where that can run it."""
    graph = header["graph"]
    if any(int(number) > 4096 for number in re.findall(r"\d+", graph["text"])):
        return call_of_large(artifact, graph, source)
    function = ir.parse(graph["text"])
    given = arguments(graph, function, source)
    copies = [value.clone() if isinstance(value, Tensor) else value for value in given]
    try:
        with torch.no_grad():
            results = artifact._callable(*given)
    except (RuntimeError, TypeError, ValueError, IndexError, OverflowError, NotImplementedError):
        return "call refused"
    if graph["calls"]:
        return "called"
    want = interpreted(graph, function, copies)
    assert want is not None, "the interpreter refuses what was computed"
    have = [result for (kind, *_), result in zip(graph["outputs"], results, strict=True) if kind == "tensor"]
    both = [(one, copy) for one, copy in zip(given, copies, strict=True) if isinstance(one, Tensor)]
    for one, other in [*both, *zip(have, want, strict=True)]:
        other = torch.from_numpy(np.array(other))
        torch.testing.assert_close(one, other, equal_nan=True, check_stride=False, rtol=1e-4, atol=1e-4)
    return "agreed"


def run(count: int, seed: int, tier: str = "tcc") -> Counter[str]:
    """What became of them; anything but ArtifactError comes out, after the number of the artifact."""
    whole = [*(saved(function) for function in FUNCTIONS), saved(fifth, "own"), writing()]
    outcomes: Counter[str] = Counter()
    for number in range(count):
        source = random.Random(f"{seed}/{number}")
        torch.manual_seed(number)
        data = damaged(source.choice(whole), source, tier)
        print(f"artifact {number} of seed {seed}", file=sys.stderr)
        try:
            artifact = Artifact.deserialize_compile_artifacts(data)
        except ArtifactError as error:
            assert str(error).strip() and "broke a rule of the language" not in str(error), error
            outcomes["refused"] += 1
            continue
        for _ in range(4):
            outcome = call(artifact, unpack(data)[0], source)
            outcomes[outcome] += 1
            if outcome == "large, stopped":
                break
    return outcomes


if __name__ == "__main__":
    print(dict(run(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])))

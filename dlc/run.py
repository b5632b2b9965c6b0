"""python -m dlc run: a program in every way there is to run it, and who agrees with whom. See docs/bugs.md.

The interpreter says what is right. Whatever may crash runs in a process of its own, forked from one in which
nothing has run.
"""

from __future__ import annotations

import argparse
import base64
import functools
import hashlib
import io
import os
import pickle
import re
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import ir
from .bisect import near
from .opt import read, say
from .options import COMPILERS
from .repro import Repro, read_all

SECONDS = 60.0  # after which a run is said to hang


class Way(NamedTuple):
    """A way to run a program. tier "": the interpreter, of what the passes make of the graph."""

    name: str
    tier: str = ""
    fuel: int | None = None
    frozen: bool = False

    @property
    def pair(self) -> Way:
        """The same in the other tier, which has to give the same bits."""
        return self._replace(name=self.name.replace("gcc", "tcc"), tier="tcc")


WAYS = (
    Way("interpreter, fused"),
    Way("tcc", "tcc"),
    Way("tcc, no rewrites", "tcc", 0),
    Way("tcc, frozen", "tcc", None, True),
    Way("gcc", "gcc"),
    Way("gcc, no rewrites", "gcc", 0),
    Way("gcc, frozen", "gcc", None, True),
)


class Failure(NamedTuple):
    """What went wrong: two failures are of one kind when way, kind and of are equal."""

    way: str
    kind: str  # "crash", "hang", "error", "wrong", "bits"
    of: str = ""
    detail: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self[:3]


def ways_of(repro: Repro) -> list[Way]:
    """Those that make sense for this program, on this machine."""
    compiler = os.environ.get("DLC_CC") or any(map(shutil.which, COMPILERS))
    ways = [way for way in WAYS if (not way.frozen or repro.frozen) and (way.tier != "gcc" or compiler)]
    return [way for way in ways if way.tier or not repro.calls]


# -- one run -------------------------------------------------------------------------------------------


def _fuel(repro: Repro, way: Way) -> int:
    return int(repro.options.get("fuel", -1)) if way.fuel is None else way.fuel


def interpret(repro: Repro, fused: bool = False) -> list[np.ndarray]:
    program = ir.parse(repro.text)
    arrays, sizes = repro.arrays()
    if fused:
        program = program.run_pass("pipeline")
    made = program(*arrays, **sizes)
    return list(made) if isinstance(made, tuple) else [made]


def _constants(repro: Repro) -> list[Any]:
    from .artifact import _tensors

    random = np.random.default_rng(repro.seed)
    rows, data = [dict(row) for row in repro.constants], b""
    for row in rows:
        given = row.pop("data", None)
        item = max(np.dtype("float32").itemsize, 1)
        noise = random.standard_normal(-(-row["bytes"] // item)).astype(np.float32).tobytes()
        if row["dtype"] == "float64":
            noise = random.standard_normal(row["bytes"] // 8).tobytes()
        elif row["dtype"] != "float32":
            noise = bytes(row["bytes"])
        data += base64.b64decode(given) if given else noise[: row["bytes"]]
    return _tensors(rows, memoryview(data))


def _outputs(repro: Repro) -> tuple[list[tuple[str, int, None]], list[str | None]]:
    """What comes back, a result that is a size as a number; by result, the parameter it goes into."""
    names = re.findall(r"\n  ret (.*)", repro.text)[-1].split(", ")
    sizes = set(re.findall(r"\n  let (\w+): i64 = size ", repro.text))
    header = repro.text.partition(" {\n")[0].rpartition("->")[2]
    results = re.split(r",(?![^\[]*\])", header.strip().removeprefix("(").removesuffix(")"))
    found = [re.search(r" into (\w+)", result) for result in results]
    into = [match and match.group(1) for match in found]
    rows = [("int" if name in sizes else "tensor", k, None) for k, name in enumerate(names)]
    return [row for row, param in zip(rows, into, strict=True) if param is None], into


def _as_torch(array: np.ndarray, kind: str) -> Any:
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if kind.startswith("bf16") else tensor


def _as_array(value: Any) -> np.ndarray:
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    return (value.view(torch.uint16) if value.dtype == torch.bfloat16 else value).detach().numpy()


def compiled(repro: Repro, way: Way) -> list[np.ndarray]:
    """By machine code: the compiler takes the program as it takes an artifact."""
    from . import _C
    from .artifact import decode_call

    program = ir.parse(repro.text)
    arrays, sizes = repro.arrays()
    tensors = [_as_torch(a, param.type) for a, param in zip(arrays, program.params, strict=True)]
    names = [param.name for param in program.params]
    constants = _constants(repro)
    outputs, into = _outputs(repro)
    parts = {
        "text": repro.text,
        "inputs": [("tensor", k) for k in range(len(tensors))] + [("size", k) for k in range(len(sizes))],
        "outputs": outputs,
        "calls": [decode_call(row, constants) for row in repro.calls],
    }
    run = _C.compile(
        parts,
        _refused,
        tier=way.tier,
        cache="",
        verify=True,
        fuel=_fuel(repro, way),
        products=repro.options.get("products", "auto"),
        frozen=[names.index(name) for name in repro.frozen if name in names] if way.frozen else [],
    )
    made = run([*tensors, *(sizes[name] for name in program.sizes)])
    returned = iter(made if isinstance(made, (list, tuple)) else [made])
    return [_as_array(next(returned) if name is None else tensors[names.index(name)]) for name in into]


def _refused(*args: Any) -> Any:
    raise RuntimeError("the plan refuses these inputs: sizes or strides are not those of the program")


# -- processes -----------------------------------------------------------------------------------------


def _child(body: Callable[[Callable[[str], None]], Any], out: int) -> None:
    def stage(name: str) -> None:
        os.write(out, pickle.dumps(("stage", name)))

    try:
        found = ("done", body(stage))
    except BaseException as error:
        found = ("error", f"{type(error).__name__}: {error}")
        if os.environ.get("DLC_LOG") == "1":
            traceback.print_exc()
    with os.fdopen(out, "wb") as stream:
        pickle.dump(found, stream)


def isolated(body: Callable[[Callable[[str], None]], Any], seconds: float = SECONDS) -> tuple[str, Any, str]:
    """What body(stage) returns, in a process of its own: ("done", value, stage), or how that ended.

    ("error", text, stage), ("crash", signal, stage), ("hang", seconds, stage): stage is what body said last.
    """
    here, there = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # no thread of this process is running
        child = os.fork()
    if child == 0:
        os.close(here)
        try:
            _child(body, there)
        finally:
            os._exit(0)
    os.close(there)
    data, end = bytearray(), time.monotonic() + seconds
    while select.select([here], [], [], max(end - time.monotonic(), 0))[0]:
        part = os.read(here, 1 << 20)
        if not part:
            break
        data += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(here)
    late = time.monotonic() >= end
    said, stage = _said(bytes(data))
    if said is not None:
        os.kill(child, signal.SIGKILL)  # what it has to do at its end is of no interest
    status = os.waitpid(child, 0)[1]
    if said is not None:
        return *said, stage
    if late:
        return "hang", f"{seconds:g} s", stage
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return "crash", signal.Signals(number).name if number else f"status {os.WEXITSTATUS(status)}", stage


def _said(data: bytes) -> tuple[tuple[str, Any] | None, str]:
    """What a child has reported, if it came to that, and its last stage."""
    stream, stage = io.BytesIO(data), ""
    while stream.tell() < len(data):
        try:
            kind, value = pickle.load(stream)
        except (EOFError, pickle.UnpicklingError):
            break  # it ended while it wrote
        if kind != "stage":
            return (kind, value), stage
        stage = value
    return None, stage


# -- failures ------------------------------------------------------------------------------------------


def digest(results: list[np.ndarray]) -> str:
    """Of the bits; all NaN are one."""
    sha = hashlib.sha256()
    for array in results:
        if array.dtype.kind in "fc":
            array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
        sha.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def distance(want: list[np.ndarray], have: list[np.ndarray]) -> str:
    """The largest difference, of the largest element; where it is."""
    if [a.shape for a in want] != [b.shape for b in have]:
        return f"shapes {[b.shape for b in have]} instead of {[a.shape for a in want]}"
    worst, at = 0.0, 0
    for k, (a, b) in enumerate(zip(want, have, strict=True)):
        if a.size and a.dtype.kind in "biufc":
            x, y = (c.astype(np.complex128) for c in (a, b))
            with np.errstate(all="ignore"):
                far = np.abs(x - y) / max(np.nanmax(np.abs(np.where(np.isfinite(x), x, 0))), 1e-30)
            most = float(np.nanmax(far)) if not np.isnan(far).all() else float("nan")
            worst, at = (most, k) if not most <= worst else (worst, at)
    return f"{worst:.1e} in result {at}"


def error_of(text: str) -> str:
    """What stays the same of an error's text in a smaller program: its type, the pass, the rule."""
    words = re.findall(r"^\w+|the pass \w+|\bV\d\d\b", text)
    return " ".join(dict.fromkeys(words))


def attempt(repro: Repro, way: Way, want: list[np.ndarray] | None) -> tuple[bool, str, str]:
    """In a process of its own: is it right, how far is it from that, which bits."""
    have = compiled(repro, way) if way.tier else interpret(repro, fused=True)
    if want is None:
        return True, "nothing to compare with", digest(have)
    right = len(want) == len(have) and all(map(near, want, have))
    return right, distance(want, have), digest(have)


def _way(name: str) -> Way | None:
    return next((way for way in WAYS if way.name == name), None)


def repeat(repro: Repro, like: Failure, seconds: float = SECONDS) -> Failure | None:
    """The failure that the program has in the way of `like`; None: none, or the program is none."""
    way = _way(like.way)

    def body(stage: Callable[[str], None]) -> Any:
        stage("program")
        ir.parse(repro.text)
        stage("interpreter")
        want = None if way is not None and like.kind == "bits" else interpret(repro)
        if way is None:
            return True, "", ""
        stage(way.name)
        found = attempt(repro, way, want)
        if like.kind == "bits":
            return attempt(repro, way.pair, None)[2] == found[2], "", ""
        return found

    kind, value, stage = isolated(body, seconds)
    if stage == "program" or stage != like.way:
        return None
    if kind != "done":
        return Failure(stage, kind, error_of(value) if kind == "error" else value, str(value))
    right, far, _ = value
    return None if right else Failure(stage, "bits" if like.kind == "bits" else "wrong", "", far)


def failures(repro: Repro, show: Callable[[str, str, str], None] | None = None) -> list[Failure]:
    """Of every way, in order; show(way, what, bits) is told of each. Without show: the first one."""
    from . import artifact, torch_init  # noqa: F401  (once, before the processes that are forked)

    tell = show or (lambda way, what, bits: None)
    found: list[Failure] = []
    bits: dict[str, str] = {}
    kind, want, _ = isolated(lambda stage: interpret(repro))
    if kind != "done":
        by_calls = kind == "error" and "which dlc's interpreter cannot run" in want
        tell("interpreter", "the program calls operators of torch" if by_calls else f"{kind}: {want}", "")
        if not by_calls:
            return [Failure("interpreter", kind, error_of(want) if kind == "error" else want, str(want))]
        want = None
    else:
        tell("interpreter", "is what the others are compared with", digest(want))
    for way in ways_of(repro):
        if found and show is None:
            break
        kind, value, _ = isolated(functools.partial(_attempt_all, repro, way, want))
        if kind != "done":
            found.append(Failure(way.name, kind, error_of(value) if kind == "error" else value, str(value)))
            tell(way.name, f"{kind}: {value}", "")
            continue
        (right, far, bits[way.name]), have = value
        want = have if want is None else want
        unequal = right and way.tier == "gcc" and bits.get(way.pair.name, bits[way.name]) != bits[way.name]
        if not right or unequal:
            found.append(Failure(way.name, "bits" if right else "wrong", "", far))
        what = "right" if right else "WRONG"
        tell(way.name, f"{what}, {far}" + (", other bits than tcc's" if unequal else ""), bits[way.name])
    return found


def _attempt_all(repro: Repro, way: Way, want: Any, stage: Any) -> Any:
    """attempt, and where nothing is known yet, the results for the others."""
    if want is not None:
        return attempt(repro, way, want), None
    have = compiled(repro, way)
    return (True, "the others are compared with it", digest(have)), have


# -- the command ---------------------------------------------------------------------------------------


class _Table:
    """Lines of the table as they come; the same letter: the same bits."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def __call__(self, way: str, what: str, bits: str) -> None:
        letter = self.letters.setdefault(bits, chr(ord("A") + len(self.letters) % 26)) if bits else "-"
        first, *rest = what.splitlines() or [""]
        print(
            f"  {way:20} {letter:4} {first}", *(f"{'':28}{line}" for line in rest[:12]), sep="\n", flush=True
        )


def load(file: str) -> list[Repro]:
    """The programs of a file; none, and why is said, where it has none that can run."""
    try:
        repros = read_all(read(file))
        if not repros:
            raise ValueError("there is no program in it")
        for repro in repros:
            ir.parse(repro.text, file)
    except Exception as error:
        say(file, error)
        return []
    return repros


def _run(args: argparse.Namespace) -> int:
    from .files import command

    if command.is_model(args.file):
        return command.run(args)
    if args.input or args.output or args.weights:
        print(f"{args.file} is no file of dlc.save: --input and --output are for those", file=sys.stderr)
        return 2
    repros = load(args.file)
    if not repros:
        return 3
    status = 0
    for k, repro in enumerate(repros):
        head = f"program {k + 1} of {len(repros)}: " if len(repros) > 1 else ""
        lets = repro.text.count("\n  let ")
        print(f"{head}{lets} lets, seed {repro.seed}, {repro.known_sizes() or 'no sizes'}")
        print(f"  {'way':20} bits")
        found = failures(repro, _Table())
        crashed = any(f.kind in ("crash", "hang") for f in found)
        status = max(status, 2 if crashed else 1 if found else 0)
    print(("all agree", "they disagree", "one crashed")[status])
    return status


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "run", help="run a saved model; or a program or a saved bug in every way, and compare"
    )
    parser.add_argument("file", help="a file of dlc.save, of dlc.save_repro, or of IR text")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]X.npy",
        help="an argument of a saved model, in order or by name",
    )
    parser.add_argument("--output", metavar="Y.npy", help="where the model's first result goes")
    parser.add_argument("--weights", metavar="FILE", help="the safetensors file of the model's weights")
    parser.set_defaults(run=_run)

"""python -m dlc run m.dlc --input x.npy, info, verify, export m.dlc folder: models without torch."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

import numpy as np

from . import FileError, is_onnx


def is_model(path: str) -> bool:
    """Does the file begin as one of safetensors?  What is wrong with it is told when it is loaded."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            head = file.read(9)
    except OSError:
        return False
    return len(head) == 9 and head[8:] == b"{" and 0 in head[:8]


def _load(args: argparse.Namespace, check: bool = False) -> Any:
    from .model import load

    return load(args.file, args.weights, check, "auto")


def _failing(args: argparse.Namespace, does: Any) -> int:
    """The exit code of a command: 3 where the file cannot be used."""
    try:
        return int(does(args))
    except (FileError, OSError) as error:
        print(error, file=sys.stderr)
        return 3


def _array(path: str) -> np.ndarray:
    return np.load(path, allow_pickle=False)


def _shown(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    text = np.array2string(value, threshold=20, edgeitems=3)
    return f"{value.dtype}{list(value.shape)}\n{text}"


def _leaves(value: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(item, f"{name}[{key!r}]")]
    if isinstance(value, (tuple, list)):
        return [leaf for k, item in enumerate(value) for leaf in _leaves(item, f"{name}[{k}]")]
    return [(name, value)]


def _run(args: argparse.Namespace) -> int:
    model = _load(args)
    given, named = [], {}
    try:
        for text in args.input:
            name, sign, path = text.partition("=")
            if sign and name.isidentifier():
                named[name] = _array(path)
            else:
                given.append(_array(text))
        result = model(*given, **named)
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return 2
    found = _leaves(result, "result")
    for name, value in found:
        print(f"{name}: {_shown(value)}")
    if args.output:
        with open(args.output, "wb") as file:
            np.save(file, found[0][1], allow_pickle=False)
    return 0


def run(args: argparse.Namespace) -> int:
    return _failing(args, _run)


def _info(args: argparse.Namespace) -> int:
    from .tensors import Tensors

    model = _load(args)
    meta, table = model.metadata, Tensors(args.file, lambda metadata: None).entries
    print(model.signature)
    print(f"written by {meta.get('producer', 'unknown')}, format {meta['dlc.format']}")
    for name, (low, high, multiple) in model.sizes.items():
        most = "" if high is None else f", at most {high}"
        print(
            f"  size {name}: at least {low}{most}" + (f", a multiple of {multiple}" if multiple > 1 else "")
        )
    weights, lets = model.weights, model.text.count("\n  let ")
    total = sum(array.nbytes for array in weights.values())
    print(f"{lets} operations, {len(weights)} weights of {total} bytes, {len(table)} arrays in the file")
    print("an example is stored" if meta.get("dlc.example_sha256") else "no example is stored")
    if args.text:
        print(model.text, end="")
    return 0


def _verify(args: argparse.Namespace) -> int:
    begin = time.perf_counter()
    model = _load(args, check=True)
    try:
        same, found, wanted = model.verify()
    except ValueError as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return 3
    if not same:
        print(f"other bits: the results of the example have SHA-256 {found}, and it was {wanted}")
        print("on a processor without fused multiply-add, or by another version of dlc, this may be so")
        return 1
    print(f"the same bits: the example was repeated in {time.perf_counter() - begin:.2f} s with all checks")
    return 0


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not name or not value.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER")
    return name, int(value)


def _export(args: argparse.Namespace) -> int:
    from .. import ir
    from .._C import CaptureError, InternalError, ParseError
    from ..opt import read
    from .model import program, weights_of

    weights = {}
    try:
        if args.wasm or args.target == "wasm":
            if args.target not in (None, "wasm"):
                raise ValueError(
                    f"--wasm is --target wasm, and --target {args.target} is another: give one of them"
                )
            for path in _load(args).export_wasm(args.folder, args.name, sizes=dict(args.size)):
                print(path)
            return 0
        if args.file != "-" and is_model(args.file):
            function, signature, fixed = program(args.file, args.weights)
            weights = weights_of(function, signature, fixed)
            if weights and not args.unprepared and args.target in (None, "c"):
                function, weights = function._prepared(weights)
        else:
            function = ir.parse(read(args.file), "standard input" if args.file == "-" else args.file)
        paths = function.export_c(
            args.folder,
            args.name,
            sizes=dict(args.size),
            threads=args.threads,
            weights=weights,
            target=args.target or "c",
            prepare=False,
        )
    except FileError:
        raise
    except (ParseError, InternalError, CaptureError, ValueError, RuntimeError) as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return 2
    for path in paths:
        print(path)
    inside = weights and not any(path.suffix == ".safetensors" for path in paths)
    for param, (name, array) in weights.items():
        where = f"of {array.nbytes} bytes in the program" if inside else f"of {args.name}_bind"
        print(f"  {param} is the weight {name!r} {where}")
    return 0


def _convert(args: argparse.Namespace) -> int:
    from .. import load

    if not is_onnx(args.file):
        raise FileError(f"{args.file} is no file of ONNX: their names end in .onnx")
    try:
        model = load(args.file, sizes=dict(args.size) or None)
    except (ImportError, TypeError) as error:
        print(error, file=sys.stderr)
        return 3
    model.save(args.to)
    print(model.signature)
    return 0


def add_command(commands: Any) -> None:
    info = commands.add_parser("info", help="print what a saved model takes, gives and holds")
    info.add_argument("--text", action="store_true", help="also the program")
    verify = commands.add_parser("verify", help="repeat a saved model's example: are the bits the same?")
    for parser, does in ((info, _info), (verify, _verify)):
        parser.add_argument("file", help="a file of dlc.save")
        parser.add_argument("--weights", metavar="FILE", help="the safetensors file of the model's weights")
        parser.set_defaults(run=lambda args, does=does: _failing(args, does))
    convert = commands.add_parser("convert", help="write a file of ONNX as one of dlc's")
    convert.add_argument("file", help="a file of ONNX")
    convert.add_argument("to", help="the file to write")
    convert.add_argument(
        "--size", action="append", default=[], type=_size, metavar="NAME=NUMBER",
        help="a dimension of the inputs that always is this number",
    )  # fmt: skip
    convert.set_defaults(run=lambda args: _failing(args, _convert))
    export = commands.add_parser(
        "export", help="write a saved model or a program of text as plain C, or for browsers"
    )
    export.add_argument("file", help="a file of dlc.save, or of IR text; - is standard input")
    export.add_argument("folder", help="where the files go; it is made if there is none")
    export.add_argument("--weights", metavar="FILE", help="the safetensors file of the model's weights")
    export.add_argument("--name", default="m", help="what the names of files and functions begin with")
    export.add_argument(
        "--size", action="append", default=[], type=_size, metavar="NAME=NUMBER",
        help="a size of the example that the check runs; with another target than c, of the program",
    )  # fmt: skip
    export.add_argument(
        "--threads", type=int, default=16, help="into so many pieces a kernel is cut, at most"
    )
    export.add_argument(
        "--target", choices=("c", "device", "hls", "wasm"),
        help="any compiler (if none is given), a small device, a tool that makes circuits, a browser",
    )  # fmt: skip
    export.add_argument(
        "--unprepared", action="store_true",
        help="weights as the model has them, which each call of the C prepares: for others of the same names",
    )  # fmt: skip
    export.add_argument(
        "--wasm", action="store_true", help="a saved model for browsers: WebAssembly and a page"
    )
    export.set_defaults(run=lambda args: _failing(args, _export))

"""The node tests that ONNX ships: each one is run, and what does not pass has a reason.

`python -m tests.files.onnx_cases` prints the counts by reason; with --list also the names, and with
--write they are written to the tables of docs/howto/onnx.md.
"""

from __future__ import annotations

import re
import sys
import textwrap
import warnings
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from dlc import FileError, ir
from dlc.files.onnx import operators, translated
from dlc.files.onnx_package import DTYPES, OTHER_BITS

PAGE = Path(__file__).parents[2] / "docs/howto/onnx.md"
PASSED, WITH_CONSTANTS, WRONG = "passed", "passed, with inputs as constants", "wrong"
FURTHER = "its expected numbers are further from the exact ones than dlc's"
_KINDS = {"string": "strings", "float4e2m1": "floats of 4 bits"}
_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_CONSTANT = re.compile(r"constants=\{'(.*?)': \.\.\}")


@cache
def cases() -> dict[str, Any]:
    """By name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return {case.name: case for case in load_model_tests(kind="node")}


def _tensors(values: Any) -> bool:
    return all(isinstance(value, (np.ndarray, np.generic)) for value in values)


def _array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _as_dlc(array: Any) -> np.ndarray:
    """Element types that NumPy or dlc lacks, as numbers with the same bits."""
    array = np.asarray(array)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype) if array.dtype.kind != "c" else 0
    return array.view(ir._NUMPY[DTYPES[kind]]) if kind in OTHER_BITS else array


def _exact(case: Any, inputs: Any) -> Any:
    """The first output, computed with more bits: in float64 by NumPy, or in float32 by the package."""
    if case.name.startswith("test_dft"):
        (x, *_) = inputs
        made = np.fft.ifft(x[..., 0].astype(np.float64) + 1j * x[..., 1], axis=1)
        return np.stack([made.real, made.imag], axis=-1)
    model = onnx.ModelProto()
    model.CopyFrom(cases()[case.name.removesuffix("_expanded")].model)
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type in _HALVES:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    names = [value.name for value in model.graph.input]
    arrays = [np.asarray(a) for a in inputs]
    wide = [a.astype(np.float32) if a.dtype.name in ("float16", "bfloat16") else a for a in arrays]
    return ReferenceEvaluator(model).run(None, dict(zip(names, wide, strict=True)))[0]


def _is_nearer(case: Any, inputs: Any, wanted: Any, got: Any) -> bool:
    """Are dlc's numbers nearer to the exact ones than the expected ones, on the whole and at worst?"""
    if not case.name.startswith(("test_dft_inverse", "test_attention_")):
        return False
    wanted = np.asarray(wanted)
    if wanted.dtype.name == "bfloat16":
        got = got.view(wanted.dtype)
    exact = _exact(case, inputs).astype(np.float64)
    ours, theirs = (np.abs(a.astype(np.float64) - exact) for a in (got, wanted))
    return bool(ours.max() <= theirs.max() and ours.mean() <= theirs.mean())


def _same(case: Any, wanted: Any, got: Any) -> str | None:
    wanted, got = np.asarray(wanted), np.asarray(got)
    if wanted.dtype.name.startswith("float8"):
        got = got.view(wanted.dtype).astype(np.float32)
        wanted = wanted.astype(np.float32)
        return None if np.array_equal(got, wanted, equal_nan=True) else "other values"
    if wanted.dtype.name == "bfloat16":
        got = got.view(wanted.dtype).astype(np.float32)
        wanted = wanted.astype(np.float32)
    elif (as_dlc := _as_dlc(wanted)).dtype != wanted.dtype:
        few = wanted.dtype.name.removeprefix("u") in ("int2", "int4")
        wanted = wanted.astype(as_dlc.dtype) if few else as_dlc  # else bit for bit
    if wanted.dtype != got.dtype or wanted.shape != got.shape:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    if not np.allclose(got, wanted, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return "other values"
    return None


def load(case: Any, arguments: dict[str, Any], tier: str = "tcc") -> tuple[Any, dict[str, Any]]:
    """The model, with those inputs as constants that have to be ones."""
    constants: dict[str, Any] = {}
    while True:
        try:
            return translated(case.model, ".", constants, {}, tier), constants
        except FileError as error:
            name = _CONSTANT.search(str(error))
            if not name or name[1] not in arguments or name[1] in constants:
                raise
            constants[name[1]] = arguments[name[1]]


def run(case: Any) -> tuple[str, str]:
    """A reason, and what there is to say."""
    names = [value.name for value in case.model.graph.input]
    used = {""}
    for data in case.data_sets:
        inputs, outputs = (list(map(_array, part)) for part in data)
        if not _tensors(inputs) or not _tensors(outputs):
            return "sequences, optionals", ""
        arguments = {name: _as_dlc(a) for name, a in zip(names, inputs, strict=False)}
        try:
            model, constants = load(case, arguments)
        except FileError as error:
            return reason(str(error)), str(error)
        used |= set(constants)
        try:
            made = model(**{name: a for name, a in arguments.items() if name not in constants})
        except Exception as error:
            return WRONG, f"{type(error).__name__}: {error}"
        made = made if isinstance(made, tuple) else (made,)
        for wanted, got in zip(outputs, made, strict=True):
            if wrong := _same(case, wanted, got):
                nearer = wanted is outputs[0] and _is_nearer(case, inputs, wanted, got)
                return (FURTHER, "") if nearer else (WRONG, wrong)
    return (WITH_CONSTANTS if len(used) > 1 else PASSED), ""


def reason(text: str) -> str:
    if match := re.search(
        r"has the element type (\w+)|dlc has no element type for ONNX's number (\d+)", text
    ):
        number = match[2] and onnx.TensorProto.DataType.Name(int(match[2])).lower()
        return _KINDS.get(match[1] or number, f"element type {match[1] or number}")
    if "is no tensor" in text or "attributes of graphs" in text or re.search(r"nodes?: Optional\w+ of", text):
        return "sequences, optionals"
    if "ImageDecoder" in text:
        return "images"
    if "Random" in text or "random numbers" in text:
        return "random numbers"
    if match := re.search(r"cannot translate \d+ nodes?: ([\w.]+)(?: \S+)? of opset \d+(: )?", text):
        return f"a form of {match[1]}" if match[2] else f"operator {match[1]}"
    return "a function that the onnx package does not put in place" if "put in place" in text else text[:60]


def operators_table() -> str:
    """The operators with a row, in lines."""
    names = sorted({op for op, _ in operators()})
    return textwrap.fill(", ".join(f"`{name}`" for name in names) + f": {len(names)}.", 150) + "\n"


_WORDS = {
    "operator": "an operator that is not there",
    "element type": "an element type that dlc lacks",
    "a form of": "a form of an operator that is not there",
}


def cases_table(counts: Counter[str]) -> str:
    """By reason; operators and element types together."""
    rows: Counter[str] = Counter()
    for why, count in counts.items():
        kind = next((kind for kind in _WORDS if why.startswith(kind)), why)
        rows[_WORDS.get(kind, kind)] += count
    lines = [f"| {why} | {count:,} |" for why, count in rows.most_common()]
    total = f"| all, of onnx {onnx.__version__} | {counts.total():,} |"
    return "\n".join(["| | cases |", "|---|---|", *lines, total]) + "\n"


def put(text: str, mark: str, table: str) -> str:
    """The page with the table between its marks."""
    before, _, rest = text.partition(f"<!-- {mark} -->\n")
    return f"{before}<!-- {mark} -->\n{table}{rest[rest.index('<!-- end -->') :]}"


def main() -> None:
    names = defaultdict(list)
    for name, case in cases().items():
        why, said = run(case)
        names[why].append(f"{name}  {said}")
        if why == WRONG:
            print(f"wrong: {name}: {said}", flush=True)
    counts = Counter({why: len(of) for why, of in names.items()})
    for why, count in counts.most_common():
        print(f"{count:5} {why}")
        if "--list" in sys.argv:
            print("\n".join(f"        {name}" for name in names[why]))
    print(f"{counts.total():5} of onnx {onnx.__version__}")
    if "--write" in sys.argv:
        text = put(PAGE.read_text(), "operators", operators_table())
        PAGE.write_text(put(text, "cases", cases_table(counts)))


if __name__ == "__main__":
    main()

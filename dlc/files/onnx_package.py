"""What reading and writing of ONNX share: the package, its errors in one line, its dtypes by number."""

from __future__ import annotations

from functools import cache
from typing import Any

BF16 = 16  # by its number in ONNX; numpy has none, so its arrays are the codes as uint16
DTYPES = {
    1: "f32", 2: "u8", 3: "i8", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 14: "c64",
    15: "c128", 16: "bf16",
    # arrays of these are given as numbers with the same bits, one to a byte at least
    4: "i16", 12: "i32", 13: "i64", 17: "u8", 18: "u8", 19: "u8", 20: "u8", 21: "u8", 22: "i8", 24: "u8",
    25: "u8", 26: "i8",
}  # fmt: skip
PACKED = (21, 22, 23, 25, 26)  # several to a byte in a file
OTHER_BITS = (4, 12, 13, 16, 17, 18, 19, 20, 21, 22, 24, 25, 26)


@cache
def package() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.inliner
        import onnx.numpy_helper
        import onnx.shape_inference
        import onnx.version_converter
    except ImportError as error:
        raise ImportError(
            f"files of ONNX are read by the onnx package ({error}): pip install 'dlc[onnx]'"
        ) from None
    return onnx


def line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text:.300}" if text else type(error).__name__

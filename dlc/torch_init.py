"""What the extension must know of torch before anything is compiled: importing this tells it.

Raises ImportError for a torch that this dlc is not for: C calls functions of libtorch by their prototypes.
What one of its versions lacks is done without, and `python -m dlc doctor` says what that is.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import re
from collections.abc import Iterator

import torch
from torch._C import DispatchKey
from torch.autograd import forward_ad

from . import _C
from .environment import is_yes

#: The first and the last version that dlc is for.  docs/limits.md says what was run on each.
SERIES = ((2, 12), (2, 14))


def version() -> tuple[int, ...]:
    """The first two numbers of torch's version; (): it has none."""
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return tuple(map(int, found.groups())) if found else ()


def _check_version() -> None:
    first, last = SERIES
    if first <= version() <= last or is_yes("DLC_ANY_TORCH"):
        return
    oldest, newest = (".".join(map(str, version)) for version in SERIES)
    raise ImportError(
        f"this dlc is for PyTorch {oldest} to {newest}, and this is PyTorch {torch.__version__}: "
        f"install torch=={newest}.*, or set DLC_ANY_TORCH=1 to try it all the same"
    )


def dispatch_keys(tensor: torch.Tensor) -> int:
    return torch._C._dispatch_keys(tensor).raw_repr()


def keys_of(*names: str) -> int:
    """The bits of dispatch keys."""
    keys = (torch._C.DispatchKeySet(getattr(DispatchKey, name)).raw_repr() for name in names)
    return functools.reduce(operator.or_, keys)


@contextlib.contextmanager
def ordinary() -> Iterator[None]:
    """Tensors made inside are ordinary ones, whatever is on where a compile first imports dlc."""
    with torch._C._DisableTorchDispatch(), torch.inference_mode(False), torch.no_grad():
        yield


def _samples() -> list[tuple[torch.Tensor, int]]:
    """Tensors with their dispatch keys: an ordinary one, one of inference mode, and unlike ones."""
    with ordinary():
        with torch.inference_mode():
            inference = torch.empty(0, device="cpu")
        complex_ = torch.empty(1, dtype=torch.complex64, device="cpu").conj()
        plain, other = torch.empty(0, device="cpu"), torch.empty(0, device="meta")
    return [(tensor, dispatch_keys(tensor)) for tensor in (plain, inference, complex_, complex_.imag, other)]


def _float8_overflows() -> bool:
    """From 2.13 on, numbers that are too large for float8_e4m3fn become the largest one."""
    with ordinary():
        return bool(torch.full((), 1e6, device="cpu").to(torch.float8_e4m3fn).to(torch.float32).isnan())


_check_version()
_SAMPLES = _samples()
#: Of an ordinary tensor, and of one of inference mode.
PLAIN_KEYS = tuple(keys for _, keys in _SAMPLES[:2])
_C.torch_init(
    torch.Tensor, torch.nn.Parameter, _SAMPLES, keys_of("Conjugate", "Negative"), keys_of("ADInplaceOrView"),
    torch.is_inference_mode_enabled, vars(forward_ad), _float8_overflows(),
)  # fmt: skip

"""The table of overloads against torch: each exists, and the core set is covered."""

import torch
import torch._inductor.inductor_prims  # prims.fma
import torch.ao.quantization.fx._decomposed
from expecttest import assert_expected_inline
from torch._ops import OpOverload

from dlc import (
    _C,
    notation,  # noqa: F401  (torch.ops.dlc)
)
from dlc.decompositions import NAMES, decompositions


def overload(name: str) -> OpOverload:
    namespace, packet, kind = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), kind)


def test_every_row_is_an_overload_of_torch() -> None:
    for name in _C.overloads():
        assert str(overload(name)) == name


def test_no_row_twice() -> None:
    names = _C.overloads()
    assert len(names) == len(set(names))


def test_no_row_draws_random_numbers_or_writes() -> None:
    for name in _C.overloads():
        op = overload(name)
        assert torch.Tag.nondeterministic_seeded not in op.tags, name
        written = [a.name for a in op._schema.arguments if a.alias_info and a.alias_info.is_write]
        assert not written, name


def test_decompositions_and_rows_are_disjoint() -> None:
    """A decomposed overload reaches its builder only from functions that AOTAutograd does not see.

    Forms of views that copy come from the bodies of loops and branches, which it does not decompose.
    """
    both = {str(op) for op in decompositions()} & set(_C.overloads())
    assert {name for name in both if "_copy." not in name} == {"aten._log_softmax.default"}


def test_every_name_has_a_decomposition() -> None:
    found = {str(op).split(".")[1] for op in decompositions()}
    assert [name for name in NAMES if name not in found] == []


def core() -> set[str]:
    """torch's core set, without the variants that write."""
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")}
    found = set()
    for name in names:
        packet, _, kind = name.removeprefix("aten::").partition(".")
        op = getattr(getattr(torch.ops.aten, packet), kind or "default")
        if torch.Tag.core in op.tags and not op._schema.is_mutable:
            found.add(str(op))
    return found


def test_core_overloads_that_run_in_eager() -> None:
    done = set(_C.overloads()) | {str(op) for op in decompositions()}
    assert_expected_inline(
        "\n".join(sorted(core() - done)),
        """\
aten._cdist_forward.default
aten._fft_c2r.default
aten._fft_r2c.default
aten._local_scalar_dense.default
aten._pdist_forward.default
aten.adaptive_avg_pool1d.default
aten.addmm.default
aten.avg_pool1d.default
aten.bmm.default
aten.convolution.default
aten.convolution_backward.default
aten.grid_sampler_2d.default
aten.mm.default
aten.native_dropout.default
aten.nonzero.default
aten.rand.default
aten.randn.default
aten.randperm.default
aten.sort.default
aten.sym_is_contiguous.default
aten.sym_numel.default
aten.sym_size.int
aten.sym_storage_offset.default
aten.sym_stride.int
aten.topk.default
aten.upsample_bilinear2d.vec
aten.upsample_nearest2d.vec
aten.var.dim""",
    )

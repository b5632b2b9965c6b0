"""What an artifact may call, against every operator that the dispatcher knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

from dlc import operators
from dlc.artifact import ArtifactError, _operator

# What an operator that only computes takes.
KINDS = {"Tensor", "int", "bool", "number", "float", "str", "Device", "Generator"}
# Words in the names of operators that do more, or believe more, than they should.
WORD = re.compile(
    "file|save|load|print|socket|thread|process|seed|set_|_set|cuda|cudnn|cufft|miopen|mps|vulkan|xla|pin_memory"
    "|record_stream|sparse_csr|coo_tensor|unsafe_tensor|view_from_buffer|_reshape_alias|resize|fbgemm"
)


def schemas() -> Iterator[tuple[str, torch.FunctionSchema]]:
    """Of every operator that the dispatcher has, by its name as str(overload) gives it."""
    known = set(torch._C._dispatch_get_all_op_names())
    for schema in torch._C._jit_get_all_schemas():
        overload = f".{schema.overload_name}" if schema.overload_name else ""
        if f"{schema.name}{overload}" in known:
            yield f"{schema.name}.{schema.overload_name or 'default'}".replace("::", "."), schema


SCHEMAS = dict(schemas())


def test_there_are_many_and_most_of_the_list_are_there() -> None:
    assert len(SCHEMAS) > 3000
    assert len(operators.listed() & set(SCHEMAS)) > 1200


def kinds(schema: torch.FunctionSchema) -> Iterator[str]:
    for argument in schema.arguments:
        kind = str(argument.type)
        for wrapper in ("Optional", "List", "Optional"):
            kind = kind.removeprefix(f"{wrapper}[").removesuffix("]") if wrapper in kind else kind
        yield kind


def test_what_is_on_the_list_only_computes() -> None:
    """By its schema, and by its name."""
    for name in operators.listed() & set(SCHEMAS):
        schema = SCHEMAS[name]
        assert name.startswith(("aten.", "prims.")), name
        assert not schema.is_mutable, name
        assert set(kinds(schema)) <= KINDS, name
        assert not WORD.search(name), name


def test_everything_else_is_refused_by_name() -> None:
    refused = 0
    for name, schema in SCHEMAS.items():
        if name in operators.listed():
            continue
        with pytest.raises(ArtifactError, match="which is not among the operators") as error:
            _operator(name, str(schema))
        assert name in str(error.value)
        refused += 1
    assert refused > 1500


def test_everything_on_the_list_is_found_where_torch_has_it() -> None:
    for name in operators.listed() & set(SCHEMAS):
        assert str(_operator(name, str(SCHEMAS[name]))) == name


@pytest.mark.parametrize(
    "name",
    [
        "aten.from_file.default",
        "aten._print.default",
        "aten._backward.default",
        "aten.sin_.default",
        "aten.add.out",
        "aten._cufft_set_plan_cache_max_size.default",
        "aten.pin_memory.default",
        "aten.set.source_Tensor",
        "aten._reshape_alias.default",
        "aten._nested_view_from_buffer.default",
        "c10d.broadcast_.default",
        "profiler._record_function_enter_new.default",
        "quantized.linear.default",
        "inductor._alloc_from_pool.default",
    ],
)
def test_examples_of_what_is_refused(name: str) -> None:
    assert name in SCHEMAS
    with pytest.raises(ArtifactError, match=name):
        _operator(name, str(SCHEMAS[name]))


def test_a_new_operator_of_torch_s_is_refused() -> None:
    """Also as an overload of one that is allowed."""
    library = torch.library.Library("aten", "FRAGMENT")
    library.define("dlc_test_is_new(Tensor x) -> Tensor")
    library.define("sin.dlc_test(Tensor x) -> Tensor")
    for overload in (torch.ops.aten.dlc_test_is_new.default, torch.ops.aten.sin.dlc_test):
        with pytest.raises(ArtifactError, match="which is not among the operators"):
            _operator(str(overload), str(overload._schema))
    del library


def test_the_list_is_in_order_and_has_nothing_twice() -> None:
    path = operators.__file__.replace(".py", ".txt")
    with open(path, encoding="utf-8") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    names = [row[0] for row in rows]
    assert names == sorted(set(names))
    assert all(len(set(row[1:])) == len(row) - 1 > 0 for row in rows)

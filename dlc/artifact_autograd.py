"""Graphs that need AOTAutograd, for torch's aot_compile: training, writes to inputs, views of them.

What is saved around dlc's graphs here is torch's: the description of AOTAutograd's wrappers, in its own format.
"""

from __future__ import annotations

from typing import Any

from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.output_code import OutputCode
from torch.fx import GraphModule

from .artifact import Packed, compile_packed
from .decompositions import decompositions
from .options import Options


class Graph(OutputCode):
    """One graph of AOTAutograd's, forward or backward: an artifact's bytes when it is saved."""

    def __init__(self, packed: Packed) -> None:
        super().__init__()
        self._boxed_call = True  # of the instance: torch's wrappers copy its dict
        self.packed = packed

    def __call__(self, *inputs: Any) -> Any:  # type: ignore[override]
        """One list of inputs, which is emptied, or the inputs themselves: torch does either."""
        return self.packed.callable(*inputs)

    def __copy__(self) -> Graph:
        return self  # nothing of it changes

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.packed.to_bytes(),)

    def prepare_for_serialization(self) -> None:
        """Nothing to take away: __reduce__ saves the bytes alone."""

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Nothing to do after loading."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There is none on the CPU."""


def _load(data: bytes) -> Graph:
    return Graph(Packed.from_bytes(data))


def compile_autograd(gm: GraphModule, example_inputs: list[Any], given: dict[str, Any], options: Options) -> Any:
    """Dynamo's graph as a callable that torch knows to save."""

    def compile_graph(graph: GraphModule, inputs: Any) -> Graph:
        return Graph(compile_packed(graph, given, options))

    compiler = SerializableAOTDispatchCompiler(Graph, compile_graph)
    return aot_module_simplified(
        gm,
        example_inputs,
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )

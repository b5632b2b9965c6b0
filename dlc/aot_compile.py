"""What the backend gives torch's aot_compile: callables that are saved as artifacts. See docs/aot_compile.md.

An inference graph that neither writes to its inputs nor returns views of them is one artifact. Every other
one goes through AOTAutograd; each of its graphs is an artifact, and around them torch saves its own
description of what its wrappers do.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.aot_compile_types import SerializableCallable
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext
from torch._inductor.output_code import OutputCode
from torch.fx import GraphModule

from . import trace
from ._C import CaptureError, InternalError
from .artifact import ArtifactError, Packed, compile_packed
from .decompositions import decompositions
from .guards import make_readable
from .inputs import inputs_of, say_inputs
from .options import Options
from .partition import Partitioner

log = logging.getLogger("dlc")


class Artifact(SerializableCallable):
    """A compiled graph that torch's aot_compile saves and loads.

    Called with the inputs of Dynamo's graph (dense CPU tensors, and int for sizes), gives its outputs.
    The header's "leaves" say what each output is: ["result", position], ["argument", position] or ["object",
    value]; None: the results in their order.
    """

    def __init__(self, packed: Packed) -> None:
        make_readable()
        self._packed = packed
        self._callable = packed.callable
        self._leaves = packed.header["leaves"]

    def __call__(self, *args: Any) -> Any:
        results = self._callable(*args)
        if self._leaves is None:
            return results
        sources = {"result": results, "argument": args}
        return [sources[kind][value] if kind in sources else value for kind, value in self._leaves]

    @classmethod
    def serialize_compile_artifacts(cls, fn: Artifact) -> bytes:
        return fn._packed.to_bytes()

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Artifact:
        """Raises ArtifactError for what is no artifact, is damaged, newer, or calls what is not here."""
        return cls(Packed.from_bytes(data))


class Graph(OutputCode):
    """One graph of AOTAutograd's, forward or backward: an artifact's bytes when it is saved."""

    def __init__(self, packed: Packed) -> None:
        make_readable()
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


# -- compiling -----------------------------------------------------------------------------------------


_MODES = ("_set_grad_enabled", "_enter_inference_mode")


def _fake(value: Any) -> Any:
    """A plain dense fake tensor of the same sizes and strides."""
    if not isinstance(value, Tensor):
        return value
    if value.layout is not torch.strided or value.is_conj() or value.is_neg():
        raise CaptureError("an input that is not a plain dense tensor")
    if value.requires_grad and torch.is_grad_enabled():
        raise CaptureError("an input that requires a gradient")
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _leaf(kind: str, value: Any) -> list[Any]:
    if not (value is None or isinstance(value, (bool, int, float, str))):
        raise ArtifactError(
            f"it returns an object of type {type(value).__name__}, which has no form in a file"
        )
    return [kind, value]


def _compile_inference(gm: GraphModule, given: dict[str, Any], options: Options) -> Artifact:
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if any(getattr(node.target, "__name__", "") in _MODES for node in gm.graph.nodes):
        raise CaptureError("it switches the recording of gradients on or off")
    with trace.capturing(), TracingContext.get().fake_mode:
        fakes = [_fake(node.meta["example_value"]) for node in placeholders]
        graph, leaves = trace.capture_graph(gm, fakes)
    packed = compile_packed(graph, given, options)
    if any(leaf != ("result", k) for k, leaf in enumerate(leaves)):
        packed.header["leaves"] = [_leaf(kind, value) for kind, value in leaves]
    return Artifact(packed)


def _compile_autograd(
    gm: GraphModule, example_inputs: list[Any], given: dict[str, Any], options: Options
) -> Any:
    """Dynamo's graph as a callable that torch knows to save."""

    def compile_graph(graph: GraphModule, inputs: Any) -> Graph:
        try:
            return Graph(compile_packed(graph, given, options))
        except CaptureError as error:
            say_inputs(error, graph, inputs_of(gm))
            raise

    compiler = SerializableAOTDispatchCompiler(Graph, compile_graph)
    return aot_module_simplified(
        gm,
        example_inputs,
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(),
        partition_fn=Partitioner(options.memory_budget, options.fuel, options.products),
        keep_inference_input_mutations=True,
    )


def compile_artifact(
    gm: GraphModule, example_inputs: list[Any], given: dict[str, Any], options: Options
) -> Any:
    """What the backend returns for torch's aot_compile: Dynamo's graph as something that can be saved.

    given: the options that the user gave. Raises CaptureError for a graph that dlc cannot take, and
    ArtifactError for one that cannot be saved.
    """
    try:
        if options.capture != "aot":
            return _compile_inference(gm, given, options)
    except (ArtifactError, InternalError):
        raise
    except Exception as reason:
        if options.capture == "direct":
            raise
        log.debug("aot_compile goes through AOTAutograd: %s", reason)
    return _compile_autograd(gm, example_inputs, given, options)

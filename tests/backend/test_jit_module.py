"""dlc.jit of a torch.nn.Module: what its calls give, what is noticed at a call, and what is refused."""

import copy
import gc
import pickle
import random
import threading
import tracemalloc
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, weight_norm

import dlc
from dlc import CaptureError
from dlc.module_tree import Walk
from examples.programs import MODELS
from tests.backend.jitted import jit

SCALE = 2.0
SETTINGS = {"shift": 1.0}
TABLE = torch.ones(4)
LOG: list[int] = []


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def mlp(width: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


class Plain(nn.Module):
    """A module with all that a module may read."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("shift", torch.randn(4))
        self.inner = nn.Linear(4, 4)
        self.scale = 2.0
        self.factors = [1.0, 2.0]
        self.table = {"power": 2}
        self.settings = types.SimpleNamespace(bias=0.5)
        self.act: Callable[[Tensor], Tensor] = torch.relu

    def forward(self, x: Tensor, extra: float = 0.0, *, flip: bool = False) -> Tensor:
        x = self.inner(x) * self.weight * self.scale + self.shift
        for factor in self.factors:
            x = x * factor
        x = self.act(x) ** self.table["power"] + self.settings.bias + extra
        return -x if flip else x


def plain() -> Plain:
    torch.manual_seed(0)
    return Plain().eval()


def compiled(fast: Any) -> Callable[[], int]:
    """How often something was compiled since."""
    before = fast.generation
    return lambda: fast.generation - before


def assert_close(got: Any, expected: Any) -> None:
    torch.testing.assert_close(got, expected, check_stride=True)


def is_like(fast: Any, model: nn.Module, *args: Any, **kwargs: Any) -> None:
    assert_close(fast(*args, **kwargs), model(*args, **kwargs))


# -- what a call gives ---------------------------------------------------------------------------------


def test_sizes_are_symbols_and_arguments_have_names_and_defaults() -> None:
    model = plain()
    fast = jit(model)
    for n in (3, 7, 50):
        is_like(fast, model, torch.randn(n, 4))
    assert fast.generation == 2  # one tree, one variant
    x = torch.randn(5, 4)
    is_like(fast, model, x, 3.0)
    is_like(fast, model, x=x, extra=2.0)
    is_like(fast, model, x, flip=True)
    with pytest.raises(TypeError, match=r"forward\(\) got an unexpected keyword argument 'extras'"):
        fast(x, extras=1.0)
    assert fast.__wrapped__ is model


@pytest.mark.parametrize("name", ["mlp", "gpt", "resnet"])
def test_models(name: str) -> None:
    model, args = MODELS[name].build(small=True), MODELS[name].arguments(small=True)
    fast = jit(model)
    for _ in range(2):
        is_like(fast, model, *args)
    count = compiled(fast)
    is_like(fast, model, *MODELS[name].arguments(small=True, length=9, seed=1))
    assert count() == 0


def test_an_encoder_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    model = transformers.BertModel(config).eval()
    fast = jit(model)
    ids = torch.randint(0, 64, (2, 9))
    expected = model(ids)
    for _ in range(2):
        result = fast(ids)
        assert type(result) is type(expected)
        assert_close(result.last_hidden_state, expected.last_hidden_state)
        assert_close(result.pooler_output, expected.pooler_output)
    count = compiled(fast)
    longer = torch.randint(0, 64, (2, 12))
    assert_close(fast(longer).last_hidden_state, model(longer).last_hidden_state)
    assert count() == 0


@pytest.mark.in_turn(8)
def test_a_decoder_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    fast = jit(model)
    ids = torch.randint(0, 64, (2, 9))
    assert_close(fast(ids, use_cache=False).logits, model(ids, use_cache=False).logits)
    with pytest.raises(CaptureError, match="it returns an object of type DynamicCache"):
        fast(ids)
    model.config.use_cache = False
    assert_close(fast(ids).logits, model(ids).logits)
    model.config.use_cache = True
    with pytest.raises(CaptureError, match="it returns an object of type DynamicCache"):
        fast(ids)


@dataclass
class Pair:
    first: Tensor
    second: Tensor


torch.utils._pytree.register_dataclass(Pair)


def test_structures_of_results_and_parameters_as_results() -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 3))

        def forward(self, x: Tensor) -> Any:
            return {
                "pair": Pair(x + 1, x * 2),
                "weight": self.weight,
                "view": self.weight.t(),
                "n": x.shape[0],
            }

    model = Several().eval()
    fast = jit(model)
    for _ in range(2):
        result = fast(torch.ones(5))
        assert isinstance(result["pair"], Pair)
        assert torch.equal(result["pair"].second, torch.full((5,), 2.0))
        assert result["weight"] is model.weight
        assert result["view"].data_ptr() == model.weight.data_ptr()
        assert result["n"] == 5


def test_recurrent_modules_and_tied_weights() -> None:
    recurrent = nn.LSTM(4, 6).eval()
    x = torch.randn(5, 2, 4)
    assert_close(jit(recurrent)(x), recurrent(x))
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).eval()
    model[1].weight = model[0].weight
    fast = jit(model)
    is_like(fast, model, x)
    model[1].weight = nn.Parameter(torch.randn(4, 4))
    is_like(fast, model, x)


def test_literals_in_forward() -> None:
    class Literal(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.tensor([1.0, 2.0]) + torch.arange(2)

    model = Literal().eval()
    is_like(jit(model), model, torch.randn(3, 2))


# -- gradients -----------------------------------------------------------------------------------------


def test_gradients_go_through_torch_compile() -> None:
    model = mlp()
    fast, x = jit(model), torch.randn(5, 4)
    assert not fast(x).requires_grad
    with torch.enable_grad():
        result = fast(x)
        assert result.requires_grad
        result.sum().backward()
        got = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        model(x).sum().backward()
        for mine, parameter in zip(got, model.parameters(), strict=True):
            assert_close(mine, parameter.grad)
    assert not fast(x).requires_grad


def test_frozen_parameters_need_no_gradient() -> None:
    model = mlp()
    fast, x = jit(model), torch.randn(5, 4)
    fast(x)
    model.requires_grad_(False)
    with torch.enable_grad():
        count = compiled(fast)
        assert not fast(x).requires_grad
        assert count() == 0  # the same code
        assert fast(x.clone().requires_grad_()).requires_grad
        model[2].bias.requires_grad_()
        assert fast(x).requires_grad


# -- what is seen without compiling again --------------------------------------------------------------


def test_values_of_parameters_are_read_at_each_call() -> None:
    model = plain()
    fast, x = jit(model), torch.randn(5, 4)
    is_like(fast, model, x)
    count = compiled(fast)
    model.weight.mul_(3.0)
    is_like(fast, model, x)
    model.weight.data = torch.randn(4)
    is_like(fast, model, x)
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    is_like(fast, model, x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    is_like(fast, model, x)
    model.shift.untyped_storage().resize_(0)
    model.shift.untyped_storage().resize_(64)
    model.shift.fill_(2.0)
    is_like(fast, model, x)
    assert count() == 0


def test_what_ends_as_it_was_compiles_nothing() -> None:
    model = plain()
    fast, x = jit(model), torch.randn(5, 4)
    fast(x)
    count = compiled(fast)
    model.train()
    model.eval()
    model.scale = float("2.0")
    handle = model.inner.register_forward_hook(lambda *_: None)
    handle.remove()
    is_like(fast, model, x)
    assert count() == 0


# -- what is noticed -----------------------------------------------------------------------------------


def _set(name: str, value: Any) -> Callable[[Plain], Any]:
    return lambda model: setattr(model, name, value() if callable(value) and name != "act" else value)


CHANGES: dict[str, Callable[[Plain], Any]] = {
    "number": _set("scale", 3.0),
    "of another type": _set("scale", 2),
    "item of a list": lambda m: m.factors.__setitem__(0, 5.0),
    "longer list": lambda m: m.factors.append(3.0),
    "item of a dict": lambda m: m.table.update(power=3),
    "attribute of an object": lambda m: setattr(m.settings, "bias", 4.0),
    "class of an object": lambda m: setattr(m, "settings", types.SimpleNamespace(bias=7.0)),
    "function": _set("act", torch.sigmoid),
    "parameter": _set("weight", lambda: nn.Parameter(torch.randn(4))),
    "parameter of a child": lambda m: setattr(m.inner, "weight", nn.Parameter(torch.randn(4, 4))),
    "buffer": _set("shift", lambda: torch.randn(4)),
    "shape of a buffer": _set("shift", lambda: torch.randn(1)),
    "dtype": lambda m: m.double(),
    "dtype in place": lambda m: setattr(m.weight, "data", m.weight.data.double()),
    "strides in place": lambda m: m.inner.weight.set_(m.inner.weight.clone().t()),
    "size in place": lambda m: m.shift.resize_(1),
    "child": _set("inner", lambda: nn.Linear(4, 4, bias=False).eval()),
    "bias taken away": lambda m: setattr(m.inner, "bias", None),
    "forward of a child": lambda m: setattr(m.inner, "forward", lambda x: x + 1),
    "assigned state": lambda m: m.load_state_dict(copy.deepcopy(m.state_dict()), assign=True),
    "class": lambda m: setattr(m, "__class__", Negated),
    "dict": lambda m: setattr(m, "__dict__", vars(m) | {"scale": 9.0}),
}


class Negated(Plain):
    def forward(self, x: Tensor, extra: float = 0.0, *, flip: bool = False) -> Tensor:
        return -super().forward(x, extra, flip=flip)


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_noticed(change: str) -> None:
    model = plain()
    fast, x = jit(model, products="library"), torch.randn(5, 4)  # eager's bits
    is_like(fast, model, x)
    count = compiled(fast)
    CHANGES[change](model)
    if model.inner.weight.dtype == torch.float64:
        x = x.double()
    is_like(fast, model, x)
    assert count() > 0
    is_like(fast, model, torch.randn(8, 4, dtype=x.dtype))


@pytest.mark.parametrize("change", CHANGES)
def test_the_comparison_without_numbers_of_dicts_is_the_same(change: str) -> None:
    """As it is from Python 3.12 on."""
    model = plain()
    walk = Walk(model, "forward()", constants=False)
    slow, quick = walk.tree(tags=False), walk.tree()
    assert slow.changed() is None and quick.changed() is None
    CHANGES[change](model)
    assert slow.changed() == quick.changed() is not None


def test_a_new_child_and_a_global_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4)])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return self.shifted(x) * SCALE

        def shifted(self, x: Tensor) -> Tensor:
            return x + SETTINGS["shift"]

    model = Reads().eval()
    fast, x = jit(model), torch.randn(5, 4)
    is_like(fast, model, x)
    model.layers.append(nn.Linear(4, 2).eval())
    is_like(fast, model, x)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    is_like(fast, model, x)
    monkeypatch.setitem(SETTINGS, "shift", 3.0)
    is_like(fast, model, x)
    monkeypatch.setattr(Reads, "shifted", lambda self, x: x - 1)
    is_like(fast, model, x)


def test_names_around_defaults_and_sets_are_noticed() -> None:
    shift = 1.0

    def add(x: Tensor, by: float = 2.0) -> Tensor:
        return x + by + shift

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kinds = {"a"}

        def forward(self, x: Tensor) -> Tensor:
            return add(x) * 2 if "b" in self.kinds else add(x)

    model, x = Reads().eval(), torch.randn(5)
    fast = jit(model)
    is_like(fast, model, x)
    shift = 7.0
    is_like(fast, model, x)
    add.__defaults__ = (5.0,)
    is_like(fast, model, x)
    model.kinds.add("b")
    is_like(fast, model, x)


# -- what is refused -----------------------------------------------------------------------------------


def _hooked(model: Plain) -> None:
    model.inner.register_forward_hook(lambda *_: None)


REFUSED: dict[str, tuple[Callable[[Plain], Any], str]] = {
    "training": (lambda m: m.inner.train(), r"self\.inner \(Linear\) is in training mode: call model\.eval"),
    "hook": (_hooked, r"self\.inner \(Linear\) has forward hooks: remove them"),
    "pre-hook": (
        lambda m: m.register_forward_pre_hook(lambda *_: None),
        r"self \(Plain\) has forward pre hooks",
    ),
    "backward hook": (lambda m: m.register_full_backward_hook(lambda *_: None), "has backward hooks"),
    "weight norm": (lambda m: weight_norm(m.inner), r"self\.inner \(Linear\) has forward pre hooks"),
    "parametrization": (lambda m: parametrizations.orthogonal(m.inner), "remove_parametrizations"),
    "subclass": (lambda m: setattr(m, "shift", torch.ones(4).as_subclass(Mine)), r"self\.shift is a Mine"),
    "device": (
        lambda m: setattr(m, "shift", torch.ones(4, device="meta")),
        r"self\.shift is not a dense tensor",
    ),
    "sparse": (lambda m: setattr(m, "shift", torch.eye(4).to_sparse()), r"self\.shift is not a dense tensor"),
    "array": (lambda m: setattr(m, "scale", np.ones(4)), r"reads self\.scale, a ndarray, which may change"),
}


class Mine(Tensor):
    pass


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_its_name(what: str, later: bool) -> None:
    change, message = REFUSED[what]
    model = plain()
    fast, x = jit(model), torch.randn(5, 4)
    if later:
        fast(x)
    with torch.enable_grad():
        change(model)
    for _ in range(2):
        with pytest.raises(TypeError, match=message):
            fast(x)


def test_global_hooks_are_refused_while_they_are_there() -> None:
    model = plain()
    fast, x = jit(model), torch.randn(5, 4)
    fast(x)
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        with pytest.raises(TypeError, match="has global forward hooks"):
            fast(x)
    finally:
        handle.remove()
    is_like(fast, model, x)


def test_lazy_modules_are_refused_until_they_have_sizes() -> None:
    model = nn.Sequential(nn.LazyLinear(3)).eval()
    fast, x = jit(model), torch.randn(5, 4)
    with pytest.raises(TypeError, match=r"call the module once"):
        fast(x)
    model(x)
    is_like(fast, model, x)


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.seen, self.cache = 0, [0], {"x": None}
        self.register_buffer("mean", torch.zeros(4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor, how: str) -> Tensor:
        if how == "attribute":
            self.calls += 1
        elif how == "list":
            self.seen.append(1)
        elif how == "dict":
            self.cache["x"] = x
        elif how == "buffer":
            self.mean.add_(1)
        elif how == "view":
            self.mean[1:].copy_(x[0, 1:])
        elif how == "assigned buffer":
            self.mean = self.mean + 1
        return x + self.mean


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("attribute", r"changes self\.calls"),
        ("list", r"changes self\.seen"),
        ("dict", r"changes self\.cache\.x"),
        ("buffer", r"writes to its argument 'self\.mean'"),
        ("view", r"writes to its argument 'self\.mean'"),
        ("assigned buffer", r"changes self\._buffers\.mean"),
    ],
)
def test_state_that_a_call_changes_is_refused_and_left_alone(how: str, message: str) -> None:
    model = Counts().eval()
    fast, x = jit(model), torch.randn(5, 4)
    with pytest.raises(CaptureError, match=message):
        fast(x, how)
    assert (model.calls, model.seen, model.cache) == (0, [0], {"x": None})
    assert torch.equal(model.mean, torch.zeros(4))
    is_like(fast, model, x, "not at all")


def test_a_global_that_a_call_changes() -> None:
    class Logs(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            LOG.append(len(LOG))
            return x + 1

    with pytest.raises(CaptureError, match=r"Logs\.forward\(\) cannot be compiled: it changes a global"):
        jit(Logs().eval())(torch.randn(5))


@pytest.mark.parametrize("what", [random.Random(0), np.random.default_rng(0), iter([1.0, 2.0])])
def test_what_is_another_thing_at_each_use(what: Any) -> None:
    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source = what

        def forward(self, x: Tensor) -> Tensor:
            return x + float(next(self.source) if hasattr(self.source, "__next__") else self.source.random())

    with pytest.raises(TypeError, match=r"reads self\.source, a \w+, which may change without a sign"):
        jit(Draws().eval())(torch.randn(5))


def test_functions_in_modules_of_torch_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    def act(x: Tensor) -> Tensor:
        return torch.relu(x) * SCALE

    model = nn.TransformerEncoderLayer(8, 2, 16, activation=act, batch_first=True).eval()
    fast, x = jit(model), torch.randn(2, 5, 8)
    is_like(fast, model, x)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    is_like(fast, model, x)


def test_tensors_that_are_not_the_modules() -> None:
    class Reads(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + TABLE

    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.fn = lambda x: x * self.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.fn(x)

    x = torch.randn(5, 4)
    with pytest.raises(TypeError, match="'TABLE', a Tensor that is not part of the module"):
        jit(Reads().eval())(x)
    assert torch.equal(jit(Reads().eval(), constants=True)(x), x + TABLE)
    with pytest.raises(TypeError, match="calls a function that holds 'self', the module itself"):
        jit(Holds().eval())(x)


def test_a_module_of_dlc_jit_in_a_function_is_a_variable() -> None:
    fast = jit(mlp())

    def f(x: Tensor) -> Tensor:
        return fast(x) + 1

    with pytest.raises(TypeError, match="'fast', a Jit, which is not one of its arguments"):
        jit(f)(torch.randn(5, 4))
    assert torch.equal(jit(f, constants=True)(torch.ones(5, 4)), f(torch.ones(5, 4)))


def test_compiled_modules_and_storages_without_memory() -> None:
    model = nn.Sequential(torch.compile(nn.Linear(4, 4))).eval()
    with pytest.raises(TypeError, match=r"self\.0 \(OptimizedModule\) is compiled already"):
        jit(model)(torch.randn(5, 4))
    given = plain()
    fast, x = jit(given), torch.randn(5, 4)
    fast(x)
    given.shift.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match=r"self\.shift has sizes and no memory"):
        fast(x)


def test_objects_that_are_constants() -> None:
    class Opaque:
        __slots__ = ("scale",)

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.opaque = Opaque()
            self.opaque.scale = 3.0
            self.unread = threading.Lock()
            self.also_unread = Opaque()

        def forward(self, x: Tensor) -> Tensor:
            return x * self.opaque.scale

    model = Reads().eval()
    x = torch.randn(5)
    with pytest.raises(TypeError, match=r"reads self\.opaque, a Opaque, which may change"):
        jit(model)(x)
    is_like(jit(model, constants=True), model, x)


@dataclass
class Settings:
    scale: float = 2.0
    inner: dict[str, list[float]] = field(default_factory=lambda: {"shifts": [1.0]})

    def scaled(self, x: Tensor) -> Tensor:
        return x * self.scale + self.inner["shifts"][0]


def test_objects_with_attributes_are_compared() -> None:
    class Reads(nn.Module):
        def __init__(self, settings: Settings) -> None:
            super().__init__()
            self.settings = settings

        def forward(self, x: Tensor) -> Tensor:
            return self.settings.scaled(x)

    settings = Settings()
    model, x = Reads(settings).eval(), torch.randn(5)
    fast = jit(model)
    is_like(fast, model, x)
    settings.scale = 4.0
    is_like(fast, model, x)
    settings.inner["shifts"][0] = -1.0
    is_like(fast, model, x)


def test_errors_are_eagers() -> None:
    model = mlp()
    fast = jit(model)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        fast(torch.randn(5, 7))
    with pytest.raises(TypeError, match="takes tensors, not NumPy arrays"):
        fast(np.ones((5, 4), np.float32))
    is_like(fast, model, torch.randn(5, 4))


# -- modes, threads, memory, copies --------------------------------------------------------------------


def test_modes_and_transforms_run_the_module() -> None:
    model = mlp()
    fast, x = jit(model), torch.randn(5, 4)
    assert_close(torch.func.vmap(fast)(x), model(x))
    with torch.utils.flop_counter.FlopCounterMode(display=False) as flops:
        fast(x)
    assert flops.get_total_flops() > 0
    with torch.inference_mode():
        is_like(fast, model, x)
    with torch.autocast("cpu", torch.bfloat16):
        is_like(fast, model, x)


def test_threads_while_the_module_changes() -> None:
    model = plain()
    fast, failed = jit(model), []

    def work(seed: int) -> None:
        x = torch.full((seed + 2, 4), 0.5)
        with torch.no_grad():
            for _ in range(60):
                low, high = model.scale, None
                result = fast(x)
                high = model.scale
                if low == high and not torch.isfinite(result).all():
                    failed.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for step in range(3):
        model.scale = 2.0 + step
    for thread in threads:
        thread.join()
    assert not failed
    is_like(fast, model, torch.randn(3, 4))


def test_calls_leave_nothing_behind() -> None:
    model = plain()
    fast, x = jit(model), torch.randn(5, 4)

    def calls(n: int) -> None:
        for _ in range(n):
            fast(x)
            model.weight.data = model.weight.data  # the slow comparison

    calls(1000)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    calls(10000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 10_000


def test_compiling_again_leaves_nothing_behind() -> None:
    model = plain()
    fast, x = jit(model), torch.randn(5, 4)
    gone = []
    for k in range(3):
        model.weight = nn.Parameter(torch.randn(4))
        model.inner = nn.Linear(4, 4).eval()
        model.scale = 2.0 + k
        fast(x)
        gone.append(weakref.ref(model.inner))
    gc.collect()
    assert [ref() is None for ref in gone] == [True, True, False]


def test_a_module_that_is_gone_is_freed() -> None:
    model = plain()
    model.fast = jit(model)
    model.fast(torch.randn(5, 4))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_copies_and_pickles() -> None:
    model = mlp()
    fast = jit(model)
    assert copy.copy(fast) is fast and copy.deepcopy(fast) is fast
    with pytest.raises(TypeError, match=r"pickle the function itself, its __wrapped__"):
        pickle.dumps(fast)
    assert repr(fast).startswith("<dlc.jit of ")
    assert dlc.jit(tier="tcc")(model)(torch.randn(2, 4)).shape == (2, 3)


class Drawing(nn.Module):
    def __init__(self, draw: Callable[[], float]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: Tensor) -> Tensor:
        return x * self.draw()


def drawn() -> float:
    return random.random()


def drawn_by_numpy() -> float:
    return float(np.random.rand())


@pytest.mark.parametrize("draw", [drawn, drawn_by_numpy])
def test_random_numbers_of_python_are_refused(draw: Callable[[], float]) -> None:
    """They would stay those of the first call."""
    with pytest.raises(CaptureError, match="would stay th"):
        dlc.jit(Drawing(draw).eval())(torch.ones(3))

"""Option freeze: nothing stale is read, nothing is kept too long, and no bit differs."""

import copy
import gc
import io
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dlc

pytestmark = pytest.mark.in_turn(2)

OPTIONS = {"products": "own", "freeze": True, "strict": True, "tier": "tcc"}
WAYS = ("direct", "aot", "jit")


def compiled(model: Any, way: str, **more: Any) -> Callable[..., Tensor]:
    options = OPTIONS | more
    if way == "jit":
        return dlc.jit(model, **options)
    return torch.compile(model, backend="dlc", options=options | {"capture": way}, dynamic=True)


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 50)).eval()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    torch._dynamo.reset()
    return request.param


@pytest.fixture
def made() -> Callable[[], int]:
    """Values made since it was last asked."""
    last = [dlc.counters()["prepared"]]

    def ask() -> int:
        before, last[0] = last[0], dlc.counters()["prepared"]
        return last[0] - before

    return ask


def check(model: nn.Module, call: Callable[..., Tensor], *args: Tensor) -> None:
    """As the same options without freeze compute it now, to the bit."""
    fresh = copy.deepcopy(model).eval()
    with torch.no_grad():
        assert torch.equal(call(*args), compiled(fresh, "jit", freeze=False)(*args))


def test_same_bits(way: str, made: Callable[[], int]) -> None:
    model, x = mlp(), torch.randn(5, 24)
    call = compiled(model, way)
    for _ in range(3):
        check(model, call, x)
    assert made() == 2
    check(model, call, torch.randn(9, 24))
    assert made() == 0, "one panel serves all sizes"


def sgd(model: nn.Sequential) -> None:
    with torch.enable_grad():
        model(torch.randn(3, 24)).square().sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()


def adam(model: nn.Sequential, **how: Any) -> None:
    with torch.enable_grad():
        model(torch.randn(3, 24)).square().sum().backward()
    torch.optim.AdamW(model.parameters(), 0.1, **how).step()


def load(model: nn.Sequential) -> None:
    model.load_state_dict({name: t + 1 for name, t in model.state_dict().items()})


def assign(model: nn.Sequential) -> None:
    state = {name: torch.randn_like(t) for name, t in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def data_twice(model: nn.Sequential) -> None:
    """The second memory may be where the first was."""
    for _ in range(4):
        model[2].weight.data = torch.randn(50, 40)


def inference_write(model: nn.Sequential) -> None:
    with torch.inference_mode():
        model[0].weight.add_(1)


def compiled_write(model: nn.Sequential) -> None:
    def step(w: Tensor) -> None:
        w.mul_(0.5).add_(0.25)

    torch.compile(step, backend="dlc", options={"tier": "tcc"})(model[2].weight)


CHANGES: dict[str, Callable[[nn.Sequential], Any]] = {
    "sgd": sgd,
    "adam, a tensor after the other": lambda m: adam(m, foreach=False),
    "adam, all tensors at once": lambda m: adam(m, foreach=True),
    "adam, fused": lambda m: adam(m, fused=True),
    "load_state_dict": load,
    "load_state_dict, assigned": assign,
    "copy_": lambda m: m[0].weight.copy_(torch.randn(40, 24)),
    "add_": lambda m: m[2].weight.add_(1),
    "a row": lambda m: m[2].weight[3].fill_(7),
    "detached": lambda m: m[0].weight.detach().mul_(2),
    "through a view": lambda m: m[0].weight.view(-1)[5:9].zero_(),
    "data": lambda m: setattr(m[0].weight, "data", torch.randn(40, 24)),
    "data, several times": data_twice,
    "set_": lambda m: m[0].weight.set_(torch.randn(40, 24)),
    "another parameter": lambda m: setattr(m[2], "weight", nn.Parameter(torch.randn(50, 40))),
    "another module": lambda m: m.__setitem__(0, nn.Linear(24, 40).eval()),
    "init": lambda m: nn.init.normal_(m[0].weight),
    "vector_to_parameters": lambda m: nn.utils.vector_to_parameters(
        torch.randn(sum(p.numel() for p in m.parameters())), m.parameters()
    ),
    "inference mode": inference_write,
    "a compiled step": compiled_write,
    "foreach": lambda m: torch._foreach_add_(list(m.parameters()), 1.0),
    "another layout": lambda m: setattr(m[0].weight, "data", torch.randn(24, 40).t()),
}


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_seen(change: Callable[[nn.Sequential], Any], way: str) -> None:
    model, x = mlp(), torch.randn(5, 24)
    call = compiled(model, way)
    check(model, call, x)
    before = call_without_gradients(call, x)
    for _ in range(2):
        with torch.no_grad():
            change(model)
        check(model, call, x)
    assert not torch.equal(before, call_without_gradients(call, x)), "the change changes nothing"


def call_without_gradients(call: Callable[..., Tensor], *args: Tensor) -> Tensor:
    with torch.no_grad():
        return call(*args)


def test_what_torch_does_not_count_is_thawed(way: str) -> None:
    model, x = mlp(), torch.randn(5, 24)
    call = compiled(model, way)
    check(model, call, x)
    for forget in (lambda: dlc.thaw(model), dlc.thaw, dlc.release):
        model[0].weight.data.mul_(2)
        model[2].weight.detach().numpy()[3] += 1
        forget()
        check(model, call, x)


def test_swapped_tensors() -> None:
    """torch swaps no tensor that something refers to weakly, as Dynamo does, and dlc until it is thawed."""
    model, x = mlp(), torch.randn(5, 24)
    call = compiled(model, "jit")
    for _ in range(3):
        check(model, call, x)
        dlc.thaw(model)
        torch.utils.swap_tensors(model[0].weight, nn.Parameter(torch.randn(40, 24)))
        call_without_gradients(call, x)
    check(model, call, x)


def test_a_fused_step_that_is_compiled(made: Callable[[], int]) -> None:
    torch._dynamo.reset()
    model, x = mlp(), torch.randn(5, 24)
    call = compiled(model, "direct")
    optimiser = torch.optim.AdamW(model.parameters(), 0.1, fused=True)
    step = torch.compile(optimiser.step, backend="dlc", options={"tier": "tcc"})
    for _ in range(3):
        check(model, call, x)
        model(x).square().sum().backward()
        step()
    check(model, call, x)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 24)
        self.inner = nn.Linear(24, 24)
        self.head = nn.Linear(24, 30, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.inner(self.embedding(ids)))


def test_tied_weights(way: str, made: Callable[[], int]) -> None:
    model, ids = Tied().eval(), torch.arange(7)
    call = compiled(model, way)
    check(model, call, ids)
    assert made() == 2
    with torch.no_grad():
        model.embedding.weight.add_(1)
    check(model, call, ids)
    assert made() == 1


def test_two_layers_of_one_weight_share_its_panels(way: str, made: Callable[[], int]) -> None:
    one, two = nn.Linear(24, 24), nn.Linear(24, 24)
    two.weight = one.weight
    model, x = nn.Sequential(one, nn.ReLU(), two).eval(), torch.randn(4, 24)
    check(model, compiled(model, way), x)
    assert made() == 1


def test_graphs_share(way: str, made: Callable[[], int]) -> None:
    """Two graphs of the same parameters."""
    model, x = mlp(), torch.randn(5, 24)
    check(model, compiled(model, way), x)
    assert made() == 2

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) * 2

    outer = Twice().eval()
    check(outer, compiled(outer, way), x)
    assert made() == 0


def test_one_graph_for_several_modules(made: Callable[[], int]) -> None:
    """Layers that are compiled one by one share a graph, and have values each."""
    torch._dynamo.reset()
    layers = [nn.Linear(24, 24).eval() for _ in range(3)]
    calls = [torch.compile(layer, backend="dlc", options=OPTIONS) for layer in layers]
    x = torch.randn(4, 24)
    for _ in range(3):
        for layer, call in zip(layers, calls, strict=True):
            check(layer, call, x)
    assert made() == 3


def test_copies_have_values_of_their_own(way: str) -> None:
    model, x = mlp(), torch.randn(5, 24)
    call = compiled(model, way)
    check(model, call, x)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight.add_(1)
    check(other, compiled(other, way), x)
    check(model, call, x)
    file = io.BytesIO(pickle.dumps(model))
    again = pickle.load(file)
    check(again, compiled(again, way), x)


def test_memory_goes_with_the_module(way: str, made: Callable[[], int]) -> None:
    model = nn.Linear(256, 2048, bias=False).eval()
    call, x = compiled(model, way), torch.randn(3, 256)
    with torch.no_grad():
        call(x)
        call(x)
    assert made() == 1
    gone = weakref.ref(model.weight)
    kept = dlc._C.prepared_bytes()
    assert kept >= 256 * 2048 * 4
    del model, call
    torch._dynamo.reset()
    gc.collect()
    assert gone() is None
    assert dlc._C.prepared_bytes() <= kept - 256 * 2048 * 4


def test_memory_goes_with_the_parameter(way: str) -> None:
    """The graph stays, and serves the next one."""
    model = nn.Linear(64, 512, bias=False).eval()
    call, x = compiled(model, way), torch.randn(3, 64)
    check(model, call, x)
    kept, gone = dlc._C.prepared_bytes(), weakref.ref(model.weight)
    for _ in range(4):
        model.weight = nn.Parameter(torch.randn(512, 64))
        check(model, call, x)
    gc.collect()
    assert gone() is None
    assert dlc._C.prepared_bytes() == kept


def test_threads_prepare_at_once(way: str) -> None:
    model, x = mlp(), torch.randn(5, 24)
    call = compiled(model, way)
    check(model, call, x)
    for _ in range(5):
        dlc.thaw(model)
        with torch.no_grad():
            model[0].weight.add_(0.5)
            wanted = compiled(copy.deepcopy(model), "jit", freeze=False)(x)
        results: list[Tensor] = []
        barrier = threading.Barrier(6)

        def run(results: list[Tensor] = results, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            for _ in range(20):
                with torch.no_grad():
                    results.append(call(x))

        threads = [threading.Thread(target=run) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 120
        assert all(torch.equal(wanted, result) for result in results)


def test_a_write_while_others_call_is_seen_after(way: str) -> None:
    """Each result is of one state of the weight, no older than the last one before the call."""
    model = nn.Linear(32, 64, bias=False).eval()
    nn.init.zeros_(model.weight)
    call, x = compiled(model, way), torch.eye(32)
    call_without_gradients(call, x)
    wrong: list[str] = []
    states = 60
    written = [0]

    def read() -> None:
        while written[0] < states:
            least = written[0]
            value = call_without_gradients(call, x)
            if float(value.min()) < least:
                wrong.append(f"{float(value.min())} after {least}")

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(1, states + 1):
        with torch.no_grad():
            model.weight.fill_(k)
        written[0] = k
    for thread in threads:
        thread.join()
    assert not wrong


def test_training_is_not_frozen(made: Callable[[], int]) -> None:
    torch._dynamo.reset()
    model, x = mlp().train(), torch.randn(5, 24)
    call = torch.compile(model, backend="dlc", options=OPTIONS)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        call(x).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
    assert made() == 0
    for _ in range(2):
        call(x).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        check(model, call, x)


def test_tensors_of_inference_mode(way: str) -> None:
    """They have no counter of versions: values are made in each call."""
    with torch.inference_mode():
        model, x = mlp(), torch.randn(5, 24)
        call = compiled(model, way)
        want = compiled(copy.deepcopy(model), "jit", freeze=False)
        for _ in range(2):
            assert torch.equal(call(x), want(x))
            model[0].weight.add_(1)
            want = compiled(copy.deepcopy(model), "jit", freeze=False)


class Scaled(nn.Module):
    """Values that are no panels: weight norm by hand, a mask, statistics in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.randn(48, 32))
        self.g = nn.Parameter(torch.rand(48))
        self.register_buffer("mean", torch.randn(48))
        self.register_buffer("var", torch.rand(48) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        w = self.v * (self.g / self.v.norm(dim=1))[:, None]
        y = nn.functional.linear(x, w)
        return (y - self.mean) * torch.exp(torch.rsqrt(self.var + 1e-5))


@pytest.mark.parametrize("products", ["own", "library"])
def test_other_values(products: str, way: str, made: Callable[[], int]) -> None:
    model, x = Scaled().eval(), torch.randn(5, 32)
    call = compiled(model, way, products=products)

    def check_now() -> None:
        with torch.no_grad():
            want = compiled(copy.deepcopy(model), "jit", products=products, freeze=False)(x)
            assert torch.equal(call(x), want)

    check_now()
    assert made() >= 1
    check_now()
    assert made() == 0
    with torch.no_grad():
        model.g.mul_(3)
    check_now()
    model.var.add_(1)
    check_now()


def test_a_buffer_that_the_graph_writes_is_read_anew(made: Callable[[], int]) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.randn(32, 32))

        def forward(self, x: Tensor) -> Tensor:
            y = x @ self.w
            self.w.add_(1)
            return y

    torch._dynamo.reset()
    model, x = Counting(), torch.randn(4, 32)
    other = copy.deepcopy(model)
    call = torch.compile(model, backend="dlc", options=OPTIONS)
    for _ in range(3):
        torch.testing.assert_close(call(x), other(x))
    assert made() == 0


def test_attributes_that_are_tensors(way: str) -> None:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.randn(24, 40)

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.w

    model, x = Held().eval(), torch.randn(3, 24)
    call = compiled(model, way)
    check(model, call, x)
    model.w.mul_(2)
    check(model, call, x)
    model.w.numpy()[:] = 1
    dlc.thaw(model)
    check(model, call, x)
    model.w.numpy()[:] = 2
    dlc.thaw(model.w)
    check(model, call, x)


def test_files_keep_nothing(made: Callable[[], int]) -> None:
    torch._dynamo.reset()
    model, x = mlp(), torch.randn(5, 24)
    with torch.no_grad():
        wrapped = torch.compile(model, fullgraph=True, backend="dlc", options=OPTIONS)
        ahead = wrapped.forward.aot_compile(((x,), {}))
        file = io.BytesIO(type(ahead).serialize(ahead, {"model": model}).serialized_data)
        again = torch.compiler.load_compiled_function(file, external_data={"model": model})
        assert torch.equal(again(x), ahead(x))
    assert made() == 0


def test_results_are_not_what_is_kept(way: str) -> None:
    """Who writes to a result changes no weight."""

    class Transposed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(24, 40))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            w = torch.exp(self.w.t()) + 1
            return x @ w, w

    model, x = Transposed().eval(), torch.randn(3, 40)
    call = compiled(model, way)
    with torch.no_grad():
        y, w = call(x)
        w.zero_()
        assert torch.equal(call(x)[0], y)


def test_explain_counts_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_FREEZE", "1")
    monkeypatch.setenv("DLC_PRODUCTS", "own")
    with torch.no_grad():
        report = dlc.explain(mlp(), torch.randn(5, 24))
    assert report.graphs[0].prepared == (2, 4 * 64 * (24 + 40))
    assert "keeps 16,384 bytes made of frozen parameters (2 values)" in str(report)


def test_fuel_and_dump(capfd: pytest.CaptureFixture[str], made: Callable[[], int]) -> None:
    torch._dynamo.reset()
    model, x = mlp(), torch.randn(5, 24)
    call = torch.compile(
        model, backend="dlc", options=OPTIONS | {"fuel": 0, "dump": "prepare", "verify": True}
    )
    torch.testing.assert_close(call_without_gradients(call, x), call_without_gradients(model, x))
    assert made() == 0
    torch._dynamo.reset()
    call = torch.compile(model, backend="dlc", options=OPTIONS | {"dump": "prepare", "verify": True})
    check(model, call, x)
    assert capfd.readouterr().err.count("fn prepare(") == 2

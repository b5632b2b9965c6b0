"""The partition of joint graphs: golden files, random graphs, and what cannot be partitioned.

partition/<case>.dlc holds a joint graph with one result of the forward, a line ---, and its forward and
backward. Run after one another these compute what the joint graph does.
"""

import random
import re
import subprocess
from pathlib import Path

import pytest

from ..dlc_opt import PROGRAM, opt
from .test_golden import HERE, check

CASES = sorted(HERE.glob("partition/*.dlc"))
UNARY = ("exp", "tanh", "sigmoid", "neg", "erf", "sqrt", "lgamma")
BINARY = ("add", "sub", "mul", "maximum")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, request, "--partition", "1")


class Joint:
    """A random joint graph: two results of the forward, then some that use tangents."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lets: list[str] = []
        early = [("x", "[N, 8]"), ("w", "[8]"), ("v", "[N, 8]")]
        for _ in range(self.random.randrange(3, 14)):
            self.add(early)
        forward = self.random.sample(early, 2)
        late = [*early, ("tangents_1", "[N, 8]"), ("tangents_2", "[N]")]
        for _ in range(self.random.randrange(3, 14)):
            self.add(late)
        results = forward + self.random.choices(late, k=3)
        self.results = ", ".join(f"f32{shape}" for _, shape in results)
        self.names = ", ".join(name for name, _ in results)

    def let(self, values: list[tuple[str, str]], shape: str, text: str) -> str:
        name = f"t{len(self.lets)}"
        self.lets.append(f"  let {name}: f32{shape} = {text}")
        values.append((name, shape))
        return name

    def full(self, values: list[tuple[str, str]], name: str, shape: str) -> str:
        axis = {"[8]": "1", "[N]": "0"}.get(shape)
        return self.let(values, "[N, 8]", f"expand {name} to=[{axis}]") if axis else name

    def add(self, values: list[tuple[str, str]]) -> None:
        (a, shape), (b, other) = self.random.choice(values[-5:]), self.random.choice(values)
        match self.random.randrange(5):
            case 0 | 1:
                self.let(values, shape, f"{self.random.choice(UNARY)} {a}")
            case 2 | 3:
                a, b = self.full(values, a, shape), self.full(values, b, other)
                self.let(values, "[N, 8]", f"{self.random.choice(BINARY)} {a}, {b}")
            case _:
                a = self.full(values, a, shape)
                self.let(values, "[N]", f"sum {a} axes=[1]")

    def __str__(self) -> str:
        parameters = "x: f32[N, 8], w: f32[8], v: f32[N, 8], tangents_1: f32[N, 8], tangents_2: f32[N]"
        lets = "\n".join(self.lets)
        return (
            f"dlc 1 graph\n\nfn joint[N in 1..inf]({parameters}) -> ({self.results}) {{\n"
            f"{lets}\n  ret {self.names}\n}}\n"
        )


@pytest.mark.parametrize("budget", ["1", "0.6", "0"])
def test_random(budget: str) -> None:
    joints = "---\n".join(str(Joint(seed)) for seed in range(300))
    opt(joints, "--partition", "2", "--budget", budget, "--emit", "none", "--eval", "1")


def saved(joint: str, budget: str) -> list[int]:
    """The parameters of each backward that come from its forward."""
    programs = opt(joint, "--partition", "2", "--budget", budget).split("---\n")
    headers = [re.sub(r"\s+", " ", program.partition("{\n")[0]) for program in programs[1::2]]
    return [len(re.findall(r"\bt\d+: f32\[N, 8\]", header)) for header in headers]


def test_budgets_save_less() -> None:
    joints = "---\n".join(str(Joint(seed)) for seed in range(300))
    all_, some, least = (saved(joints, budget) for budget in ("1", "0.6", "0"))
    assert all(a >= b >= c for a, b, c in zip(all_, some, least, strict=True))
    assert sum(all_) > sum(some) > sum(least)


def test_half_a_budget_computes_what_is_cheapest_again() -> None:
    """Four values, each of a call's result that is saved too: two of them can go, and the cheapest do."""
    chains = {
        "cheap": ["tan", "tan"],
        "dear": ["lgamma", "lgamma"],
        "fair": ["pow", "pow"],
        "most": ["lgamma"] * 3,
    }
    lets, results = [], ["x"]
    for site, (name, ops) in enumerate(chains.items()):
        value = f"{name}_0"
        lets.append(f'let {value}: f32[N] = call x target="f" args="$0" site={site}')
        for k, op in enumerate(ops):
            operands = f"{value}, 1.5" if op == "pow" else value
            value = f"{name}_{k + 1}"
            lets.append(f"let {value}: f32[N] = {op} {operands}")
        lets.append(f'let {name}_g: f32[N] = call {value} target="g" args="$0" effect=1 site={9 + site}')
        lets.append(f"let {name}_p: f32[N] = mul tangents, {value}")
        lets.append(f"let {name}_q: f32[N] = mul tangents, {name}_0")
        results += [f"{name}_p", f"{name}_q"]
    types = ", ".join(["f32[N]"] * len(results))
    body = "\n".join([*lets, f"ret {', '.join(results)}"])
    text = f"dlc 1 graph\n\nfn j[N](x: f32[N], tangents: f32[N]) -> ({types}) {{\n{body}\n}}\n"
    for budget, kept in (("1", {"cheap", "dear", "fair", "most"}), ("0.5", {"dear", "most"}), ("0", set())):
        backward = opt(text, "--partition", "1", "--budget", budget).split("---\n")[1]
        header = backward.partition("{\n")[0]
        assert {name for name in chains if re.search(rf"{name}_[1-9]", header)} == kept, budget


def test_each_value_computed_again_takes_fuel() -> None:
    lets, results = [], ["x"]
    for name in "abc":
        lets.append(f"let {name}: f32[N] = add x, {ord(name)}.0")
        lets.append(f"let {name}_y: f32[N] = mul {name}, {name}")
        lets.append(f"let {name}_g: f32[N] = mul tangents, {name}")
        results += [f"{name}_y", f"{name}_g"]
    results = [r for end in "xyg" for r in results if r.endswith(end)]
    types = ", ".join(["f32[N]"] * len(results))
    body = "\n".join([*lets, f"ret {', '.join(results)}"])
    text = f"dlc 1 graph\n\nfn j[N](x: f32[N], tangents: f32[N]) -> ({types}) {{\n{body}\n}}\n"
    for fuel, kept in ((0, "abc"), (1, "bc"), (2, "c"), (3, ""), (-1, "")):
        backward = opt(text, "--partition", "4", "--fuel", str(fuel)).split("---\n")[1]
        header = backward.partition("{\n")[0]
        assert "".join(re.findall(r"\b([abc]): ", header)) == kept, fuel


def refused(text: str, *options: str) -> str:
    done = subprocess.run([PROGRAM, *options, "-"], input=text, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr


def test_a_forward_that_needs_a_gradient() -> None:
    joint = str(Joint(1)).replace("ret ", "ret tangents_1, ").replace("-> (", "-> (f32[N, 8], ")
    assert "a result of the forward pass depends on a gradient" in refused(joint, "--partition", "2")


def test_more_results_than_there_are() -> None:
    assert "a number of results that the function has" in refused(str(Joint(1)), "--partition", "6")

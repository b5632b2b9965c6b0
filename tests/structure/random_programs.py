"""Random programs for the passes: arithmetic, reductions, views, cat, pad and gather over few shapes."""

from itertools import combinations
from random import Random

Dims = tuple[str, ...]
Value = tuple[str, str, Dims]  # name, dtype, dims

UNARY = ("exp", "tanh", "neg", "sin", "abs")
BINARY = ("add", "sub", "mul", "maximum")
SIZES = (("A", "B"), ("4", "6"), ("A", "6"))


def join(items: "list[int] | tuple[int, ...] | Dims") -> str:
    return "[" + ", ".join(map(str, items)) + "]"


def double(dim: str) -> str:
    return str(2 * int(dim)) if dim.isdigit() else f"2*({dim})"


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.a, self.b = self.random.choice(SIZES)
        a, b = self.a, self.b
        self.params: list[Value] = [
            ("x", "f32", (a, b)), ("y", "f32", (a, b)), ("h", "bf16", (a, b)),
            ("w", "f32", (b,)), ("u", "f32", (a,)), ("s", "f32", ()),
        ]  # fmt: skip
        self.values = list(self.params)
        self.lines: list[str] = []

    def let(self, dims: "Dims | list[str]", right: str, dtype: str = "f32") -> Value:
        value = (f"v{len(self.lines)}", dtype, tuple(dims))
        self.lines.append(f"  let {value[0]}: {dtype}{join(value[2])} = {right}")
        self.values.append(value)
        return value

    def like(self, value: Value) -> str:
        return self.random.choice([v for v in self.values if v[1:] == value[1:]])[0]

    def step(self) -> None:
        recent = self.random.random() < 0.7
        value = self.random.choice(self.values[-12:] if recent else self.values)
        if value[1] != "f32":
            self.let(value[2], f"cast {value[0]}")
            return
        steps = [self.unary, self.binary, self.binary, self.scale, self.expand]
        steps += [self.reduce, self.permute, self.reshape, self.gather, self.move] if value[2] else []
        self.random.choice(steps)(value)

    def unary(self, value: Value) -> None:
        self.let(value[2], f"{self.random.choice(UNARY)} {value[0]}")

    def binary(self, value: Value) -> None:
        self.let(value[2], f"{self.random.choice(BINARY)} {value[0]}, {self.like(value)}")

    def scale(self, value: Value) -> None:
        self.let(value[2], f"mul {value[0]}, {self.random.choice(['2.0', '0.5', '-1.5'])}")

    def reduce(self, value: Value) -> None:
        name, _, dims = value
        axes = sorted(self.random.sample(range(len(dims)), self.random.randint(1, len(dims))))
        kept = [dim for k, dim in enumerate(dims) if k not in axes]
        self.let(kept, f"{self.random.choice(['sum', 'sum', 'amax', 'amin'])} {name} axes={join(axes)}")

    def expand(self, value: Value) -> None:
        name, _, dims = value
        to = self.random.choice([(self.a, self.b), (self.a,), (self.b,), (self.a, self.b, "3")])
        places = [
            place for place in combinations(range(len(to)), len(dims))
            if len(to) > len(dims) and all(to[p] == dim for p, dim in zip(place, dims, strict=True))
        ]  # fmt: skip
        if places:
            self.let(to, f"expand {name} to={join(self.random.choice(places))}")

    def permute(self, value: Value) -> None:
        name, _, dims = value
        perm = self.random.sample(range(len(dims)), len(dims))
        self.let([dims[k] for k in perm], f"permute {name} perm={join(perm)}")

    def reshape(self, value: Value) -> None:
        name, _, dims = value
        if len(dims) == 2:
            flat = self.let(["*".join(f"({dim})" for dim in dims)], f"reshape {name}")
            self.let(dims, f"reshape {self.let(flat[2], f'sin {flat[0]}')[0]}")

    def gather(self, value: Value) -> None:
        name, _, dims = value
        index = self.let(("3",), "iota axis=0", "i64")
        odd = self.let(("3",), f"bit_and {index[0]}, 1", "i64")
        self.let(("3", *dims[1:]), f"gather {name}, {odd[0]} axis=0")
        self.values = [v for v in self.values if v[1] != "i64"]

    def move(self, value: Value) -> None:
        name, _, dims = value
        axis = self.random.randrange(len(dims))
        wide = list(dims)
        wide[axis] = double(dims[axis])
        choice = self.random.random()
        if choice < 0.3:
            self.let(dims, f"flip {name} axes=[{axis}]")
        elif choice < 0.6:
            joined = self.let(wide, f"cat {name}, {self.like(value)} axis={axis}")
            self.let(wide, f"exp {joined[0]}")
            self.let(dims, f"slice {joined[0]} axis={axis} start=1 step=1")
        elif choice < 0.8:
            lo = ["1" if k == axis else "0" for k in range(len(dims))]
            self.let(wide, f"pad {name}, 0.5 lo={join(lo)}")
        else:
            part = [*dims[:axis], "2", *dims[axis + 1 :]]
            self.let(part, f"slice {name} axis={axis} start=0 step=1")

    def text(self) -> str:
        for _ in range(self.random.randint(3, 40)):
            self.step()
        results = self.random.sample(self.values, self.random.randint(1, min(5, len(self.values))))
        sizes = ", ".join(f"{dim} in 2..9" for dim in (self.a, self.b) if dim.isalpha())
        params = ", ".join(f"{name}: {dtype}{join(dims)}" for name, dtype, dims in self.params)
        types = ", ".join(dtype + join(dims) for _, dtype, dims in results)
        return "\n".join([
            "dlc 1 graph", "", f"fn f{f'[{sizes}]' if sizes else ''}({params}) -> ({types}) {{",
            *self.lines, f"  ret {', '.join(name for name, _, _ in results)}", "}", "",
        ])  # fmt: skip


def program(seed: int) -> str:
    return Writer(seed).text()

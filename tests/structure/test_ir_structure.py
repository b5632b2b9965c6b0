"""What becomes one kernel: counts, not text, and the rules of the kernels stage on random programs."""

from itertools import pairwise

import pytest

from ..dlc_opt import opt
from .kernels import check, compile
from .random_programs import program


def source(params: str, results: str, body: str) -> str:
    """A graph of 16 and more rows B and columns N; the lets without the word."""
    *lets, ret = [line.strip() for line in body.splitlines() if line.strip()]
    head = f"fn f[B in 16..inf, N in 16..inf]({params}) -> ({results}) {{"
    return "\n".join(["dlc 1 graph", "", head, *(f"  let {let}" for let in lets), f"  {ret}", "}", ""])


SOFTMAX = """
    {p}m: f32[B] = amax {x} axes=[1]
    {p}n: f32[B, N] = expand {p}m to=[0]
    {p}d: f32[B, N] = sub {x}, {p}n
    {p}e: f32[B, N] = exp {p}d
    {p}s: f32[B] = sum {p}e axes=[1]
    {p}r: f32[B, N] = expand {p}s to=[0]
    {p}y: f32[B, N] = div {p}e, {p}r
"""

VARIANCE = """
    k: i64 = size dim=N
    kf: f32 = cast k
    kb: f32[B] = expand kf to=[]
    s: f32[B] = sum x axes=[1]
    m: f32[B] = div s, kb
    me: f32[B, N] = expand m to=[0]
    d: f32[B, N] = sub x, me
    q: f32[B, N] = mul d, d
    v: f32[B] = sum q axes=[1]
    a: f32[B] = div v, kb
"""

# Pairs of numbers turned as complex ones by a table: what views and a cat put beside each other is one loop.
ROTARY = """
    xf: f32[B, N, 64] = cast x
    xr: f32[B, N, 32, 2] = reshape xf
    a: f32[B, N, 32, 1] = slice xr axis=3 start=0 step=1
    b: f32[B, N, 32, 1] = slice xr axis=3 start=1 step=1
    re: f32[B, N, 32] = reshape a
    im: f32[B, N, 32] = reshape b
    te: c64[B, N, 32] = expand t to=[1, 2]
    c: f32[B, N, 32] = real te
    s: f32[B, N, 32] = imag te
    p: f32[B, N, 32] = mul re, c
    q: f32[B, N, 32] = mul im, s
    u: f32[B, N, 32] = mul re, s
    v: f32[B, N, 32] = mul im, c
    yr: f32[B, N, 32] = sub p, q
    yi: f32[B, N, 32] = add u, v
    r1: f32[B, N, 32, 1] = reshape yr
    i1: f32[B, N, 32, 1] = reshape yi
    z: f32[B, N, 32, 2] = cat r1, i1 axis=3
    f: f32[B, N, 64] = reshape z
    o: bf16[B, N, 64] = cast f
    ret o
"""

ONE_KERNEL = {
    "softmax": source("x: f32[B, N]", "f32[B, N]", SOFTMAX.format(p="", x="x") + "ret y"),
    "rotary embedding of complex numbers": source(
        "x: bf16[B, N, 64], t: c64[N, 32]", "bf16[B, N, 64]", ROTARY
    ),
    "log_softmax": source(
        "x: f32[B, N]",
        "f32[B, N]",
        """
        m: f32[B] = amax x axes=[1]
        n: f32[B, N] = expand m to=[0]
        d: f32[B, N] = sub x, n
        e: f32[B, N] = exp d
        s: f32[B] = sum e axes=[1]
        l: f32[B] = log s
        r: f32[B, N] = expand l to=[0]
        y: f32[B, N] = sub d, r
        ret y""",
    ),
    "running sum of a masked exponential": source(
        "x: f32[B, N], m: bool[B, N]",
        "f32[B, N]",
        """
        e: f32[B, N] = exp x
        z: f32[B, N] = const 0.0
        w: f32[B, N] = where m, e, z
        y: f32[B, N] = scan w op=sum axis=1
        ret y""",
    ),
    "its gradient": source(
        "g: f32[B, N], e: f32[B, N], m: bool[B, N]",
        "f32[B, N]",
        """
        f: f32[B, N] = flip g axes=[1]
        s: f32[B, N] = scan f op=sum axis=1
        b: f32[B, N] = flip s axes=[1]
        z: f32[B, N] = const 0.0
        w: f32[B, N] = where m, b, z
        y: f32[B, N] = mul w, e
        ret y""",
    ),
    "running maximum and where it stands": source(
        "x: f32[B, N]",
        "f32[B, N], i64[B, N]",
        """
        v: f32[B, N] = scan x op=amax axis=1
        h: bool[B, N] = eq x, v
        j: i64[B, N] = iota axis=1
        w: i64[B, N] = where h, j, 0
        p: i64[B, N] = scan w op=amax axis=1
        ret v, p""",
    ),
    "masked softmax": source(
        "x: f32[B, N], scale: f32",
        "f32[B, N]",
        """
        i: i64[B, N] = iota axis=0
        j: i64[B, N] = iota axis=1
        c: bool[B, N] = le j, i
        k: f32[B, N] = expand scale to=[]
        z: f32[B, N] = mul x, k
        w: f32[B, N] = where c, z, -inf
        """
        + SOFTMAX.format(p="", x="w")
        + "ret y",
    ),
    "softmax of a transpose": source(
        "x: f32[N, B]",
        "f32[B, N]",
        "t: f32[B, N] = permute x perm=[1, 0]\n" + SOFTMAX.format(p="", x="t") + "ret y",
    ),
    "variance": source("x: f32[B, N]", "f32[B], f32[B]", VARIANCE + "ret a, m"),
    "residual and layer norm": source(
        "u: f32[B, N], p: f32[B, N], w: f32[N], b: f32[N]",
        "f32[B, N], f32[B, N], f32[B]",
        "x: f32[B, N] = add u, p\n"
        + VARIANCE
        + """
        c: f32[B] = add a, 1e-5
        g: f32[B] = rsqrt c
        h: f32[B, N] = expand g to=[0]
        z: f32[B, N] = mul d, h
        we: f32[B, N] = expand w to=[1]
        o: f32[B, N] = mul z, we
        be: f32[B, N] = expand b to=[1]
        y: f32[B, N] = add o, be
        ret y, x, g""",
    ),
    "root mean square norm": source(
        "x: bf16[B, N], w: bf16[N]",
        "bf16[B, N]",
        """
        f: f32[B, N] = cast x
        q: f32[B, N] = mul f, f
        s: f32[B] = sum q axes=[1]
        a: f32[B] = add s, 1e-5
        g: f32[B] = rsqrt a
        h: f32[B, N] = expand g to=[0]
        z: f32[B, N] = mul f, h
        c: bf16[B, N] = cast z
        we: bf16[B, N] = expand w to=[1]
        y: bf16[B, N] = mul c, we
        ret y""",
    ),
    "bias, tanh gelu and residual": source(
        "x: f32[B, N], b: f32[N], u: f32[B, N]",
        "f32[B, N]",
        """
        be: f32[B, N] = expand b to=[1]
        t: f32[B, N] = add x, be
        c: f32[B, N] = mul t, t
        d: f32[B, N] = mul c, t
        e: f32[B, N] = mul d, 0.044715
        f: f32[B, N] = add t, e
        g: f32[B, N] = mul f, 0.79788456
        h: f32[B, N] = tanh g
        i: f32[B, N] = add h, 1.0
        j: f32[B, N] = mul t, i
        k: f32[B, N] = mul j, 0.5
        y: f32[B, N] = add k, u
        ret y""",
    ),
    "cross entropy's rows": source(
        "x: f32[B, N], w: f32[N]",
        "f32[B], f32[B]",
        SOFTMAX.format(p="", x="x")
        + """
        we: f32[B, N] = expand w to=[1]
        q: f32[B, N] = mul y, we
        l: f32[B] = sum q axes=[1]
        o: f32[B] = log l
        ret o, s""",
    ),
    "rotary embedding": source(
        "x: f32[B, 64], c: f32[B, 64], s: f32[B, 64]",
        "f32[B, 64]",
        """
        a: f32[B, 32] = slice x axis=1 start=0 step=1
        b: f32[B, 32] = slice x axis=1 start=32 step=1
        n: f32[B, 32] = neg b
        r: f32[B, 64] = cat n, a axis=1
        u: f32[B, 64] = mul x, c
        v: f32[B, 64] = mul r, s
        y: f32[B, 64] = add u, v
        ret y""",
    ),
    "stencil": source(
        "x: f32[B + 2, N + 2]",
        "f32[B, N]",
        """
        c: f32[B + 2, N + 2] = mul x, 0.25
        a0: f32[B, N + 2] = slice c axis=0 start=0 step=1
        a: f32[B, N] = slice a0 axis=1 start=1 step=1
        b0: f32[B, N + 2] = slice c axis=0 start=2 step=1
        b: f32[B, N] = slice b0 axis=1 start=1 step=1
        y: f32[B, N] = add a, b
        ret y""",
    ),
    "updates that read one gradient": source(
        "g: f32[B, N], m: f32[B, N], v: f32[B, N], p: f32[B, N]",
        "f32[B, N] into m, f32[B, N] into v, f32[B, N] into p",
        """
        a: f32[B, N] = mul m, 0.9
        b: f32[B, N] = mul g, 0.1
        c: f32[B, N] = add a, b
        d: f32[B, N] = mul g, g
        e: f32[B, N] = maximum v, d
        f: f32[B, N] = sqrt e
        h: f32[B, N] = div c, f
        q: f32[B, N] = sub p, h
        ret c, e, q""",
    ),
    "argmax": source(
        "x: f32[B, N], y: f32[B, N]",
        "i64[B], f32[B]",
        """
        z: f32[B, N] = sub x, y
        i: i64[B] = argmax z axes=[1]
        m: f32[B] = amax z axes=[1]
        ret i, m""",
    ),
    "embedding sum": source(
        "w: f32[1000, 64], i: i64[B, N]",
        "f32[B, 64]",
        """
        e: f32[B, N, 64] = gather w, i axis=0
        s: f32[B, 64] = sum e axes=[1]
        y: f32[B, 64] = tanh s
        ret y""",
    ),
    "normalised image": source(
        "x: u8[B, N, 3], m: f32[3], s: f32[3]",
        "f32[3, B, N]",
        """
        p: u8[3, B, N] = permute x perm=[2, 0, 1]
        f: f32[3, B, N] = cast p
        me: f32[3, B, N] = expand m to=[0]
        d: f32[3, B, N] = sub f, me
        se: f32[3, B, N] = expand s to=[0]
        y: f32[3, B, N] = div d, se
        ret y""",
    ),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name: str) -> None:
    made = compile(ONE_KERNEL[name])
    assert len(made.kernels) == 1, made.text
    check(made.kernels[0])


def test_scans_along_two_axes_are_two_kernels() -> None:
    text = source(
        "x: f32[B, N]",
        "f32[B, N]",
        """
        s: f32[B, N] = scan x op=sum axis=1
        d: f32[B, N] = mul s, 2.0
        y: f32[B, N] = scan d op=sum axis=0
        ret y""",
    )
    assert len(compile(text).kernels) == 2


def test_a_scan_of_softmax_is_two_kernels() -> None:
    text = source(
        "x: f32[B, N]",
        "f32[B, N]",
        SOFTMAX.format(p="", x="x") + "c: f32[B, N] = scan y op=sum axis=1\nret c",
    )
    made = compile(text)
    assert sorted("scan" in k.ops() for k in made.kernels) == [False, True]


def test_two_softmaxes_of_one_value_share_a_kernel() -> None:
    text = source(
        "x: f32[B, N]",
        "f32[B, N], f32[B, N]",
        SOFTMAX.format(p="", x="x")
        + "h: f32[B, N] = mul x, 0.5\n"
        + SOFTMAX.format(p="z", x="h")
        + "ret y, zy",
    )
    assert len(compile(text).kernels) == 1


def test_layer_norm_backward_is_one_kernel_of_columns_and_one_of_rows() -> None:
    text = source(
        "g: f32[B*N, 64], x: f32[B, N, 64], w: f32[64], m: f32[B, N], r: f32[B, N]",
        "f32[B, N, 64], f32[64], f32[64]",
        """
        mm: f32[B*N, 64] = call g target="t" args="$0"
        d: f32[B, N, 64] = reshape mm
        me: f32[B, N, 64] = expand m to=[0, 1]
        c: f32[B, N, 64] = sub x, me
        re: f32[B, N, 64] = expand r to=[0, 1]
        h: f32[B, N, 64] = mul c, re
        hd: f32[B, N, 64] = mul h, d
        dw: f32[64] = sum hd axes=[0, 1]
        db: f32[64] = sum d axes=[0, 1]
        we: f32[B, N, 64] = expand w to=[2]
        u: f32[B, N, 64] = mul d, we
        uh: f32[B, N, 64] = mul u, h
        s: f32[B, N] = sum uh axes=[2]
        se: f32[B, N, 64] = expand s to=[0, 1]
        t: f32[B, N, 64] = mul h, se
        dx: f32[B, N, 64] = sub u, t
        ret dx, dw, db""",
    )
    made = compile(text)
    assert len(made.kernels) == 2
    for kernel in made.kernels:
        check(kernel)


def test_what_many_steps_add_to_is_not_stored_for_each_step() -> None:
    """Each step's comparison is a result of the steps until the sum of all joins them."""
    lets = ["k0: f32[N] = sub x, x"]
    re, im = "x", "y"
    for k in range(1, 17):
        lets += [
            f"a{k}: f32[N] = mul {re}, {re}",
            f"b{k}: f32[N] = mul {im}, {im}",
            f"c{k}: f32[N] = sub a{k}, b{k}",
            f"d{k}: f32[N] = add c{k}, x",
            f"v{k}: f32[N] = mul {re}, 2.0",
            f"e{k}: f32[N] = mul v{k}, {im}",
            f"f{k}: f32[N] = add e{k}, y",
            f"g{k}: f32[N] = mul d{k}, d{k}",
            f"h{k}: f32[N] = mul f{k}, f{k}",
            f"s{k}: f32[N] = add g{k}, h{k}",
            f"p{k}: bool[N] = lt s{k}, 4.0",
            f"q{k}: f32[N] = cast p{k}",
            f"k{k}: f32[N] = add k{k - 1}, q{k}",
            f"t{k}: f32[N] = maximum d{k}, -4.0",
            f"re{k}: f32[N] = minimum t{k}, 4.0",
            f"u{k}: f32[N] = maximum f{k}, -4.0",
            f"im{k}: f32[N] = minimum u{k}, 4.0",
        ]
        re, im = f"re{k}", f"im{k}"
    text = source("x: f32[N], y: f32[N]", "f32[N]", "\n".join([*lets, "ret k16"]))
    assert len(compile(text).kernels) == 1


def test_rows_and_columns_are_two_kernels() -> None:
    text = source(
        "x: f32[B, N]",
        "f32[B], f32[N]",
        """
        r: f32[B] = sum x axes=[1]
        c: f32[N] = sum x axes=[0]
        ret r, c""",
    )
    assert len(compile(text).kernels) == 2


def test_an_expensive_value_at_two_places_is_stored_once() -> None:
    text = source(
        "x: f32[N + 1]",
        "f32[N]",
        """
        e: f32[N + 1] = lgamma x
        a: f32[N] = slice e axis=0 start=0 step=1
        b: f32[N] = slice e axis=0 start=1 step=1
        y: f32[N] = sub b, a
        ret y""",
    )
    made = compile(text)
    assert sum(kernel.ops().count("lgamma") for kernel in made.kernels) == 1
    assert len(made.kernels) == 2


def test_no_kernel_needs_a_call_that_needs_it() -> None:
    text = source(
        "x: f32[N]",
        "f32[N]",
        """
        a: f32[N] = exp x
        c: f32[N] = call a target="t" args="$0"
        d: f32[N] = add c, a
        ret d""",
    )
    made = compile(text)
    assert len(made.kernels) == 2
    assert made.calls == 1


def test_views_for_calls_are_not_copied() -> None:
    text = source(
        "x: f32[B, N, 4, 8]",
        "f32[B, 4, 8, N]",
        """
        y: f32[B, N, 4, 8] = exp x
        p: f32[B, 4, N, 8] = permute y perm=[0, 2, 1, 3]
        q: f32[B, 4, 8, N] = permute y perm=[0, 2, 3, 1]
        c: f32[B, 4, 8, N] = call p, q target="t" args="$0, $1"
        ret c""",
    )
    made = compile(text)
    assert len(made.kernels) == 1
    assert made.kernels[0].ops() == ["exp"]


def test_long_chains_are_cut_into_few_kernels() -> None:
    ops = ("exp", "sin", "tanh")
    names = ["x", *(f"v{k}" for k in range(1000))]
    lets = [f"{new}: f32[N] = {ops[k % 3]} {old}" for k, (old, new) in enumerate(pairwise(names))]
    made = compile(source("x: f32[N]", "f32[N]", "\n".join([*lets, f"ret {names[-1]}"])))
    assert len(made.kernels) <= 4
    assert sum(len(kernel.lets) for kernel in made.kernels) == 1000


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_random_programs_keep_the_rules(first: int) -> None:
    for seed in range(first, first + 25):
        text = program(seed)
        opt(text, "--pipeline", "--emit", "none", "--eval", str(seed))
        for kernel in compile(text).kernels:
            check(kernel)

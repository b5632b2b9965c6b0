"""Writes csrc/ir/math/prelude_poly.h: the minimax polynomials and constants of the math header.

Every fit is a polynomial P with |target(x) - P(x)| * weight(x) as small as it can be on an interval,
found by the Remez exchange over a dense grid in 60 digits, and then rounded coefficient by
coefficient.  Needs mpmath:  python -m benchmarks.ulp.fit > csrc/ir/math/prelude_poly.h
With names of fits it writes these alone.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp

mp.mp.dps = 60

Real = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    name: str
    low: str
    high: str
    terms: int
    target: Real
    weight: Real
    single: bool = False
    apart: int = 0  # so many coefficients are pairs, dlc_<name>_first, and no part of the polynomial


def grid(low: mp.mpf, high: mp.mpf, count: int) -> list[mp.mpf]:
    """Chebyshev-spaced points strictly inside the interval."""
    half, middle = (high - low) / 2, (high + low) / 2
    return [middle - half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def horner(coefficients: list[mp.mpf], x: mp.mpf) -> mp.mpf:
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def exchange(error: list[mp.mpf], count: int) -> list[int]:
    """The largest error of each run of one sign; the best `count` neighbours of them."""
    picks: list[int] = []
    for k, e in enumerate(error):
        if picks and (error[picks[-1]] > 0) == (e > 0):
            if abs(e) > abs(error[picks[-1]]):
                picks[-1] = k
        else:
            picks.append(k)
    while len(picks) > count:
        picks.pop(0 if abs(error[picks[0]]) < abs(error[picks[-1]]) else -1)
    return picks


def remez(fit: Fit) -> tuple[list[mp.mpf], mp.mpf]:
    """The coefficients, lowest first, and the largest weighted error."""
    low, high = mp.mpf(mp.mpmathify(fit.low)), mp.mpf(mp.mpmathify(fit.high))
    points = grid(low, high, 60 * (fit.terms + 1))
    target = [fit.target(x) for x in points]
    weight = [fit.weight(x) for x in points]
    size = fit.terms + 1
    picks = [(2 * k + 1) * len(points) // (2 * size) for k in range(size)]
    best: tuple[list[mp.mpf], mp.mpf] | None = None
    for _ in range(30):
        rows = mp.matrix(size, size)
        right = mp.matrix(size, 1)
        for r, k in enumerate(picks):
            for c in range(fit.terms):
                rows[r, c] = points[k] ** c
            rows[r, fit.terms] = (-1) ** r / weight[k]
            right[r] = target[k]
        solved = mp.lu_solve(rows, right)
        coefficients = [solved[c] for c in range(fit.terms)]
        error = [(t - horner(coefficients, x)) * w for x, t, w in zip(points, target, weight, strict=True)]
        worst = max(abs(e) for e in error)
        if best is None or worst < best[1]:
            best = coefficients, worst
        levelled = abs(solved[fit.terms])
        picks = exchange(error, size)
        if len(picks) < size or worst < levelled * mp.mpf("1.001"):
            break
    assert best is not None
    return best


def written(c: mp.mpf, single: bool) -> str:
    value = float(c)
    if single:
        value = struct.unpack("f", struct.pack("f", value))[0]
    mantissa, exponent = value.hex().split("p")
    digits = mantissa.rstrip("0") if "." in mantissa else mantissa
    return f"{digits.rstrip('.')}p{exponent}{'f' if single else ''}"


def series(f: Callable[[mp.mpf], mp.mpf], at_zero: str) -> Real:
    """f, and its limit at 0 (the grids do not hold 0, but come near it)."""
    return lambda x: f(x) if abs(x) > mp.mpf("1e-18") else mp.mpf(mp.mpmathify(at_zero))


def over_sqrt(f: Real) -> Real:
    return lambda z: f(mp.sqrt(z))


def shifted(f: Real, by: str) -> Real:
    """f around `by`: a polynomial far from its origin would cancel."""
    return lambda x: f(x + mp.mpf(by))


def erfcx(x: mp.mpf) -> mp.mpf:
    return mp.exp(x * x) * mp.erfc(x)


def shepherd(k: int) -> Real:
    """(1 + 2x) erfcx(x) over t = (x - k) / (x + k)."""

    def at(t: mp.mpf) -> mp.mpf:
        x = k * (1 + t) / (1 - t)
        return (1 + 2 * x) * erfcx(x)

    return at


def erfinv_small(w: mp.mpf) -> mp.mpf:
    """erfinv(x) / x over w = -log(1 - x*x)."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def erfinv_tail(s: mp.mpf) -> mp.mpf:
    """erfinv(x) / x over s = sqrt(-log(1 - x*x)), found by Newton where 1 - x is tiny."""
    w = s * s
    gap = mp.exp(-w)  # 1 - x*x
    x = mp.sqrt(1 - gap)
    tail = gap / (1 + x)  # 1 - x
    y = s * mp.mpf("0.9")
    for _ in range(60):
        step = (mp.erfc(y) - tail) / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y += step
        if abs(step) < mp.mpf("1e-50"):
            break
    return y / x


def erfinv_slope(w: mp.mpf) -> mp.mpf:
    return (erfinv_small(w) - mp.sqrt(mp.pi) / 2) / w


def erfinv_beyond(s: mp.mpf) -> mp.mpf:
    return erfinv_tail(s) - s


LN2_HALF = str(mp.log(2) / 2 + mp.mpf("1e-6"))
ROOT_LOW, ROOT_HIGH = str(mp.sqrt(0.5) - 1 - mp.mpf("1e-6")), str(mp.sqrt(2) - 1 + mp.mpf("1e-6"))
S2_HIGH = str(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 + mp.mpf("1e-8"))
QUARTER2 = str((mp.pi / 4) ** 2 + mp.mpf("1e-8"))

exp2nd = series(lambda r: (mp.expm1(r) - r) / r**2, "0.5")
log2nd = series(lambda f: (mp.log1p(f) - f) / f**2, "-0.5")
sin3rd = over_sqrt(series(lambda x: (mp.sin(x) - x) / x**3, str(-mp.mpf(1) / 6)))
cos2nd = over_sqrt(series(lambda x: (mp.cos(x) - 1) / x**2, "-0.5"))
cos4th = over_sqrt(series(lambda x: (mp.cos(x) - 1 + x * x / 2) / x**4, str(mp.mpf(1) / 24)))
tan3rd = over_sqrt(series(lambda x: (mp.tan(x) - x) / x**3, str(mp.mpf(1) / 3)))
atan3rd = over_sqrt(series(lambda x: (mp.atan(x) - x) / x**3, str(-mp.mpf(1) / 3)))
asin3rd = over_sqrt(series(lambda x: (mp.asin(x) - x) / x**3, str(mp.mpf(1) / 6)))
tanh3rd = over_sqrt(series(lambda x: (mp.tanh(x) - x) / x**3, str(-mp.mpf(1) / 3)))
erf1st = over_sqrt(series(lambda x: mp.erf(x) / x - 1, str(2 / mp.sqrt(mp.pi) - 1)))


def relative_exp(r: mp.mpf) -> mp.mpf:
    return r**2 / mp.exp(r)


def relative_expm1(r: mp.mpf) -> mp.mpf:
    return abs(r**2 / mp.expm1(r))


def relative_log(f: mp.mpf) -> mp.mpf:
    return abs(f**2 / mp.log1p(f))


def normal_below(x: mp.mpf) -> mp.mpf:
    """The normal distribution function."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


def single_precision() -> list[Fit]:
    return [
        Fit("exp_f32", "-" + LN2_HALF, LN2_HALF, 5, exp2nd, relative_exp, True),
        Fit("expm1_f32", "-" + LN2_HALF, LN2_HALF, 5, exp2nd, relative_expm1, True),
        Fit(
            "exp2_f32",
            "-0.5",
            "0.5",
            6,
            series(lambda r: (2**r - 1) / r, str(mp.log(2))),
            lambda r: abs(r) / 2**r,
            True,
        ),
        Fit("log_f32", ROOT_LOW, ROOT_HIGH, 9, log2nd, relative_log, True),
        Fit("atan_f32", "0", "1", 9, atan3rd, lambda z: z**1.5 / mp.atan(mp.sqrt(z)), True),
        Fit("asin_f32", "0", "0.25", 5, asin3rd, lambda z: z**1.5 / mp.asin(mp.sqrt(z)), True),
        Fit("tanh_f32", "0", "0.36", 5, tanh3rd, lambda z: z**1.5 / mp.tanh(mp.sqrt(z)), True),
        Fit("erf_f32", "0", "0.87", 6, erf1st, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), True),
        Fit(
            "erf_tail_f32",
            "0.92",
            "4",
            7,
            lambda x: mp.log(mp.erfc(x)),
            lambda x: mp.erfc(x) / mp.erf(x),
            True,
        ),
        Fit(
            "phi_f32",
            "0",
            "5.6",
            9,
            lambda x: mp.log(normal_below(-x), 2),
            lambda x: mp.log(2) * (normal_below(-x) + mp.mpf("1e-7")),
            True,
        ),
        Fit("sin_f32", "0", "0.65", 3, sin3rd, lambda z: z**1.5 / mp.sin(mp.sqrt(z)), True),
        Fit("cos_f32", "0", "0.65", 4, cos2nd, lambda z: z / mp.cos(mp.sqrt(z)), True),
        Fit("tan_f32", "0", "0.65", 7, tan3rd, lambda z: z**1.5 / mp.tan(mp.sqrt(z)), True),
    ]


def exponentials() -> list[Fit]:
    return [
        Fit("exp2_mid", "-0.5", "0.5", 8, lambda r: mp.mpf(2) ** r, lambda r: 1 / mp.mpf(2) ** r),
        Fit("exp_f64", "-" + LN2_HALF, LN2_HALF, 11, exp2nd, relative_exp),
        Fit("expm1_f64", "-" + LN2_HALF, LN2_HALF, 12, exp2nd, relative_expm1),
        Fit(
            "log_f64",
            "0",
            S2_HIGH,
            8,
            over_sqrt(series(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3, str(mp.mpf(2) / 3))),
            lambda z: z**1.5 / (2 * mp.atanh(mp.sqrt(z))),
        ),
        Fit(
            "log_dd",
            "0",
            S2_HIGH,
            9,
            over_sqrt(series(lambda s: (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5, str(mp.mpf(2) / 5))),
            lambda z: z**2.5 / (2 * mp.atanh(mp.sqrt(z))),
        ),
        Fit(
            "log_mid",
            "0",
            S2_HIGH,
            5,
            over_sqrt(series(lambda s: 2 * mp.atanh(s) / s, "2")),
            lambda z: mp.sqrt(z) / (2 * mp.atanh(mp.sqrt(z))),
        ),
    ]


def trigonometric() -> list[Fit]:
    return [
        Fit("sin_f64", "0", QUARTER2, 7, sin3rd, lambda z: z**1.5 / mp.sin(mp.sqrt(z))),
        Fit("cos_f64", "0", QUARTER2, 7, cos4th, lambda z: z**2 / mp.cos(mp.sqrt(z))),
        Fit("atan_mid", "0", "1", 11, atan3rd, lambda z: z**1.5 / mp.atan(mp.sqrt(z))),
        Fit("atan_f64", "0", "0.25", 13, atan3rd, lambda z: z**1.5 / mp.atan(mp.sqrt(z))),
        Fit("asin_f64", "0", "0.25", 14, asin3rd, lambda z: z**1.5 / mp.asin(mp.sqrt(z))),
    ]


def error_functions() -> list[Fit]:
    return [
        Fit("erf_f64", "0", "1", 14, erf1st, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z))),
        Fit(
            "erf_large_f64",
            "-2.5",
            "2.45",
            22,
            shifted(erfcx, "3.5"),
            lambda x: mp.exp(-((x + 3.5) ** 2)) / mp.erf(x + 3.5),
        ),
        Fit("erfcx_f64", "-1", "0.76", 24, shepherd(4), lambda t: 1 / shepherd(4)(t), apart=1),
        Fit("erfcx_mid", "-1", "0.45", 12, shepherd(4), lambda t: 1 / shepherd(4)(t)),
    ]


def gammas() -> list[Fit]:
    return [
        Fit(
            "lgamma_f64",
            "-0.5",
            "0.5",
            22,
            series(lambda d: mp.loggamma(2 + d) / d, str(1 - mp.euler)),
            lambda d: abs(d / mp.loggamma(2 + d)) if abs(d) > mp.mpf("1e-18") else mp.mpf(2),
            apart=6,
        ),
        Fit(
            "sinc_log_f64",
            "0",
            "0.25",
            15,
            over_sqrt(series(lambda d: mp.log(mp.sinpi(d) / (mp.pi * d)) / d**2, str(-mp.zeta(2)))),
            lambda z: z,
        ),
        Fit(
            "stirling_f64",
            "0",
            str(1 / mp.mpf("30.25")),
            10,
            over_sqrt(lambda v: stirling(1 / v) if v > mp.mpf("1e-9") else mp.mpf(1) / 12),
            lambda z: mp.mpf(1),
        ),
    ]


def inverse_error_functions() -> list[Fit]:
    return [
        Fit(
            "erfinv_mid",
            "-3.125",
            "3.125",
            13,
            shifted(erfinv_small, "3.125"),
            lambda w: 1 / erfinv_small(w + mp.mpf("3.125")),
        ),
        Fit(
            "erfinv_far",
            "-0.75",
            "0.8",
            10,
            shifted(erfinv_tail, "3.25"),
            lambda s: 1 / erfinv_tail(s + mp.mpf("3.25")),
        ),
        Fit(
            "erfinv_f64",
            "-3.125",
            "3.125",
            24,
            shifted(erfinv_slope, "3.125"),
            lambda v: (v + mp.mpf("3.125")) / erfinv_small(v + mp.mpf("3.125")),
        ),
        Fit(
            "erfinv_tail_f64",
            "-0.75",
            "0.75",
            21,
            shifted(erfinv_beyond, "3.25"),
            lambda s: 1 / erfinv_tail(s + mp.mpf("3.25")),
        ),
        Fit("erfinv_end_f64", "-1", "1.1", 20, shifted(erfinv_beyond, "5"), lambda s: 1 / erfinv_tail(s + 5)),
    ]


def fits() -> list[Fit]:
    families = (
        single_precision,
        exponentials,
        trigonometric,
        error_functions,
        gammas,
        inverse_error_functions,
    )
    return [fit for family in families for fit in family()]


def stirling(x: mp.mpf) -> mp.mpf:
    """x * (loggamma(x) - (x - 1/2) log x + x - log(2 pi) / 2)."""
    with mp.workdps(90):
        return x * (mp.loggamma(x) - (x - mp.mpf(0.5)) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def pi_rows(scale: mp.mpf, period: int, starts: list[int], parts: int) -> list[list[mp.mpf]]:
    """Row k: 2**starts[k] * scale modulo period, as an unevaluated sum of `parts` doubles,
    all positive."""
    rows = []
    with mp.workprec(1400):
        for start in starts:
            left = mp.ldexp(scale, start)
            left -= period * mp.floor(left / period)
            row = []
            for _ in range(parts):
                below = mp.ldexp(1, mp.frexp(left)[1] - 53)
                row.append(below * mp.floor(left / below))
                left -= row[-1]
            rows.append(row)
    return rows


def print_table(name: str, comment: str, columns: list[list[mp.mpf]]) -> None:
    print(f"\n/* {comment} */")
    print(f"DLC_TABLE double {name}[{len(columns)}][{len(columns[0])}] = {{")
    for column in columns:
        print("    {")
        for k in range(0, len(column), 4):
            print("        " + " ".join(written(c, False) + "," for c in column[k : k + 4]))
        print("    },")
    print("};")


def print_fit(fit: Fit) -> None:
    coefficients, worst = remez(fit)
    kind = "float" if fit.single else "double"
    print(f"\n/* On [{fit.low[:9]}, {fit.high[:9]}]; error 2^{float(mp.log(worst, 2)):.1f}. */")
    if fit.apart:
        print(f"DLC_TABLE double dlc_{fit.name}_first[{fit.apart}][2] = {{")
        for c in coefficients[: fit.apart]:
            print(f"    {{{written(c, False)}, {written(c - mp.mpf(float(c)), False)}}},")
        print("};\n")
        coefficients = coefficients[fit.apart :]
    print(f"DLC_FN {kind}\ndlc_poly_{fit.name}({kind} x)\n{{")
    print(f"    {kind} p = {written(coefficients[-1], fit.single)};\n")
    for c in reversed(coefficients[:-1]):
        print(f"    p = DLC_FMA(p, x, {written(c, fit.single)});")
    print("    return p;\n}", flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        for fit in fits():
            if fit.name in sys.argv[1:]:
                print_fit(fit)
        return
    print("/* Written by benchmarks/ulp/fit.py, which says what each polynomial approximates: the part of")
    print(" * the math header that is numbers.  Included by, or pasted after, prelude.h. */")
    with mp.workprec(1400):
        quarter = 2 / mp.pi
    columns = pi_rows(quarter, 4, [16 * k for k in range(62)], 3)
    print_table(
        "dlc_two_over_pi",
        "Column k of the three: 2^16k * 2/pi modulo 4 in three doubles.",
        [[row[part] for row in columns] for part in range(3)],
    )
    rows = pi_rows(quarter, 4, [0, 26, 52, 78], 2)
    rows = [[mp.ldexp(c, -26 * k) for c in row] for k, row in enumerate(rows)]
    print_table("dlc_two_over_pi_f32", "Row k: 2/pi without its bits of weight 2^(2-26k) and more.", rows)
    for fit in fits():
        print_fit(fit)


if __name__ == "__main__":
    main()

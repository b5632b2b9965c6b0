"""Windows of the last axes: pools, convolutions, columns of images."""

from . import Rows, ints, reals

ROWS = Rows()
refuses, takes = ROWS.refuses, ROWS.takes

# ---- pools ----

for axes in (1, 2, 3):
    X = reals(1, 2, *[4] * axes)
    for kind in ("max", "avg"):
        name = f"{kind}_pool{axes}d"
        for what, arguments in (
            ("a kernel", "0"),
            ("a kernel", "-1"),
            ("a step", "2, 0"),
            ("a step", "2, -1"),
            ("half a kernel of padding", "2, 1, 2"),
            ("no padding below 0", "2, 1, -1"),
            ("a kernel that fits", "5"),
            ("one number an axis", "(2, 2, 2, 2)"),
        ):
            refuses(name, what, f"F.{name}(x, {arguments})", X)
        refuses(name, "axes for windows", f"F.{name}(x, 2)", reals(4) if axes > 1 else reals(1))
        refuses(name, "no truth values", f"F.{name}(x, 2)", X.bool())
    refuses(f"max_pool{axes}d", "a dilation", f"F.max_pool{axes}d(x, 2, 1, 0, 0)", X)
    refuses(f"max_pool{axes}d", "a kernel that fits", f"F.max_pool{axes}d(x, 2, 1, 0, 9)", X)
    for kind in ("max", "avg"):
        name = f"adaptive_{kind}_pool{axes}d"
        refuses(name, "a size", f"F.{name}(x, -1)", X)
        if kind == "max" or axes == 3:
            refuses(name, "channels", f"F.{name}(x, 2)", X[:, :0])
        refuses(name, "elements", f"F.{name}(x, 2)", reals(1, 2, *[0] * axes))
        refuses(name, "floats", f"F.{name}(x, 2)", X.long())
    refuses(f"max_unpool{axes}d", "an index of int64", f"F.max_unpool{axes}d(x, y, 2)", X, X.int())
for dtype in ("long", "byte"):
    refuses("max_pool1d", "floats", "F.max_pool1d(x, 2)", getattr(ints(1, 2, 4), dtype)())
takes("max_pool2d_with_indices", "integers", "F.max_pool2d(x, 2)", ints(1, 2, 4, 4))
for value in (0,):
    refuses("avg_pool2d", "a divisor", f"F.avg_pool2d(x, 2, divisor_override={value})", reals(1, 2, 4, 4))

# ---- columns of images ----

IMAGE, COLUMNS = reals(1, 2, 4, 4), reals(1, 8, 9)
for arguments in ("0", "5", "2, stride=0", "2, dilation=0", "2, padding=-1"):
    refuses("im2col", "windows that fit", f"F.unfold(x, {arguments})", IMAGE)
for arguments in ("4, 0", "4, 2, stride=0", "4, 2, padding=-1", "-4, 2", "5, 2"):
    refuses("col2im", "windows that fit", f"F.fold(x, {arguments})", COLUMNS)

# ---- convolutions ----

for axes in (1, 2):
    X, W = reals(1, 2, *[5] * axes), reals(4, 2, *[3] * axes)
    conv, back = f"F.conv{axes}d", f"F.conv_transpose{axes}d"
    for what, arguments in (
        ("groups that divide", "x, y, groups=2"),
        ("a group", "x, y, groups=0"),
        ("a step", "x, y, stride=0"),
        ("no padding below 0", "x, y, padding=-1"),
        ("a dilation", "x, y, dilation=0"),
        ("as many channels", "x[:, :1], y"),
        ("a kernel that fits", "x[:, :, :2], y"),
        ("one dtype", "x, y.double()"),
        ("a known padding", "x, y, padding='foo'"),
        ("a step of 1", "x, y, padding='same', stride=2"),
        ("a bias a channel", "x, y, x.flatten()[:3]"),
    ):
        refuses(f"conv{axes}d", what, f"{conv}({arguments})", X, W)
    for what, arguments in (
        ("as many channels", "x[:, :1], y"),
        ("a group", "x, y, groups=0"),
        ("a step", "x, y, stride=0"),
        ("no padding below 0", "x, y, padding=-1"),
        ("a dilation", "x, y, dilation=0"),
        ("one dtype", "x, y.double()"),
        ("less output padding than steps", "x, y, output_padding=1"),
        ("a bias a channel", "x, y, x.flatten()[:3]"),
        ("something to be left", "x, y, padding=9"),
    ):
        refuses(f"conv_transpose{axes}d", what, f"{back}({arguments})", X, W[:2])

"""A convolution with its weight and its result in rows copied its windows, and read their columns apart.

The last convolution of a U-Net's way down took 17 ms instead of 1.
"""

from tests.dlc_opt import opt

PROGRAM = """
dlc 1 kernels

fn convolution(x: f32[1, 6, 6, 32], w: f32[48, 32, 3, 3]) -> (f32[1, 48, 4, 4]) {
  let y: f32[1, 48, 4, 4] = kernel {
    let windows: f32[1, 4, 4, 3, 3, 32] = as_strided x offset=0 strides=[1152, 192, 32, 192, 32, 1]  @conv2d
    let sums: f32[1, 48, 4, 4] = contract windows, w over="mpqkli,nikl->mnpq"  @conv2d
    ret sums
  }  @conv2d
  ret y
}
"""


def test_the_image_is_read_by_the_product_alone() -> None:
    loops = opt(PROGRAM, "--pass", "lower", "--eval", "1")
    (read,) = (k for k, line in enumerate(loops.splitlines()) if "= load x[" in line)
    assert "fused {" in loops.splitlines()[read - 1]


def test_the_weight_is_packed() -> None:
    lines = opt(PROGRAM, "--pass", "lower,tile,micro").splitlines()
    (read,) = (line for line in lines if " w[" in line)
    assert read.endswith(" pack  @conv2d")

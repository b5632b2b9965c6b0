"""Operators that reduce an axis or all of a tensor, scans, and normalisations with their gradients."""

import torch
import torch.nn.functional as F

from benchmarks.cases.case import Case, case, cube, flat, matrix, normal
from benchmarks.cases.norms import classes, images

VECTOR, MATRIX, CUBE, NORM = flat(1), matrix(), normal(lambda n: (cube(n, 64),)), matrix(2)
IMAGES = normal(images)
STATISTICS = normal(lambda n: (*images(n), (32,)))

REDUCE: tuple[Case, ...] = (
    *(case(call, VECTOR, f"{name} of a vector") for name, call in {
        "sum": lambda x: x.sum(),
        "mean": lambda x: x.mean(),
        "amax": lambda x: x.amax(),
        "var": lambda x: x.var(),
        "norm": lambda x: x.norm(),
        "argmax": lambda x: x.argmax(),
        "cumsum": lambda x: x.cumsum(0),
    }.items()),
    *(case(call, MATRIX, f"{name} of a matrix") for name, call in {
        "sum of axis 0": lambda x: x.sum(0),
        "sum of axis 1": lambda x: x.sum(1),
        "mean of axis 0": lambda x: x.mean(0),
        "mean of axis 1": lambda x: x.mean(1),
        "amax of axis 0": lambda x: x.amax(0),
        "amax of axis 1": lambda x: x.amax(1),
        "var of axis 0": lambda x: x.var(0),
        "var of axis 1": lambda x: x.var(1),
        "argmax of axis 0": lambda x: x.argmax(0),
        "argmax of axis 1": lambda x: x.argmax(1),
        "prod of axis 1": lambda x: x.prod(1),
        "any of axis 1": lambda x: x.bool().any(1),
        "logsumexp": lambda x: x.logsumexp(1),
        "cumsum of axis 0": lambda x: x.cumsum(0),
        "cumsum of axis 1": lambda x: x.cumsum(1),
        "softmax of axis 0": lambda x: x.softmax(0),
        "softmax of axis 1": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(1),
    }.items()),
    case(lambda x: x.sum(1), CUBE, "sum of the middle axis"),
    case(lambda x: x.sum(), VECTOR, "sum of a vector").of(torch.float64),
    case(lambda x: x.sum(), VECTOR, "sum of a vector").of(torch.bfloat16),
    case(lambda x: x.softmax(1), MATRIX, "softmax gradient", train=True),
    case(lambda x, y: F.mse_loss(x, y), flat(2), "mse_loss"),
    case(lambda x, t: F.cross_entropy(x, t), classes, "cross_entropy"),
    case(lambda x, t: F.cross_entropy(x, t), classes, "cross_entropy gradient", train=True),
)  # fmt: skip

NORMS: tuple[Case, ...] = (
    case(lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), NORM, "layer_norm"),
    case(lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), NORM, "layer_norm gradient", train=True),
    case(lambda x, w: F.rms_norm(x, x.shape[-1:], w), matrix(1), "rms_norm"),
    case(lambda x, w: F.rms_norm(x, x.shape[-1:], w), matrix(1), "rms_norm gradient", train=True),
    case(lambda x, w, b: F.group_norm(x, 8, w, b), IMAGES, "group_norm"),
    case(lambda x, w, b: F.group_norm(x, 8, w, b), IMAGES, "group_norm gradient", train=True),
    case(lambda x, w, b: F.instance_norm(x, None, None, w, b), IMAGES, "instance_norm"),
    case(lambda x, w, b, m: F.batch_norm(x, m, m * m + 1, w, b), STATISTICS, "batch_norm"),
    case(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), IMAGES, "batch_norm in training"),
    case(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), IMAGES, "batch_norm gradient", train=True),
)

CASES = (*REDUCE, *NORMS)

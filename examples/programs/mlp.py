"""A multilayer perceptron."""

from itertools import pairwise

from torch import nn


class MLP(nn.Sequential):
    """Linear maps with an activation between them and a softmax at the end."""

    def __init__(self, width: int = 256, hidden: int = 1024, depth: int = 3, classes: int = 10) -> None:
        sizes = [width] + [hidden] * (depth - 1)
        layers = [m for i, o in pairwise(sizes) for m in (nn.Linear(i, o), nn.SiLU())]
        super().__init__(*layers, nn.Linear(sizes[-1], classes), nn.LogSoftmax(dim=-1))

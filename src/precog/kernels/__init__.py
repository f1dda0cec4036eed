"""Kernels: formulas on pair statistics, their hyperparameters and their algebra."""

from precog.kernels.additive import Additive
from precog.kernels.algebra import Power, Product, Sum, weighted_sum
from precog.kernels.base import Kernel, Leaf, White
from precog.kernels.counted import Counted
from precog.kernels.dotproduct import Constant, DotProduct, HistogramIntersection, Linear, Polynomial
from precog.kernels.grakel import GraKeL
from precog.kernels.graphs import Graph
from precog.kernels.objects import Objects, Pairwise, Precomputed
from precog.kernels.parameters import parameter
from precog.kernels.sklearn import from_sklearn
from precog.kernels.stationary import (
    RBF,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    Stationary,
)
from precog.kernels.statistics import DOT, MINIMUM, SQUARED_DISTANCE, Statistic
from precog.kernels.strings import Spectrum
from precog.kernels.subgraphs import Graphlets, ShortestPath, WeisfeilerLehman
from precog.kernels.walks import RandomWalk

__all__ = [
    "DOT",
    "MINIMUM",
    "RBF",
    "SQUARED_DISTANCE",
    "Additive",
    "Constant",
    "Counted",
    "DotProduct",
    "GraKeL",
    "Graph",
    "Graphlets",
    "HistogramIntersection",
    "Kernel",
    "Leaf",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Objects",
    "Pairwise",
    "Periodic",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "RandomWalk",
    "RationalQuadratic",
    "ShortestPath",
    "Spectrum",
    "Stationary",
    "Statistic",
    "Sum",
    "WeisfeilerLehman",
    "White",
    "from_sklearn",
    "parameter",
    "weighted_sum",
]

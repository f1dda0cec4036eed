"""Kernels: formulas on pair statistics, their hyperparameters and their algebra."""

from precog.kernels.additive import Additive
from precog.kernels.algebra import Power, Product, Sum
from precog.kernels.base import Kernel, Leaf, White
from precog.kernels.dotproduct import Constant, DotProduct, HistogramIntersection, Linear, Polynomial
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

__all__ = [
    "DOT",
    "MINIMUM",
    "RBF",
    "SQUARED_DISTANCE",
    "Additive",
    "Constant",
    "DotProduct",
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
    "RationalQuadratic",
    "Stationary",
    "Statistic",
    "Sum",
    "White",
    "from_sklearn",
    "parameter",
]

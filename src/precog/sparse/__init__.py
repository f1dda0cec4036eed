"""Sparse Gaussian processes: approximations from inducing inputs, and ways to choose them on any domain."""

from precog.sparse.approximations import APPROXIMATIONS, DTC, FITC, PITC, SOR, VFE, Approximation, Posterior, System
from precog.sparse.inducing import Inducing
from precog.sparse.slopes import Evaluation, evaluation

__all__ = [
    "APPROXIMATIONS",
    "DTC",
    "FITC",
    "PITC",
    "SOR",
    "VFE",
    "Approximation",
    "Evaluation",
    "Inducing",
    "Posterior",
    "System",
    "evaluation",
]

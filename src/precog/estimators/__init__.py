"""Estimators that follow scikit-learn's rules."""

from precog.estimators.gp import GPRegressor
from precog.estimators.ridge import KernelRidge
from precog.estimators.sparse import SparseGPRegressor

__all__ = ["GPRegressor", "KernelRidge", "SparseGPRegressor"]

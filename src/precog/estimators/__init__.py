"""Estimators that follow scikit-learn's rules."""

from precog.estimators.gp import GPRegressor
from precog.estimators.ridge import KernelRidge

__all__ = ["GPRegressor", "KernelRidge"]

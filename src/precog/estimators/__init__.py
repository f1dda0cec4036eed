"""Estimators that follow scikit-learn's rules."""

from precog.estimators.ridge import KernelRidge

__all__ = ["KernelRidge"]

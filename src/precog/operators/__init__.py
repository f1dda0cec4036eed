"""Matrices that are known by their products."""

from precog.operators.algebra import Noisy, Scaled, Sum
from precog.operators.base import Operator
from precog.operators.dense import Dense, LowRank
from precog.operators.gram import Gram

__all__ = ["Dense", "Gram", "LowRank", "Noisy", "Operator", "Scaled", "Sum"]

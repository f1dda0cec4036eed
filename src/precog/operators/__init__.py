"""Matrices that are known by their products."""

from precog.operators.algebra import Congruent, Noisy, Scaled, Sum
from precog.operators.base import Operator
from precog.operators.dense import Dense, LowRank
from precog.operators.gram import Gram
from precog.operators.structured import Interpolated, Kronecker

__all__ = ["Congruent", "Dense", "Gram", "Interpolated", "Kronecker", "LowRank", "Noisy", "Operator", "Scaled", "Sum"]

"""Solvers of A X = B for operators A."""

from precog.solvers.pcg import PCG, Preconditioner
from precog.solvers.result import NotConverged, Solution, Status

__all__ = ["PCG", "NotConverged", "Preconditioner", "Solution", "Status"]

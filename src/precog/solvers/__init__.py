"""Solvers of A X = B for operators A, and what the same iterations say of log|A| and f(A)."""

from precog.solvers.block import BlockCG
from precog.solvers.choice import Auto
from precog.solvers.cholesky import Cholesky
from precog.solvers.flexible import FlexiblePCG
from precog.solvers.fom import FOM
from precog.solvers.functions import FunctionValue, matrix_function
from precog.solvers.logdet import LogDeterminant, logdet
from precog.solvers.pcg import PCG, Preconditioner
from precog.solvers.result import Lanczos, NotConverged, Solution, Status

__all__ = [
    "FOM",
    "PCG",
    "Auto",
    "BlockCG",
    "Cholesky",
    "FlexiblePCG",
    "FunctionValue",
    "Lanczos",
    "LogDeterminant",
    "NotConverged",
    "Preconditioner",
    "Solution",
    "Status",
    "logdet",
    "matrix_function",
]

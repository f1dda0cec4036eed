"""precog: kernel machines by preconditioned conjugate gradients.

The public names by layer. Each is imported when it is first used, so that `import precog` costs next to nothing and a
kernel can be written down without waking a compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from precog.version import __version__

if TYPE_CHECKING:
    from precog import datasets, estimators, inference, kernels, likelihoods, operators, precond, solvers, sparse
    from precog.estimators import GPRegressor, KernelRidge, SparseGPRegressor
    from precog.inference import LogNormal
    from precog.kernels import (
        RBF,
        Constant,
        Counted,
        DotProduct,
        GraKeL,
        Graph,
        Graphlets,
        HistogramIntersection,
        Kernel,
        Linear,
        Matern12,
        Matern32,
        Matern52,
        Objects,
        Pairwise,
        Periodic,
        Polynomial,
        Precomputed,
        RandomWalk,
        RationalQuadratic,
        ShortestPath,
        Spectrum,
        Stationary,
        WeisfeilerLehman,
        White,
        from_sklearn,
        parameter,
        weighted_sum,
    )
    from precog.likelihoods import Bernoulli, Binomial, Gaussian, Likelihood, NegativeBinomial, Poisson, StudentT
    from precog.operators import Dense, Gram, LowRank, Operator
    from precog.solvers import FOM, PCG, BlockCG, Cholesky, FlexiblePCG, Solution, Status

_NAMES = {
    "precog.kernels": (
        "RBF Matern12 Matern32 Matern52 RationalQuadratic Periodic Linear Polynomial HistogramIntersection Constant "
        "White Precomputed Pairwise Spectrum Graph ShortestPath Graphlets WeisfeilerLehman RandomWalk GraKeL Kernel "
        "Stationary DotProduct Objects Counted weighted_sum parameter from_sklearn"
    ),
    "precog.likelihoods": "Bernoulli Binomial Poisson NegativeBinomial Gaussian StudentT Likelihood",
    "precog.operators": "Gram Dense LowRank Operator",
    "precog.solvers": "PCG BlockCG FlexiblePCG FOM Cholesky Solution Status",
    "precog.inference": "LogNormal",
    "precog.estimators": "GPRegressor KernelRidge SparseGPRegressor",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_LAYERS = ("datasets", "estimators", "inference", "kernels", "likelihoods", "operators", "precond", "solvers", "sparse")

__all__ = [
    "RBF",
    "Matern12",
    "Matern32",
    "Matern52",
    "RationalQuadratic",
    "Periodic",
    "Linear",
    "Polynomial",
    "HistogramIntersection",
    "Constant",
    "White",
    "Precomputed",
    "Pairwise",
    "Spectrum",
    "Graph",
    "ShortestPath",
    "Graphlets",
    "WeisfeilerLehman",
    "RandomWalk",
    "GraKeL",
    "Kernel",
    "Stationary",
    "DotProduct",
    "Objects",
    "Counted",
    "weighted_sum",
    "parameter",
    "from_sklearn",
    "Bernoulli",
    "Binomial",
    "Poisson",
    "NegativeBinomial",
    "Gaussian",
    "StudentT",
    "Likelihood",
    "Gram",
    "Dense",
    "LowRank",
    "Operator",
    "PCG",
    "BlockCG",
    "FlexiblePCG",
    "FOM",
    "Cholesky",
    "Solution",
    "Status",
    "GPRegressor",
    "KernelRidge",
    "SparseGPRegressor",
    "LogNormal",
    "datasets",
    "estimators",
    "inference",
    "kernels",
    "likelihoods",
    "operators",
    "precond",
    "solvers",
    "sparse",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _LAYERS:
        return importlib.import_module(f"precog.{name}")
    raise AttributeError(f"module 'precog' has no attribute {name!r}; its public names are in precog.__all__")


def __dir__() -> list[str]:
    return sorted(__all__)

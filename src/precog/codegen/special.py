"""Functions of likelihoods that formulas may use: evaluated on arrays, differentiated, never compiled into loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

# ψ⁽ᵏ⁾ up to here: a third derivative of a formula with ln Γ, and one more in a hyperparameter.
POLYGAMMAS = 5


def _special(name: str, *arguments: Any) -> Any:
    # SciPy is imported when a formula is evaluated: kernels never ask for it.
    import scipy.special

    return getattr(scipy.special, name)(*arguments)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softplus": lambda x: np.logaddexp(0.0, x),
    "expit": partial(_special, "expit"),
    "ndtr": partial(_special, "ndtr"),
    "log_ndtr": partial(_special, "log_ndtr"),
    "gammaln": partial(_special, "gammaln"),
    **{f"psi{k}": partial(_special, "polygamma", k) for k in range(POLYGAMMAS)},
}

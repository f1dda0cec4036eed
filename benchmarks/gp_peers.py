"""One stochastic gradient of the log marginal likelihood by GPyTorch, in terms of logarithms of hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def gpytorch_gradient(X: Any, y: Any, lengths: Any, variance: float, noise: float) -> Callable[[], Any]:
    """Return a function that gives the gradient in log variance, log length scales, log noise, by GPyTorch's defaults.

    That is float32, a tolerance of 1 for its conjugate gradients, 10 probes, a preconditioner of rank 15.
    """
    import gpytorch
    import torch

    Xt, yt = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(y.astype(np.float32))

    class Exact(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(Xt, yt, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Exact()
    model.covar_module.outputscale = variance
    model.covar_module.base_kernel.lengthscale = torch.from_numpy(np.asarray(lengths, dtype=np.float32))[None]
    model.likelihood.noise = noise
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    model.train()
    raw = (
        model.covar_module.raw_outputscale,
        model.covar_module.base_kernel.raw_lengthscale,
        model.likelihood.noise_covar.raw_noise,
    )
    values = (variance, np.asarray(lengths), noise)

    def gradient() -> Any:
        model.zero_grad()
        (len(y) * likelihood(model(Xt), yt)).backward()
        # Each value is softplus(raw), up to a constant, so d value / d raw is the logistic function.
        return np.concatenate(
            [
                np.ravel(parameter.grad.numpy() * value / torch.sigmoid(parameter).detach().numpy())
                for parameter, value in zip(raw, values, strict=True)
            ]
        )

    return gradient

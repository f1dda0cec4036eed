"""Likelihoods: what is observed of a latent value, its derivatives, moments, and samples."""

from precog.likelihoods.base import Likelihood
from precog.likelihoods.binary import Bernoulli, Binomial
from precog.likelihoods.continuous import Gaussian, StudentT
from precog.likelihoods.counts import NegativeBinomial, Poisson
from precog.likelihoods.local import Diagonal, Local, Root
from precog.likelihoods.observations import Observations
from precog.likelihoods.softmax import Softmax

__all__ = [
    "Bernoulli",
    "Binomial",
    "Diagonal",
    "Gaussian",
    "Likelihood",
    "Local",
    "NegativeBinomial",
    "Observations",
    "Poisson",
    "Root",
    "Softmax",
    "StudentT",
]

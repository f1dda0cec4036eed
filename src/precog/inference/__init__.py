"""Gaussian process inference: likelihoods, their estimates and bounds, searches, posteriors."""

from precog.inference.bound import lower_bound
from precog.inference.conclude import Certificate, Concluding, conclude
from precog.inference.estimate import Estimate, Probing, estimate
from precog.inference.fit import Learning, Learnt, learn, recipe
from precog.inference.marginal import Marginal, marginal
from precog.inference.model import LogNormal, Model, Prior, Targets, basis, merged
from precog.inference.posterior import Posterior
from precog.inference.search import History

__all__ = [
    "Certificate",
    "Concluding",
    "Estimate",
    "History",
    "Learning",
    "Learnt",
    "LogNormal",
    "Marginal",
    "Model",
    "Posterior",
    "Prior",
    "Probing",
    "Targets",
    "basis",
    "conclude",
    "estimate",
    "learn",
    "lower_bound",
    "marginal",
    "merged",
    "recipe",
]

"""The laws of likelihoods."""

from __future__ import annotations

import pytest

from laws import LIKELIHOOD_LAWS, LIKELIHOODS


@pytest.mark.parametrize("law", LIKELIHOOD_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_likelihood(likelihood, law):
    law(likelihood)

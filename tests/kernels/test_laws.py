"""The laws of kernels, in NumPy and in compiled loops."""

from __future__ import annotations

import pytest

from laws import COMPILED, COMPILED_LAWS, KERNEL_LAWS, KERNELS


@pytest.mark.parametrize("law", KERNEL_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernel(kernel, law):
    law(kernel)


@pytest.mark.parametrize("law", COMPILED_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("kernel", "dtype"), COMPILED, ids=str)
def test_compiled_kernel(kernel, dtype, law):
    law(kernel, dtype)

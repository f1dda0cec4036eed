"""Data sets by name: one travels with the package, others are read from the folders named in PRECOG_DATA."""

from precog.datasets.record import Dataset
from precog.datasets.sources import available, load

__all__ = ["Dataset", "available", "load"]

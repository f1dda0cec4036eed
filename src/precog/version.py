"""The version, as a plain string: looking it up in the package metadata is slow at import."""

__version__ = "0.1.0"

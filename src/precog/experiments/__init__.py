"""Experiments that anybody can run again: each module has a `run` that reports what it measured."""

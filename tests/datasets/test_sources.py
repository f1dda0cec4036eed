"""Data sets: the one that travels with the package, and files in the folders of PRECOG_DATA."""

from __future__ import annotations

import os

import numpy as np
import pytest

from precog import datasets
from precog.datasets import Dataset, available, load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that PRECOG_DATA names."""
    monkeypatch.setenv("PRECOG_DATA", str(tmp_path))
    return tmp_path


def write(folder, name="small", **arrays):
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(5, 2)), "y": rng.normal(size=5)} | arrays
    np.savez(folder / f"{name}.npz", **{key: value for key, value in arrays.items() if value is not None})
    return arrays


def test_concrete_travels_with_the_package(folder):
    data = load("concrete")
    assert isinstance(data, Dataset)
    assert data.X.shape == (1030, 8)
    assert data.y.shape == (1030,)
    assert data.X.dtype == data.y.dtype == np.float64
    assert len(data.feature_names) == 8
    assert data.feature_names[-1] == "age"
    assert "strength" in data.target_name
    assert "concrete" in available()
    assert repr(data) == "load('concrete')"


def test_concrete_names_its_source(folder):
    citation = load("concrete").citation
    assert "Yeh" in citation
    assert "1998" in citation
    assert "CC BY 4.0" in citation


def test_concrete_has_the_published_values(folder):
    # First row, extremes and mean of the target as the UCI repository describes them.
    data = load("concrete")
    np.testing.assert_array_equal(data.X[0], [540, 0, 0, 162, 2.5, 1040, 676, 28])
    assert data.y[0] == 79.99
    assert (data.y.min(), data.y.max()) == (2.33, 82.6)
    assert data.y.mean() == pytest.approx(35.82, abs=0.005)
    assert np.isfinite(data.X).all()


def test_concrete_has_published_folds(folder):
    folds = load("concrete").extras["uci_fold"]
    assert folds.dtype == np.int64
    np.testing.assert_array_equal(np.bincount(folds), np.full(10, 103))


def test_arrays_are_read_only(folder):
    write(folder, extra=np.arange(5))
    for data in (load("concrete"), load("small")):
        for array in (data.X, data.y, *data.extras.values()):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_files_in_a_folder_are_found(folder):
    arrays = write(folder, X=np.arange(10, dtype=np.float32).reshape(5, 2), y=np.arange(5), split=np.array([0, 3]))
    data = load("small")
    np.testing.assert_array_equal(data.X, arrays["X"])
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.feature_names == ("x0", "x1")
    assert (data.target_name, data.citation) == ("y", "")
    np.testing.assert_array_equal(data.extras["split"], [0, 3])
    assert available() == ("concrete", "small")


def test_files_may_say_more_of_themselves(folder):
    write(
        folder, feature_names=np.array(["size", "weight"]), target_name=np.array("price"), citation=np.array("Me, 2020")
    )
    data = load("small")
    assert data.feature_names == ("size", "weight")
    assert (data.target_name, data.citation) == ("price", "Me, 2020")
    assert not data.extras


def test_first_of_several_folders_wins(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    for place, value in ((first, 1.0), (second, 2.0)):
        place.mkdir()
        write(place, y=np.full(5, value))
    write(second, "other")
    monkeypatch.setenv("PRECOG_DATA", os.pathsep.join(["", str(first), str(tmp_path / "missing"), str(second)]))
    assert load("small").y[0] == 1.0
    assert available() == ("concrete", "other", "small")


def test_bundled_set_wins_over_a_file(folder):
    write(folder, "concrete")
    assert load("concrete").X.shape == (1030, 8)


def test_unknown_name_lists_the_known_ones(folder):
    write(folder)
    with pytest.raises(ValueError, match=r"unknown data set 'concrte'; available: concrete, small\. PRECOG_DATA"):
        load("concrte")


def test_unknown_name_without_folders(monkeypatch):
    monkeypatch.delenv("PRECOG_DATA", raising=False)
    with pytest.raises(ValueError, match=r"available: concrete\. PRECOG_DATA \(now ''\).*<name>\.npz"):
        load("protein")


@pytest.mark.parametrize("key", ["X", "y"])
def test_missing_array_is_named(folder, key):
    write(folder, **{key: None})
    with pytest.raises(ValueError, match=rf"small\.npz has no array '{key}'; a data set needs X \(n, d\) and y \(n,\)"):
        load("small")


@pytest.mark.parametrize(("key", "value"), [("X", np.ones(5)), ("X", np.ones((4, 2))), ("y", np.ones((5, 1)))])
def test_wrong_shapes_are_named(folder, key, value):
    write(folder, **{key: value})
    with pytest.raises(ValueError, match=r"small\.npz has X of shape .* and y of shape .*expected \(n, d\) and \(n,\)"):
        load("small")


def test_pickles_are_not_opened(folder):
    np.savez(folder / "small.npz", X=np.ones((5, 2)), y=np.array([None] * 5))
    with pytest.raises(ValueError, match=r"small\.npz"):
        load("small")


def test_file_that_is_no_archive_is_named(folder):
    (folder / "small.npz").write_text("not an archive")
    with pytest.raises(ValueError, match=r"small\.npz"):
        load("small")


# Shapes as published with each set.
PUBLISHED = {
    "powerplant": (9568, 4),
    "protein": (45730, 9),
    "abalone": (4177, 8),
    "pumadyn32nm": (8192, 32),
    "elevators": (16599, 18),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sets(name):
    if name not in available():
        pytest.skip(f"needs {name}.npz in a folder that PRECOG_DATA names")
    data = load(name)
    assert data.X.shape == PUBLISHED[name]
    assert len(data.feature_names) == data.X.shape[1]
    assert np.isfinite(data.X).all()
    assert np.isfinite(data.y).all()


def test_module_is_a_public_name():
    import precog

    assert precog.datasets is datasets

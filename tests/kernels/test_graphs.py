"""Kernels on graphs and strings: counts by hand, product graphs written out, GraKeL where it is installed."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import tolerances
from precog import (
    RBF,
    GraKeL,
    Gram,
    Graph,
    Graphlets,
    Kernel,
    Pairwise,
    RandomWalk,
    ShortestPath,
    Spectrum,
    WeisfeilerLehman,
    weighted_sum,
)
from precog.kernels.subgraphs import connected_sets, shape

PATH = Graph([(0, 1), (1, 2), (2, 3)], labels="CCCO")
TRIANGLE = Graph([(0, 1), (1, 2), (0, 2)], labels="CCN")
STAR = Graph([(0, 1), (0, 2), (0, 3), (0, 4)], labels="CHHHH")
SINGLE = Graph([], labels="O")
APART = Graph([(0, 1), (2, 3)], labels="CCNN")


def random_graph(seed, size=8, share=0.35):
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.combinations(range(size), 2) if rng.random() < share]
    return Graph(pairs, labels=rng.choice(list("CNO"), size))


GRAPHS = [PATH, TRIANGLE, STAR, SINGLE, APART, *(random_graph(seed) for seed in range(6))]
KERNELS = [
    ShortestPath(),
    ShortestPath(labelled=True),
    Graphlets(size=3),
    Graphlets(size=4),
    Graphlets(size=5),
    Graphlets(size=3, labelled=True),
    WeisfeilerLehman(),
    WeisfeilerLehman(base="edge"),
    WeisfeilerLehman(base="shortest_path", steps=1),
    RandomWalk(decay=0.01),
    RandomWalk(decay=0.01, labelled=True),
    RandomWalk(decay=0.3, steps=10),
    RandomWalk(decay=0.3, steps=10, labelled=True),
]
WORDS = ["kernel", "kennel", "colonel", "corner", "current", "kettle", "cattle", "a", ""]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)


@every_kernel
@pytest.mark.parametrize("normalized", [True, False])
def test_is_a_kernel(kernel, normalized):
    """Symmetric, positive semidefinite, with its own diagonal, and the same between sets as within one."""
    kernel = type(kernel)(**{**vars(kernel), "normalized": normalized})
    K = kernel(GRAPHS)
    assert np.allclose(K, K.T, rtol=1e-12)
    assert np.linalg.eigvalsh(K).min() >= -tolerances.eigenvalue(K)
    assert np.allclose(kernel.diag(GRAPHS), np.diagonal(K))
    assert np.allclose(kernel(GRAPHS[:4], GRAPHS[2:]), K[:4, 2:])
    if normalized:
        assert np.allclose(np.diagonal(K), 1.0)
    assert np.array_equal(pickle.loads(pickle.dumps(kernel))(GRAPHS), K)


@every_kernel
def test_numbering_of_the_nodes_does_not_matter(kernel):
    for graph in GRAPHS:
        order = np.random.default_rng(1).permutation(graph.size)
        labels = [graph.labels[int(i)] for i in np.argsort(order)]
        moved = Graph(order[graph.edges] if len(graph.edges) else [], labels=labels)
        assert np.allclose(kernel([moved], GRAPHS), kernel([graph], GRAPHS), rtol=1e-12)


def test_paths_counted_by_hand():
    assert ShortestPath().counts(PATH) == {1.0: 6, 2.0: 4, 3.0: 2}
    assert ShortestPath().counts(APART) == {1.0: 4}
    assert ShortestPath(labelled=True).counts(TRIANGLE) == {("C", "C", 1.0): 2, ("C", "N", 1.0): 2, ("N", "C", 1.0): 2}
    assert ShortestPath().counts(SINGLE) == {}
    assert ShortestPath(normalized=False)([SINGLE], [PATH]) == 0.0
    assert ShortestPath()([SINGLE], [SINGLE, PATH]).tolist() == [[1.0, 0.0]]


def test_graphlets_counted_by_hand():
    counts = [sorted(Graphlets(size=k).counts(STAR).values()) for k in (3, 4, 5)]
    assert counts == [[6], [4], [1]]
    assert sorted(Graphlets(size=3).counts(TRIANGLE).values()) == [1]
    assert Graphlets(size=3)([PATH], [TRIANGLE]) == 0.0
    assert len(Graphlets(size=3, labelled=True).counts(PATH)) == 2


@pytest.mark.parametrize("size", [3, 4, 5])
def test_connected_sets_are_all_of_them_once(size):
    for graph in GRAPHS:
        found = [frozenset(nodes) for nodes in connected_sets(graph.neighbours, size)]
        expected = set()
        for nodes in itertools.combinations(range(graph.size), size):
            part = graph.adjacency.toarray()[np.ix_(nodes, nodes)]
            if np.isfinite(Graph(np.argwhere(np.triu(part)), size=size).distances()).all():
                expected.add(frozenset(nodes))
        assert len(found) == len(set(found))
        assert set(found) == expected


@pytest.mark.parametrize(("size", "connected"), [(3, 2), (4, 6), (5, 21)])
def test_shapes_are_as_many_as_there_are(size, connected):
    """Of connected graphs with so many nodes, up to numbering."""
    pairs = list(itertools.combinations(range(size), 2))
    shapes = set()
    for edges in itertools.product([False, True], repeat=len(pairs)):
        graph = Graph([pair for pair, there in zip(pairs, edges, strict=True) if there], size=size)
        if np.isfinite(graph.distances()).all():
            shapes.add(shape(edges, None))
    assert len(shapes) == connected


def test_neighbourhoods_counted_by_hand():
    kernel = WeisfeilerLehman(steps=1, normalized=False)
    # Labels C, C, C, O, then the inner two nodes differ by their neighbours.
    assert sorted(kernel.counts(PATH).values()) == [1, 1, 1, 1, 1, 3]
    assert kernel([PATH], [PATH]) == 9 + 1 + 4
    assert kernel([STAR], [SINGLE]) == 0.0
    plain = Graph([(0, 1), (1, 2)])
    assert sorted(WeisfeilerLehman(steps=1).counts(plain).values()) == [1, 2, 3]


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("steps", [None, 1, 10])
def test_walks_are_those_of_the_product_graph(labelled, steps):
    decay, kernel = 0.02, RandomWalk(decay=0.02, steps=steps, labelled=labelled, normalized=False)
    K = kernel(GRAPHS)
    for i, j in [(0, 1), (2, 5), (3, 3), (6, 9), (4, 8)]:
        g, h = GRAPHS[i], GRAPHS[j]
        alike = np.array([[not labelled or a == b for b in h.labels] for a in g.labels]).ravel()
        W = np.kron(g.adjacency.toarray(), h.adjacency.toarray()) * np.outer(alike, alike)
        if steps is None:
            expected = alike @ np.linalg.solve(np.eye(len(W)) - decay * W, alike.astype(float))
        else:
            powers = [np.linalg.matrix_power(decay * W, t) for t in range(steps + 1)]
            expected = sum(alike @ power @ alike for power in powers)
        assert K[i, j] == pytest.approx(expected, rel=1e-10)


def test_endless_walks_that_grow_are_refused():
    with pytest.raises(ValueError, match="does not converge on these graphs; take a smaller decay"):
        RandomWalk(decay=0.5)(GRAPHS)


def test_spectra_of_strings():
    kernel = Spectrum(length=2, normalized=False)
    assert kernel.counts("banana") == {"ba": 1, "an": 2, "na": 2}
    assert kernel(["banana"], ["anna"]) == 2 + 2
    K = Spectrum(length=2)(WORDS)
    assert np.linalg.eigvalsh(K).min() >= -1e-12
    assert K[-1, -2] == 1.0
    assert Spectrum(length=1)([(1, 2, 1)], [(1, 1, 2)]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="length must be a whole number from 1 on"):
        Spectrum(length=0)
    with pytest.raises(TypeError, match="object 1 of X is 3"):
        Spectrum()(["abc", 3])


def test_in_expressions_through_gram():
    kernel = 2.0 * Graphlets(size=3) + 0.5 * WeisfeilerLehman() ** 2
    dense = 2.0 * Graphlets(size=3)(GRAPHS) + 0.5 * WeisfeilerLehman()(GRAPHS) ** 2
    K = Gram(kernel, GRAPHS)
    assert np.allclose(K @ np.eye(len(GRAPHS)), dense)
    assert np.allclose(K.block([1, 4], [2]), dense[[1, 4]][:, [2]])


def test_weighted_sums():
    parts = [Graphlets(size=3), ShortestPath(), WeisfeilerLehman()]
    dense = [part(GRAPHS) for part in parts]
    plain = weighted_sum(parts)
    assert len(plain.theta) == 3
    assert np.allclose(plain(GRAPHS), sum(dense) / 3)
    rich = weighted_sum(parts, total=True, identity=True)
    assert len(rich.theta) == 5
    assert np.allclose(rich(GRAPHS), sum(dense) / 4 + sum(dense) / 12 + 0.1 * np.eye(len(GRAPHS)))
    assert len(weighted_sum([RBF()]).theta) == 2
    assert np.allclose(weighted_sum([RBF()], total=True)(np.zeros((1, 1))), 1.0)
    with pytest.raises(ValueError, match="at least one"):
        weighted_sum([])


def test_what_is_wrong_is_said():
    cases = [
        (lambda: Graph([(0, 0)]), ValueError, "edge 0 joins node 0 with itself"),
        (lambda: Graph([(0, 5)], labels="CC"), ValueError, r"edge 0 is \(0, 5\), nodes are 0 to 1"),
        (lambda: Graph([(0, 1), (1, 0)]), ValueError, "an edge is named twice"),
        (lambda: Graph([(0, 1)], labels="CCC", size=2), ValueError, "3 labels for 2 nodes"),
        (lambda: Graph([]), ValueError, "there is no node"),
        (lambda: Graph([(0, 1, 2)]), ValueError, r"pairs of nodes, \(e, 2\)"),
        (lambda: Graphlets(size=6), ValueError, "size must be 3, 4 or 5"),
        (lambda: WeisfeilerLehman(base="walk"), ValueError, "base must be one of subtree"),
        (lambda: WeisfeilerLehman(steps=-1), ValueError, "steps must be a whole number"),
        (lambda: RandomWalk(decay=0.0), ValueError, "RandomWalk: decay"),
        (lambda: ShortestPath()(["C-C"]), TypeError, "ShortestPath takes precog.Graph objects; object 0 of X is str"),
        (lambda: GraKeL(3), TypeError, "expected a kernel of GraKeL"),
    ]
    for build, error, message in cases:
        with pytest.raises(error, match=message):
            build()


@pytest.mark.parametrize("kernel", [k for k in KERNELS if getattr(k, "labelled", False)], ids=str)
def test_missing_labels_are_named(kernel):
    with pytest.raises(ValueError, match="needs labels on the nodes; graph 1 of X has none"):
        kernel([PATH, Graph([(0, 1)])])


def test_features_are_found_once():
    graph, calls = random_graph(9), []
    assert graph.known("size", lambda g: calls.append(g) or g.size) == 8
    assert graph.known("size", lambda g: calls.append(g) or g.size) == 8
    assert len(calls) == 1
    assert Gram(Pairwise(lambda a, b: float(a.size * b.size)), [graph, PATH]).dense()[0, 1] == 32.0


class TestAgainstGraKeL:
    """The same counts, where GraKeL has them: after division by lengths, on graphs that have some of each."""

    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            (ShortestPath(), lambda g: g.ShortestPath(with_labels=False)),
            (ShortestPath(labelled=True), lambda g: g.ShortestPath()),
            (WeisfeilerLehman(), lambda g: g.WeisfeilerLehman(n_iter=2)),
            (
                WeisfeilerLehman(base="shortest_path"),
                lambda g: g.WeisfeilerLehman(n_iter=2, base_graph_kernel=g.ShortestPath),
            ),
            (RandomWalk(decay=0.01), lambda g: g.RandomWalk(lamda=0.01)),
            (RandomWalk(decay=0.01, labelled=True), lambda g: g.RandomWalkLabeled(lamda=0.01)),
        ],
        ids=lambda side: str(side) if isinstance(side, Kernel) else "",
    )
    def test_values(self, ours, theirs):
        grakel = pytest.importorskip("grakel")
        graphs = [g for g in GRAPHS if g.size > 2]
        K = GraKeL(theirs(grakel))(graphs)
        lengths = np.sqrt(np.diagonal(K))
        assert np.allclose(K / np.outer(lengths, lengths), ours(graphs), rtol=1e-6, atol=1e-8)
        assert np.allclose(GraKeL(theirs(grakel)).diag(graphs), np.diagonal(K))

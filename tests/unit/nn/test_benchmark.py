"""The benchmark of the layer runs."""

from benchmarks import layer


def test_every_backend_is_measured() -> None:
    rows = list(layer.measure((40, 4, 16), 0.1, rounds=2, seconds=0.0))
    assert {"auto", "reference", "torch", "numba"} <= {row["backend"] for row in rows}
    assert all(row["memory_ratio"] > 0 for row in rows)

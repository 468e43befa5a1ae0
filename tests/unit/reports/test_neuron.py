"""The drawing of the neuron in the documentation is the one that its script makes."""

import runpy
from pathlib import Path

import numpy as np

from focusing.drawing import LayerFoci

IMAGES = Path(__file__).parents[3] / "docs" / "images"


def test_the_drawing_shows_the_layer_s_own_coefficients() -> None:
    figure = runpy.run_path(str(IMAGES / "neuron.py"))["neuron_figure"]()
    weights, _, product = (axes for axes in figure.subfigs[2].axes)
    heights = [[bar.get_height() for bar in axes.patches] for axes in (weights, product)]
    phi = np.divide(heights[1], heights[0])
    np.testing.assert_allclose(np.linalg.norm(phi), np.sqrt(len(phi)))  # the paper's normaliser
    drawn = {text.get_text() for axes in figure.subfigs[0].axes for text in axes.texts}
    svg = (IMAGES / "neuron.svg").read_text()
    assert all(text.strip("$") in svg for text in drawn if text.isalpha())


def test_a_smooth_focus_goes_through_its_values_at_the_inputs() -> None:
    tau = np.linspace(0, 1, 9)
    mu, sigma = np.array([[[0.3], [0.9]]]), np.array([[[0.2], [0.001]]])
    for focus in ("gaussian", "triangle", "gaussian_derivative", "negated_gaussian"):
        foci = LayerFoci("layer", np.zeros(1), tau[:, None], mu, sigma, focus, "l2")
        phi, curve = foci.phi(0), foci.smooth_phi(0, tau)
        np.testing.assert_allclose(curve[0], phi[0], atol=1e-9)
        assert np.isfinite(foci.smooth_phi(0, np.linspace(0, 1, 500))).all()

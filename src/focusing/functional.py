"""A focused layer as functions of tensors, beside ``torch.nn.functional``.

>>> import torch
>>> from focusing import functional
>>> x, weight, tau = torch.ones(1, 3), torch.ones(1, 3), torch.linspace(0, 1, 3)
>>> mu, sigma = torch.tensor([0.5]), torch.tensor([0.5])
>>> functional.focused_linear(x, weight, None, mu, sigma, tau, normalizer="none")
tensor([[2.2131]])
"""

from focusing.nn.ops.functional import focus_coefficients, focused_linear

__all__ = ["focus_coefficients", "focused_linear"]

"""A focused layer in your own model: which pixels do the neurons of a digit reader look at?

Run it as a script, or cell by cell in an editor that supports ``# %%``.
"""

# %% Data: 1797 digits of 8x8 pixels, which come with scikit-learn.
import torch
from sklearn.datasets import load_digits
from torch import nn

from focusing import FocusConstraint, FocusedLinear, param_groups

torch.manual_seed(0)
digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32) / 8 - 1
y = torch.tensor(digits.target)
train, test = slice(0, 1300), slice(1300, None)


# %% A model like any other; one of its layers learns where to look.
class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = FocusedLinear(64, 40, topology=(8, 8), mu="spread", sigma=0.2)
        self.norm = nn.BatchNorm1d(40)
        self.output = nn.Linear(40, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.output(self.norm(self.hidden(images.flatten(1))).relu())


# %% Foci have their own learning rates and ranges.
model = Reader()
hidden = model.hidden
start = hidden.mu.detach().clone()
optimizer = torch.optim.Adam(param_groups(model, lr=1e-2, lr_mu=5e-3, lr_sigma=5e-3))
constraint = FocusConstraint(model, optimizer)
for _ in range(30):
    for batch in torch.randperm(1300).split(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()

# %% Accuracy, and where the neurons look.
model.eval()
with torch.no_grad():
    accuracy = (model(x[test]).argmax(1) == y[test]).float().mean().item()
    attention = hidden.phi().square().mean(0).reshape(8, 8)
moved = (hidden.mu.detach() - start).norm(dim=1)
print(f"accuracy on {len(y[test])} digits: {accuracy:.1%}")
print(f"foci moved {moved.mean():.2f} on average, {moved.max():.2f} at most")
print("attention of all neurons to the pixels, relative to the mean (# is twice the mean):")
for row in attention / attention.mean():
    print("   ", "".join(" .:-=+*#"[min(7, int(3.5 * value))] * 2 for value in row))

# %% Prune what the neurons hardly look at.
for threshold in (0.05, 0.2, 0.5):
    sparsity = hidden.prune(threshold)
    with torch.no_grad():
        accuracy = (model(x[test]).argmax(1) == y[test]).float().mean().item()
    print(f"phi < {threshold}: {sparsity:.0%} of the connections dropped, {accuracy:.1%} right")

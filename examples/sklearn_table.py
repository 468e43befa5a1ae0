"""The scikit-learn estimator on a table with ordered columns, compared with others; no configs.

Run it as a script, or cell by cell in an editor that supports ``# %%``.
"""

# %% A table whose columns have an order: 120 points of a signal, noise but for a short event.
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from focusing.sklearn import FocusClassifier

random = np.random.default_rng(0)
samples, points, event = 300, 120, slice(78, 96)
y = random.integers(0, 2, samples)
X = random.normal(size=(samples, points))
shape = np.sin(np.linspace(0, 2 * np.pi, event.stop - event.start))
X[:, event] += np.where(y[:, None], 0.7, -0.7) * shape

# %% It works wherever a scikit-learn estimator does.
options = {"mu": "center_jitter", "learning_rate_mu": 0.03, "max_iter": 60, "random_state": 0}
focus = FocusClassifier((8,), sigma=0.2, **options)
plain = MLPClassifier((8,), max_iter=60, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, model in {"focused": focus, "dense": plain}.items():
        scores = cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=3)
        print(f"{name:>8}: {scores.mean():.1%} +- {scores.std():.1%} in 3-fold cross-validation")

# %% Search its options as usual.
grid = GridSearchCV(focus, {"sigma": [0.1, 0.2]}, cv=3).fit(X, y)
for sigma, score in zip(
    grid.cv_results_["param_sigma"], grid.cv_results_["mean_test_score"], strict=True
):
    print(f"sigma={sigma}: {score:.1%}")

# %% It shows where the signal is.
[foci] = grid.best_estimator_.foci_
print(
    f"The event is at columns {event.start} to {event.stop - 1}. Foci began in the middle, at 60:"
)
for mu, sigma in sorted(zip(foci.mu * (points - 1), foci.sigma * (points - 1), strict=True)):
    reach = range(max(0, round(mu - sigma)), min(points, round(mu + sigma) + 1))
    line = "".join("#" if column in reach else "." for column in range(0, points, 2))
    print(f"  {line} {mu:3.0f} +- {sigma:.0f}")
print(f"  {' ' * (event.start // 2)}{'^' * ((event.stop - event.start) // 2)} event")

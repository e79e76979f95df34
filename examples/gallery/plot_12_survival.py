"""
Times until an event: Cox's model, its features and its curves
==============================================================

Which of thirty features say how long it takes until an event? A lasso of Cox's partial likelihood answers, at its true minimum, with a path,
folds and survival curves.
"""

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs

# %%
# Three hundred rows with thirty features, of which four act on the rate of failure. Some rows are *censored*: they leave before they
# fail. Times are in whole days, so that many are equal.
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 30))
truth = np.zeros(30)
truth[[0, 5, 10, 15]] = 0.9, -0.7, 0.5, -0.5
failure, end = 100 * rng.exponential(np.exp(-X @ truth)), 200 * rng.exponential(1.0, 300)
y = rs.survival.outcome(time=np.ceil(np.minimum(failure, end)), event=failure <= end)

# %%
# The path from the strength that holds every feature at zero, and the strength that five folds choose. Every model on the path has a
# proof of its accuracy.
model = rs.RRCoxCV(lambdas=40, smallest=0.05, scoring="likelihood", rule="1se").fit(X, y)
used = np.flatnonzero(model.coef_)
print("features:", used, " proved:", bool(model.path_.converged.all()))
print("concordance:", round(model.score(X, y), 3))

# %%
# Curves for three rows: of low, middling and high risk by the model.
risk = model.predict(X)
rows = [int(np.argmin(np.abs(risk - level))) for level in np.quantile(risk, [0.1, 0.5, 0.9])]
days = np.linspace(0, 300, 301)
curves = model.predict_survival(X[rows], days)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for j in range(30):
    matters = truth[j] != 0
    colour = rs.plotting.COLOURS[0] if matters else "0.8"
    left.semilogx(model.path_.lambdas, model.path_.coefs[:, j], color=colour, zorder=2 + matters)
left.axvline(model.lambda_, color="0.4", linestyle=":")
left.invert_xaxis()
left.set_xlabel("strength λ")
left.set_ylabel("coefficient; coloured: those that act")
for k, (name, curve) in enumerate(zip(("low", "middling", "high"), curves, strict=True)):
    right.step(days, curve, where="post", color=rs.plotting.COLOURS[k], label=f"{name} risk")
right.set_xlabel("days")
right.set_ylabel("probability of no event yet")
right.legend(frameon=False)
figure.suptitle(f"{used.size} of 30 features are used")

# %%
# Intervals need rows that did not choose the features: here the second half, in the features that the first half chooses.
first, second = np.arange(300) < 150, np.arange(300) >= 150
chosen = np.flatnonzero(rs.RRCox(penalty="l1", l1=model.lambda_).fit(X[first], y[first]).coef_)
print(rs.RRCox().fit(X[second][:, chosen], y[second]).inference())

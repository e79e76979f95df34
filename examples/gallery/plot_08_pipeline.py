"""
In a scikit-learn pipeline
==========================

The estimators work wherever those of scikit-learn do: in pipelines and searches, with scorers and clones. Here all products of
two of the thirteen measurements of the wine data are features, and a search chooses the strength of a group penalty that keeps
a few of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import reshuffle as rs

wine = load_wine()
pipeline = make_pipeline(
    StandardScaler(),
    PolynomialFeatures(2, include_bias=False),
    rs.RRClassifier(penalty=rs.penalties.GroupLasso(0.1), tol=1e-6),
)

# %%
# With three classes ``GroupLasso`` without groups takes a feature for all classes or for none. Parameters of the
# penalty are parameters of the pipeline.
grid = {"rrclassifier__penalty__strength": np.geomspace(0.003, 0.3, 7)}
search = GridSearchCV(pipeline, grid, cv=5).fit(wine.data, wine.target)
search.best_estimator_

# %%
strengths = grid["rrclassifier__penalty__strength"]
scores = search.cv_results_["mean_test_score"]
spread = search.cv_results_["std_test_score"]
kept = []
for strength in strengths:
    pipeline.set_params(rrclassifier__penalty__strength=strength).fit(wine.data, wine.target)
    kept.append(np.count_nonzero(np.any(pipeline[-1].coef_ != 0, axis=0)))

figure, left = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
left.errorbar(strengths, scores, spread, color=rs.plotting.COLOURS[0], marker="o", capsize=2)
left.set(xscale="log", xlabel="strength of the group lasso", ylabel="accuracy, five folds")
right = left.twinx()
right.plot(strengths, kept, color=rs.plotting.COLOURS[1], ls="--", marker="s")
right.set_ylabel(f"features kept, of {pipeline[-1].n_features_in_}", color=rs.plotting.COLOURS[1])
left.axvline(search.best_params_["rrclassifier__penalty__strength"], color="0.3", lw=1, ls=":")

# %%
# What is kept, by name.
model = search.best_estimator_
names = model[:-1].get_feature_names_out(wine.feature_names)
sizes = np.linalg.norm(model[-1].coef_, axis=0)
for j in np.argsort(-sizes)[:8]:
    print(f"{sizes[j]:.3f}  {names[j]}")

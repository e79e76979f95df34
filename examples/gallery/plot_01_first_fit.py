"""
A first fit, and the paper's methods
====================================

A problem is data, a loss and a penalty; a solver takes it to its minimiser and says how near it is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import reshuffle as rs

# %%
# The exact method has no step to tune. Its ``tol`` is a relative accuracy, and what is compared with it is a
# *certificate*: here a duality gap, a proof that no other x has an objective lower by more than that.
X, y = rs.datasets.breast_cancer()
penalty = rs.penalties.ElasticNet(l1=4e-3, l2=6e-3)
problem = rs.Problem(X, y, loss=rs.losses.Logistic(), penalty=penalty)
exact = rs.ExactProxRR(tol=1e-12, finish=False, eval_every=1).solve(problem)
print(exact.summary())

# %%
# The paper's method, ProxRR, takes the prox once per epoch; ProxSGD takes it after every sample. Both need a
# decreasing step to go on.
step = rs.steps.InverseTime()
runs = {
    "ExactProxRR": exact,
    "ProxRR": rs.ProxRR(step=step, epochs=60, seed=0).solve(problem),
    "ProxSGD": rs.ProxSGD(step=step, epochs=60, seed=0).solve(problem),
}
minimum = rs.ExactProxRR(tol=1e-14).solve(problem).trace["objective"][-1]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
rs.plotting.plot_gap(runs, minimum, "passes", n=problem.n, ax=left)
left.legend(frameon=False)
names = load_breast_cancer().feature_names
largest = np.argsort(-np.abs(exact.x))[:10][::-1]
right.barh(names[largest], exact.x[largest], color=rs.plotting.COLOURS[0])
right.set_xlabel("coefficient (standardised columns)")
figure.suptitle(f"{np.count_nonzero(exact.x)} of {exact.x.size} features are used")

"""benchmark_logreg_l2: min over β, c of Σ_i log(1 + exp(-y_i(x_iᵀβ + c))) + (λ/2)‖β‖²; the intercept c is optional."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

import reshuffle as rs


class Solver(BaseSolver):
    """ExactProxRR: shuffled epochs with control variates, and Newton steps."""

    name = "reshuffle"
    sampling_strategy = "iteration"

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        penalty = rs.penalties.L2(lmbd / X.shape[0])
        self.problem = rs.Problem(X, y, rs.losses.Logistic(), penalty, fit_intercept=fit_intercept)
        self.beta = np.zeros(X.shape[1] + fit_intercept)

    def run(self, n_iter):
        if n_iter > 0:
            self.beta = rs.ExactProxRR(epochs=n_iter, tol=1e-14).solve(self.problem).x

    def get_result(self):
        return {"beta": self.beta}

"""benchmark_huber_l2: min over w, c, σ of Σ_i (σ + σH(r_i/σ)) + λ‖w‖², with r = y - Xw - c; H is quadratic up to ε."""

import numpy as np
from benchopt import BaseSolver
from scipy.optimize import brentq

import reshuffle as rs
from reshuffle.estimators import strengths_from_huber_alpha


class Solver(BaseSolver):
    """Exact minimisation in turns over (w, c) at a fixed σ, and over σ by the root of an equation."""

    name = "reshuffle"
    sampling_strategy = "iteration"

    def set_objective(self, X, y, lmbd, epsilon):
        self.X, self.y, self.lmbd, self.epsilon = X, y, lmbd, epsilon

    def run(self, n_iter):
        x, scale = np.zeros(self.X.shape[1] + 1), self._scale(self.y)
        for _ in range(n_iter):
            l2 = strengths_from_huber_alpha(self.lmbd, scale, len(self.y))["l2"]
            parts = rs.losses.Huber(self.epsilon * scale), rs.penalties.L2(l2)
            problem = rs.Problem(self.X, self.y, *parts, fit_intercept=True)
            x = rs.ExactProxRR(tol=1e-12).solve(problem, x0=x).x
            scale = self._scale(self.y - self.X @ x[:-1] - x[-1])
        self.params = np.r_[x[-1], scale, x[:-1]]

    def _scale(self, r):
        """The σ with Σ_i min(r_i²/σ², ε²) = n, where the derivative by σ vanishes; it is at most √(Σ r²/n)."""
        most = np.sqrt(np.mean(r**2))

        def excess(scale):
            return np.minimum((r / scale) ** 2, self.epsilon**2).mean() - 1

        return brentq(excess, 1e-12 * most, most * (1 + 1e-12), xtol=1e-15 * most)

    def get_result(self):
        return {"params": self.params}

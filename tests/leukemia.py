"""The remission times of 42 leukemia patients (Freireich et al., 1963), as lifelines 0.30.3 ships them (``load_leukemia``)."""

from __future__ import annotations

import numpy as np

TIME = np.array([
    35, 34, 32, 32, 25, 23, 22, 20, 19, 17, 16, 13, 11, 10, 10, 9, 7, 6, 6, 6, 6,
    23, 22, 17, 15, 12, 12, 11, 11, 8, 8, 8, 8, 5, 5, 4, 4, 3, 2, 2, 1, 1,
], dtype=float)  # fmt: skip
EVENT = np.ones(42, dtype=bool)
EVENT[[0, 1, 2, 3, 4, 7, 8, 9, 12, 13, 15, 17]] = False
SEX = np.array([
    1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0,
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1,
], dtype=float)  # fmt: skip
LOG_WBC = np.array([
    1.45, 1.47, 2.2, 2.53, 1.78, 2.57, 2.32, 2.01, 2.05, 2.16, 3.6, 2.88, 2.6, 2.7, 2.96, 2.8, 4.43, 3.2, 2.31, 4.06, 3.28,
    1.97, 2.73, 2.95, 2.3, 1.5, 3.06, 3.49, 2.12, 3.52, 3.05, 2.32, 3.26, 3.49, 3.97, 4.36, 2.42, 4.01, 4.91, 4.48, 2.8, 5.0,
])  # fmt: skip
RX = np.repeat([0.0, 1.0], 21)
X = np.column_stack([SEX, LOG_WBC, RX])
WEIGHTS = np.arange(42) % 3 + 1.0

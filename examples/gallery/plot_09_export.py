"""
To ONNX, skops and back
=======================

A model is kept in a file without pickle, and given to other programs as a model of scikit-learn with the same
predictions, which ONNX converters and skops read. (``pip install -e ".[export]"`` brings both.)
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import skops.io
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import reshuffle as rs

folder = Path(tempfile.mkdtemp())
X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
model = rs.RRClassifier(penalty="l1", l1=0.003).fit(X / 16.0, y)
probabilities = model.predict_proba(X_test / 16.0)
print(f"{model.score(X_test / 16.0, y_test):.1%} of new digits right")

# %%
# **Our own file** holds arrays and a description, no code.
model.save(folder / "digits.npz", X / 16.0, y)
again = rs.estimators.load(folder / "digits.npz")
print("the same bits:", np.array_equal(again.predict_proba(X_test / 16.0), probabilities))

# %%
# **skops** keeps the model of scikit-learn. It trusts scikit-learn's own types and nothing else.
skops.io.dump(model.to_sklearn(), folder / "digits.skops")
print("types that skops does not know:", skops.io.get_untrusted_types(file=folder / "digits.skops"))
loaded = skops.io.load(folder / "digits.skops")
print("largest difference:", np.abs(loaded.predict_proba(X_test / 16.0) - probabilities).max())

# %%
# **ONNX** runs where there is no Python. Its numbers are 32 bits long, which shows in the last digits.
network = to_onnx(
    model.to_sklearn(),
    np.zeros((1, X.shape[1]), np.float32),
    options={"zipmap": False},
)
(folder / "digits.onnx").write_bytes(network.SerializeToString())
session = onnxruntime.InferenceSession(folder / "digits.onnx", providers=["CPUExecutionProvider"])
labels, shares = session.run(None, {"X": (X_test / 16.0).astype(np.float32)})
print("labels agree:", np.array_equal(labels, model.predict(X_test / 16.0)))
print("largest difference:", np.abs(shares - probabilities).max())

# %%
# What each digit looks for: its coefficients, of which ℓ1 keeps few.
figure, axes = plt.subplots(2, 5, figsize=(9, 3.8), layout="constrained")
most = np.abs(model.coef_).max()
for ax, label, row in zip(axes.flat, model.classes_, model.coef_, strict=True):
    ax.imshow(row.reshape(8, 8), cmap="PuOr", vmin=-most, vmax=most)
    ax.set_title(f"{label}: {np.count_nonzero(row)} pixels", fontsize="medium")
    ax.set_axis_off()
sizes = {file.suffix: file.stat().st_size for file in folder.iterdir()}
print("bytes:", sizes)

"""The compiled inner loops: the only code that knows dense rows from CSR rows.

Everything here needs numba, so nothing above imports this package before the first sweep.
"""

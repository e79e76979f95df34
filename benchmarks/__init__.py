"""Benchmarks of the foundations: ``python -m benchmarks`` measures, compares and judges.

Every bar is a ratio to a peer in the same run, on one thread, best of several interleaved rounds:
a busy machine slows both sides. Only start-up, which has no peer, is judged in seconds.
"""

def once(kind, loss, work): return 0.0

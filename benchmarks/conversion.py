"""Reading LIBSVM text: ``reshuffle convert`` beside scikit-learn's ``load_svmlight_file``.

    python -m benchmarks.conversion [--times 100]

The file is a9a, written so many times one after the other. Seconds are CPU seconds of this process, which a busy machine
does not change as much as those of a clock; ``convert`` also writes its shards to the disk.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from sklearn.datasets import load_svmlight_file

from reshuffle.datasets import convert, fetch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where the files are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        path = Path(place) / "rows"
        content = fetch("a9a").read_bytes()
        with path.open("wb") as file:
            for _ in range(options.times):
                file.write(content)
        size = path.stat().st_size / 1e6
        for name, work in (
            ("load_svmlight_file", lambda: load_svmlight_file(str(path))),
            ("reshuffle convert", lambda: convert(path, Path(place) / "shards")),
        ):
            clock, cpu = time.perf_counter(), time.process_time()
            work()
            spent, wall = time.process_time() - cpu, time.perf_counter() - clock
            print(
                f"{name:<20} {size:6.0f} MB  {spent:6.2f} CPU s  {wall:6.2f} s  {size / spent:6.0f} MB/s"
            )


if __name__ == "__main__":
    main()

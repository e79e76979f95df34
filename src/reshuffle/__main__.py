"""The command ``reshuffle``, also as ``python -m reshuffle``; its parts come with the extra ``cli``."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command, or say what to install if its dependencies are missing."""
    try:
        from reshuffle.cli import main as command
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich", "matplotlib"):
            raise
        sys.exit(f'The command needs {error.name}: pip install "reshuffle[cli]"')
    command(prog_name="reshuffle")
    sys.exit(0)


if __name__ == "__main__":
    main()

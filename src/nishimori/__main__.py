"""``python -m nishimori`` is the command ``nishimori``."""

from nishimori.cli import main

if __name__ == "__main__":
    main()

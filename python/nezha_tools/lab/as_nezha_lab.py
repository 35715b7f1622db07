"""The lab under the name by which programs import it: an installation has this file as nezha/lab.py.

`python -m nezha.lab` is `nezha lab`.
"""

from nezha_tools.lab import *  # noqa: F403
from nezha_tools.lab import __all__  # noqa: F401

if __name__ == "__main__":
    from nezha_tools.lab.command import app

    app(prog_name="nezha lab")

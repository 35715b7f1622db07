"""The lab under the name by which programs import it: an installation has this file as nezha/lab.py.

`python -m nezha.lab` is `nezha lab`.
"""

from nezha_tools.lab import (Capability, Capacity, Lab, LabError, Node, Port, Rail, capabilities,
                             format_rail, format_rate, names, parse_rail, parse_rate, tear_down)

__all__ = [
    "Capability", "Capacity", "Lab", "LabError", "Node", "Port", "Rail", "capabilities", "format_rail",
    "format_rate", "names", "parse_rail", "parse_rate", "tear_down",
]

if __name__ == "__main__":
    from nezha_tools.lab.command import app

    app(prog_name="nezha lab")

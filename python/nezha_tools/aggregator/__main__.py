"""`python -m nezha_tools.aggregator`: the command `nezha aggregator`, for who starts it as a child."""

from .command import app

app(prog_name="nezha aggregator")

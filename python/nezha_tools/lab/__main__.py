"""`python -m nezha.lab`: the commands of `nezha lab`, also where the native module is missing."""

from .command import app

app(prog_name="nezha lab")

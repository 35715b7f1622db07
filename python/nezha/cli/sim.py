"""`nezha sim`: what happens in a cluster over time."""

from __future__ import annotations

from . import sim_rails, sim_switch
from .conventions import App

app = App(no_args_is_help=True, help="What happens in a cluster over time, simulated.")
app.command(name="rails", help=sim_rails.HELP)(sim_rails.rails)
app.command(name="switch", help=sim_switch.HELP)(sim_switch.switch)

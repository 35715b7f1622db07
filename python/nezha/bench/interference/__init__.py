"""`nezha bench interference`: what every rail costs, and what rails cost each other.

model.py is the arithmetic, plan.py what is measured, session.py measures it, output.py shows it.
docs/balancing.md derives the equations; src/control/policies/eq.h holds the same ones.
"""

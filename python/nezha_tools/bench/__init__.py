"""The benchmarks behind `nezha bench`: collectives, messages, training, a matrix-vector product,
interference, aggregation.

Modules of one benchmark begin with its name: _spec and _plan say what to measure, _worker is one rank,
_run starts the ranks and collects their results, _report shows them (those of messages: its _command).

Nothing here imports the native module until a rank joins its world (collective_worker.py), so the
formulas, the reference data and the reports also serve other libraries and machines without Nezha built.
"""

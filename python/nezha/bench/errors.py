"""The one exception of the bench."""


class BenchError(RuntimeError):
    """A measurement could not be made; the message says what to do about it."""

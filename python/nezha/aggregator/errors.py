"""What goes wrong around an aggregation node, in a sentence for its administrator."""


class AggregatorError(Exception):
    """The node cannot be run as it was asked to."""

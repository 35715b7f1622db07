"""What an aggregation node is worth: hosts against the node, and fixed shares of two networks."""

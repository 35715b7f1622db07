"""What happens in a cluster over time, computed: `nezha sim`."""

"""How a process becomes a rank: what its launcher says, where the ranks meet, and nezha.init()."""

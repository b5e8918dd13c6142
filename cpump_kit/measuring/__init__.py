"""How a script scales on this machine: the sweep, its data, and the laws fitted to it."""

"""Every approach measured on this machine, side by side, and what the measurement advises."""

"""Live views and pictures. They read what runs and sweeps say, and know nothing of processes."""

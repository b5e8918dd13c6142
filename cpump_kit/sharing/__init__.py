"""Training in memory that the ranks of one machine share, instead of sending gradients through sockets.

    shared_memory_hook   for DDP: averages each bucket of gradients in shared memory
    share_training       one copy of the parameters; each rank averages and updates its part of it

Both rest on a shared buffer (segment.py) and on a meeting of the ranks (meeting.py).
"""

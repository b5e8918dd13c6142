"""Running a script in worker processes, and following it.

    launch ──▶ Run ──▶ Supervisor ──Job──▶ worker (one process a rank) ──▶ the script's train(rank, world_size, ...)
                │           ▲                      │ report(...)
                └──Record ◀─┘◀──────events─────────┘ one pipe a rank

Nothing here knows of widgets or charts.
"""

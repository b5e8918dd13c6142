"""The kit beside what people would use instead, measured in one interleaved run.

    python -m benchmarks [launch|throughput|allreduce|overhead|memory] [--rounds N]

Each file here has `measure(rounds)`, which gives a `Measured`; report.py writes its table, its chart and its JSON.
"""

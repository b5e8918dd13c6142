"""python -m benchmarks [launch|throughput|allreduce|overhead|memory ...] [--rounds N]"""

import argparse
from importlib import import_module

from . import report

NAMES = ["launch", "throughput", "allreduce", "overhead", "memory"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the kit beside its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; without one, all of them")
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is measured, in turn (5)")
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}")
    for name in options.names or NAMES:
        found = import_module(f".{name}", __package__).measure(options.rounds)
        report.write(found)
        print(f"\n{found.title}\n\n{report.table(found)}\n", flush=True)


if __name__ == "__main__":
    main()

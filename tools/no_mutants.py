#!/usr/bin/env python3
"""No production object or program may hold a mutant switch.

Every object compiled with KVFERRY_MUTANTS carries a symbol with the marker below (cmake/mutant_marker.h), and a switch may
carry it in its own name. This looks for it in the libraries and programs of a build tree, and makes sure that the mutant
libraries do have it: a marker that nobody carries would prove nothing.
usage: no_mutants.py BUILD_FOLDER
"""
import subprocess
import sys
from pathlib import Path

from files import report

MARKER = "kvferry_mutant"


def holds_marker(path: Path) -> list[str]:
    done = subprocess.run(["nm", "-A", str(path)], capture_output=True, text=True)
    dynamic = subprocess.run(["nm", "-D", str(path)], capture_output=True, text=True) if ".so" in path.name else None
    lines = done.stdout.splitlines() + (dynamic.stdout.splitlines() if dynamic else [])
    return [line for line in lines if MARKER in line.split()[-1]]


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    archives = sorted(build.glob("libkvferry_*.a"))
    mutants = [path for path in archives if path.name.endswith("_mutants.a")]
    production = [path for path in archives if path not in mutants and path.name != "libkvferry_simcli.a"]
    production += [path for path in sorted(build.glob("libkvferry.so*")) if not path.is_symlink()]
    problems = []
    program = build / "kvferry"
    if program.is_file():
        production.append(program)
    else:
        problems.append(f"{program}: does not exist, so it is not proven clean")
    for path in production:
        for line in holds_marker(path)[:5]:
            problems.append(f"{path}: a mutant switch in production: {line.split()[-1]}")
    if not any(holds_marker(path) for path in mutants):
        problems.append(f"{build}: no *_mutants.a has a symbol with '{MARKER}': this check sees nothing")
    return report("no_mutants", problems, f"{len(production)} production files are clean")


if __name__ == "__main__":
    sys.exit(main())

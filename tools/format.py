#!/usr/bin/env python3
"""Runs clang-format over every .h and .cc of the project; --fix rewrites them. Exit status 1: a file is not formatted."""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from files import project_files, report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()
    tool = os.environ.get("CLANG_FORMAT") or shutil.which("clang-format-19")
    if not tool:
        print("format: clang-format-19 is not installed", file=sys.stderr)
        return 1
    files = project_files(options.root, (".h", ".cc"))
    mode = ["-i"] if options.fix else ["--dry-run", "-Werror"]
    problems = []
    for path in files:
        done = subprocess.run([tool, *mode, str(path)], cwd=options.root, capture_output=True, text=True)
        if done.returncode != 0:
            first = done.stderr.splitlines()[0] if done.stderr else f"{path}: clang-format failed"
            problems.append(f"{first}  (./run lint --fix)")
    return report("format", problems, f"{len(files)} files")


if __name__ == "__main__":
    sys.exit(main())

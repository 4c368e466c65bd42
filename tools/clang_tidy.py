#!/usr/bin/env python3
"""Runs clang-tidy over src/ in parallel. A file that passed is not read again until it, a header it includes, the
checks or its flags change (build/lint-cache). Arguments: files to look at, or --changed for those that differ from HEAD.
"""
import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from files import report

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# The compile commands may come from another compiler.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--quiet"]


def headers_of(path: Path, search: list[Path], seen: dict[Path, bytes]) -> None:
    """Collects path and every project header it reaches."""
    if path in seen:
        return
    seen[path] = path.read_bytes()
    for name in INCLUDE.findall(seen[path]):
        for folder in (path.parent, *search):
            header = folder / name.decode()
            if header.is_file():
                headers_of(header.resolve(), search, seen)
                break


def key_of(path: Path, command: str, search: list[Path], version: str) -> str:
    seen: dict[Path, bytes] = {}
    headers_of(path, search, seen)
    digest = hashlib.sha256((version + command).encode() + (ROOT / ".clang-tidy").read_bytes())
    for name in sorted(seen):
        digest.update(hashlib.sha256(seen[name]).digest())
    return digest.hexdigest()


def changed_files() -> set[Path]:
    names: set[str] = set()
    for command in (["git", "diff", "--name-only", "HEAD"], ["git", "ls-files", "-o", "--exclude-standard"]):
        names.update(subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines())
    return {(ROOT / name).resolve() for name in names}


def units_of(build: Path) -> dict[Path, str]:
    """Production translation units; those that are compiled a second time as mutants count once."""
    units: dict[Path, str] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if path.is_relative_to(ROOT / "src"):
            units.setdefault(path, entry.get("command", ""))
    return units


def tidy(tool: str, build: Path, path: Path) -> str:
    """The complaints about one file; empty if there are none."""
    done = subprocess.run([tool, "-p", str(build), *EXTRA, str(path)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    return done.stdout.strip() or done.stderr.strip() or f"{path}: clang-tidy failed with status {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    tool = shutil.which("clang-tidy-19")
    if not tool or not (options.build / "compile_commands.json").is_file():
        print(f"clang_tidy: needs clang-tidy-19 and {options.build}/compile_commands.json", file=sys.stderr)
        return 1
    units = units_of(options.build)
    wanted = {path.resolve() for path in options.files} or (changed_files() if options.changed else set(units))
    chosen = sorted(path for path in units if path in wanted)
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout
    cache = ROOT / "build/lint-cache"
    cache.mkdir(parents=True, exist_ok=True)
    search = [ROOT / "include", ROOT / "src", options.build / "generated"]
    keys = {path: key_of(path, units[path], search, version) for path in chosen}
    todo = [path for path in chosen if not (cache / keys[path]).exists()]
    problems = []
    with ThreadPoolExecutor(max_workers=max(1, options.jobs)) as pool:
        for path, text in zip(todo, pool.map(lambda path: tidy(tool, options.build, path), todo)):
            if text:
                problems.append(text)
            else:
                (cache / keys[path]).touch()
    return report("clang_tidy", problems, f"{len(todo)} of {len(chosen)} files read, the others were clean before")


if __name__ == "__main__":
    sys.exit(main())

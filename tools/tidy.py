#!/usr/bin/env python3
"""House rules that no compiler checks.

- a function has at most 60 lines, a file (.h, .cc, .py) at most 600;
- unfinished-work marks carry an issue number: TO-DO(#12), written without the hyphen;
- nobody reads a clock outside base/clock, runtime, cli, simcli; elsewhere only files on the list;
- nobody reads the environment outside cli, simcli and config.
Exceptions are lines of tools/tidy_ratchet.txt; a limit there may only go down.
"""
import argparse
import ast
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

from cpp_functions import blank, functions
from files import project_files, report

FUNCTION_LINES = 60
FILE_LINES = 600
CODE = (".h", ".cc", ".py")
TEXT = CODE + (".cmake", ".sh", ".fbs", "CMakeLists.txt", "run")

MARK = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME)\b(?!\(#\d+\))")
CLOCK = re.compile(r"\b(\w+_clock::now|SystemClock\b.*\bnow\s*\(|clock_gettime|gettimeofday|std::time\s*\()")
ENVIRONMENT = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
CLOCK_FREE = ["src/base/clock*", "src/runtime/*", "src/cli/*", "src/simcli/*"]
CLOCK_LISTED = ["src/transport/*", "src/control/*", "src/replay/*", "src/conformance/*", "src/sim/*"]
ENVIRONMENT_FREE = ["src/cli/*", "src/simcli/*", "src/config/*"]


class Ratchet:
    """Lines `file PATH LINES`, `function PATH NAME LINES`, `clock PATH`; # begins a comment."""

    def __init__(self, path: Path):
        self.limits: dict[tuple[str, ...], int] = {}
        self.clock: set[str] = set()
        self.used: set[tuple[str, ...]] = set()
        for line in path.read_text().splitlines() if path.is_file() else []:
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "clock" and len(words) == 2:
                self.clock.add(words[1])
            elif words[0] in ("file", "function") and words[-1].isdigit():
                self.limits[tuple(words[:-1])] = int(words[-1])
            else:
                raise SystemExit(f"tidy: {path}: not a ratchet line: {line}")

    def check(self, key: tuple[str, ...], lines: int, limit: int, where: str) -> str | None:
        allowed = self.limits.get(key)
        if allowed is None:
            return f"{where}: {key[0]} {key[-1]} has {lines} lines; the limit is {limit}" if lines > limit else None
        self.used.add(key)
        if lines > allowed:
            return f"{where}: {key[0]} {key[-1]} grew to {lines} lines; its ratchet is {allowed}"
        if lines < allowed:
            now = str(lines) if lines > limit else "nothing: delete the line"
            return f"{where}: {key[0]} {key[-1]} shrank to {lines} lines; lower its ratchet to {now}"
        return None


def check_lengths(path: Path, text: str, ratchet: Ratchet) -> list[str]:
    name = str(path)
    problems = [ratchet.check(("file", name), text.count("\n") + (not text.endswith("\n")), FILE_LINES, name)]
    if path.suffix == ".py":
        try:
            found = [(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
                     for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        except SyntaxError as error:
            return [f"{name}:{error.lineno}: not Python: {error.msg}"]
    else:
        found = [(function.name, function.line, function.lines) for function in functions(text)]
    longest: dict[str, tuple[int, int]] = {}  # overloads share a name: the longest counts
    for function, line, lines in found:
        if lines > longest.get(function, (0, 0))[1]:
            longest[function] = (line, lines)
    for function, (line, lines) in longest.items():
        problems.append(ratchet.check(("function", name, function), lines, FUNCTION_LINES, f"{name}:{line}"))
    return [problem for problem in problems if problem]


def matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def check_worldliness(path: Path, text: str, ratchet: Ratchet) -> list[str]:
    """Clocks and the environment, in src/ and include/ only."""
    name, problems = str(path), []
    if path.parts[0] not in ("src", "include"):
        return []
    clock_allowed = matches(name, CLOCK_FREE) or (matches(name, CLOCK_LISTED) and name in ratchet.clock)
    for number, line in enumerate(blank(text).splitlines(), 1):
        if CLOCK.search(line) and not clock_allowed:
            problems.append(f"{name}:{number}: reads a clock; take a TimePoint or a Clock instead")
        if ENVIRONMENT.search(line) and not matches(name, ENVIRONMENT_FREE):
            problems.append(f"{name}:{number}: reads the environment; configuration is a value")
    return problems


def check_marks(path: Path, text: str) -> list[str]:
    return [f"{path}:{number}: {match[1]} without an issue number"
            for number, line in enumerate(text.splitlines(), 1) if (match := MARK.search(line))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    ratchet = Ratchet(options.root / "tools/tidy_ratchet.txt")
    problems: list[str] = []
    files = project_files(options.root, TEXT)
    for path in files:
        text = (options.root / path).read_text(encoding="utf-8")
        problems += check_marks(path, text)
        if path.name.endswith(CODE):
            problems += check_lengths(path, text, ratchet)
        if path.suffix in (".h", ".cc"):
            problems += check_worldliness(path, text, ratchet)
    problems += [f"tools/tidy_ratchet.txt: nothing matches '{' '.join(key)}': delete the line"
                 for key in ratchet.limits if key not in ratchet.used]
    return report("tidy", problems, f"{len(files)} files")


if __name__ == "__main__":
    sys.exit(main())

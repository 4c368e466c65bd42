"""Which files of the project the tools look at: everything that git knows or would add."""
import os
import subprocess
import sys
from pathlib import Path


def project_files(root: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Paths relative to root, sorted; generated data under tests and build trees are left out."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
            check=True, capture_output=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [os.path.relpath(os.path.join(d, f), root) for d, _, names in os.walk(root) for f in names]
    keep = set()
    for name in listed:
        path = Path(name)
        if not name.endswith(suffixes) or not (root / path).is_file():
            continue
        if path.parts[0] in ("build", ".git") or "generated" in path.parts or path.parts[:3] == ("tests", "golden", "data"):
            continue
        keep.add(path)
    return sorted(keep)


def report(tool: str, problems: list[str], summary: str) -> int:
    """Prints problems, one a line, and returns the exit status."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{tool}: {len(problems)} problem(s)", file=sys.stderr)
        return 1
    print(f"{tool}: {summary}", file=sys.stderr)
    return 0

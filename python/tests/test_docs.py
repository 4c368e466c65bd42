"""The example of docs/python.md runs as it stands."""
import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, str(DOCUMENT), "exec"), {})
    assert capsys.readouterr().out == "40 tokens, 6144 bytes by shm\n"

"""Finds the functions of a C++ file and their length without a compiler: braces, and what stands before them."""
import re
from dataclasses import dataclass

_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/'                                     # comments
    r'|R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'            # raw strings
    r'|"(?:\\.|[^"\\\n])*"'                                   # strings
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"                   # characters, but not the ' of 1'000
    r'|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)    # preprocessor lines

_SCOPE = re.compile(r'\b(namespace|class|struct|union|enum)\b')
_CTOR_LIST = re.compile(r'\)\s*(?:noexcept\s*(?:\([^()]*\))?\s*)?:(?!:)')
_NAME = re.compile(r'((?:[A-Za-z_][\w:]*::)?operator\s*(?:\(\)|[^\s\w(]+|[\w:]+)|~?[A-Za-z_][\w:~]*)\s*\(')


@dataclass
class Function:
    name: str
    line: int   # where its declaration begins, from 1
    lines: int  # from there to the closing brace


def blank(text: str) -> str:
    """The text with comments, strings and preprocessor lines blanked; every other character stays in place."""
    return _NOISE.sub(lambda match: re.sub(r'[^\n]', ' ', match[0]), text)


def _matching(text: str, open_at: int) -> int:
    depth = 0
    for at in range(open_at, len(text)):
        if text[at] == '{':
            depth += 1
        elif text[at] == '}':
            depth -= 1
            if depth == 0:
                return at
    return len(text) - 1


def _without_templates(head: str) -> str:
    """Drops leading template<...> and attributes."""
    head = re.sub(r'\[\[.*?\]\]|\b(?:public|protected|private)\s*:', ' ', head, flags=re.DOTALL)
    while (match := re.match(r'\s*template\s*<', head)) is not None:
        depth, at = 1, match.end()
        while at < len(head) and depth:
            depth += {'<': 1, '>': -1}.get(head[at], 0)
            at += 1
        head = head[at:]
    return head


def _kind(head: str) -> str:
    """What a '{' behind this declaration opens: scope, function or value."""
    if head.count('(') > head.count(')'):
        return 'value'  # a default argument or a lambda among the arguments
    head = _without_templates(head)
    bare = re.sub(r'\balignas\s*\([^()]*\)|\bdecltype\s*\([^()]*\)', ' ', head)
    if '(' not in bare:
        if _SCOPE.search(bare) or re.fullmatch(r'\s*extern\s*', bare):
            return 'scope'
        return 'value'
    before = bare[:bare.index('(')]
    if '=' in before and 'operator' not in before:
        return 'value'
    if _CTOR_LIST.search(bare) and re.search(r'[\w>]\s*$', bare) and not re.search(r'\b(noexcept|const|override)\s*$', bare):
        return 'value'  # a{1} in a constructor's list
    return 'function'


def _name(head: str) -> str:
    head = _without_templates(head)
    match = _NAME.search(head)
    if not match:
        return '?'
    name = re.sub(r'\s+', '', match[1])
    if re.fullmatch(r'[A-Z][A-Z_]+', name):  # TEST(Suite, case)
        inside = head[match.end():].split(')')[0]
        return f"{name}({','.join(part.strip() for part in inside.split(','))})"
    return name


def functions(text: str) -> list[Function]:
    text = blank(text)
    found, at, start = [], 0, 0
    while at < len(text):
        char = text[at]
        if char == ';' and text.count('(', start, at) <= text.count(')', start, at) or char == '}':
            start = at + 1
        elif char == '{':
            head = text[start:at]
            kind = _kind(head)
            if kind == 'scope':
                start = at + 1
            else:
                end = _matching(text, at)
                if kind == 'function':
                    begin = start + len(head) - len(head.lstrip())
                    first = text.count('\n', 0, begin) + 1
                    found.append(Function(_name(head), first, text.count('\n', begin, end) + 1))
                    start = end + 1
                at = end
        at += 1
    return found

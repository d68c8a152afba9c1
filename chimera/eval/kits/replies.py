"""The answer in a model's whole reply: code, boxed or marked answers, a JSON envelope, a patch.

Everything here is pure and never runs what it reads. When a reply holds several answers, the last
one wins; what cannot be found is an empty string or None, never a guess. A reply may be hostile:
the time it takes grows with its length and no faster.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

from chimera.eval.kits.apart import SHORT, Ended, apart
from chimera.types import JSON

PYTHON_FENCES = frozenset({"", "python", "python3", "py", "py3"})
DIFF_FENCES = frozenset({"diff", "patch", "udiff"})
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^`\n]*)$")
_ENDS = re.compile(r"\r\n?|\n")  # `splitlines` knows others, which are characters in code
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
#: A box as some models write it, which reaches to the end of its line or its formula.
_UNBRACED_BOX = re.compile(r"\\(?:boxed|fbox)[ \t]++([^\s{$][^$\n]*)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_DISPLAYED = r"\$\$[^$]++\$\$|\\\[(?:[^\\]|\\(?![\[\]]))++\\\]"
_ANSWER_LINE = re.compile(
    r"^[ \t*_#>`\-]*(?:the\s+)?(?:final\s+)?answer[ \t*_]*[:：][ \t*_`]*"
    r"(?P<answer>[^\s*_`].*)$",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWER_HEADING = re.compile(
    rf"^#+[ \t*_]*(?:final[ \t]+)?answer[ \t*_:]*\n\s*(?P<answer>{_DISPLAYED}|\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
#: The same without a sign of a heading, where one line or a displayed formula then ends the reply.
_LAST_HEADING = re.compile(
    r"^[ \t*_]*(?:the[ \t]+)?(?:final[ \t]+)?answer[ \t*_:：]*\n\s*+"
    rf"({_DISPLAYED}|\S[^\n]*)\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWER_SENTENCE = re.compile(
    r"answer\s++is\s*+:?+\s*+("
    rf"(?:{_DISPLAYED}"
    r"|\$[^$\n]++\$|\\\((?:[^\\\n]|\\(?![()]))++\\\)|\*\*(?:[^*\n]|\*(?!\*))++\*\*)"
    r"(?=\.?\s*$|\.\s)"
    r"|[^\n](?:[^\n.]|\.(?=\S))*+|)",
    re.IGNORECASE | re.MULTILINE,
)
_OBJECT = re.compile(r'\{(?=\s*["}])')
_PATCH_TAG = re.compile(r"<(patch|diff)>\n?")
#: Characters that are parsed in search of the code in one reply; a parse takes 3 µs for each.
MAX_PARSED = 1_000_000


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of Markdown; `closed` is False when the reply ended inside it."""

    language: str
    code: str
    closed: bool = True


def without_reasoning(reply: str) -> str:
    """The reply after a closed `<think>` section; an unclosed one is left as it is."""
    return reply.rpartition("</think>")[2]


def fenced_blocks(text: str) -> list[Block]:
    """Every fenced block in order, without its fences and without the fence's own indent."""
    blocks: list[Block] = []
    lines: list[str] = []
    opening: re.Match[str] | None = None
    for line in _ENDS.split(text.removesuffix("\n")):
        fence = _FENCE.match(line)
        if opening is None:
            if fence:
                opening, lines = fence, []
        elif fence and _closes(fence, opening):
            blocks.append(_block(opening, lines, closed=True))
            opening = None
        else:
            lines.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        blocks.append(_block(opening, lines, closed=False))
    return blocks


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    """Markdown's rule: deeper by more than three blanks, a fence is a part of the code."""
    deeper = len(fence["indent"].expandtabs()) - len(opening["indent"].expandtabs())
    return deeper <= 3 and not fence["info"].strip() and fence["ticks"].startswith(opening["ticks"])


def _block(opening: re.Match[str], lines: Sequence[str], *, closed: bool) -> Block:
    words = opening["info"].split()
    language = words[0].lower().strip("{}.") if words else ""
    return Block(language, "".join(f"{line}\n" for line in lines), closed)


def python_program(reply: str, *, entry_point: str | None = None, prompt: str = "") -> str:
    """The whole Python program a reply hands in.

    The last Python block that defines `entry_point` wins; one that imports it (from the answer's
    own file, to try it) only where none defines it. What it uses of other blocks is put before it.
    A reply without fences may have indented blocks. Where `prompt` is the beginning of a program,
    its imports and helpers are put before a block that defines the function anew, and a block (or
    bare text) that only goes on with the function is appended to it.
    """
    text = without_reasoning(reply)
    blocks = [block.code for block in fenced_blocks(text) if block.language in PYTHON_FENCES]
    candidates = [code for code in reversed(blocks) if code.strip()] or [text]
    indented = [] if blocks else list(_indented_blocks(text))
    aside = indented if _begins_unindented(text, entry_point) else []
    first = candidates if aside else [*candidates, *indented]
    for imported in (False, True):
        for code in first:
            for program in (code, textwrap.dedent(code)):
                if _defines(program, entry_point, imported=imported):
                    whole = _with_helpers(program, _others(blocks, code), prompt, entry_point)
                    return _with_preamble(whole, prompt, entry_point)
    found = _search(candidates, prompt, entry_point)
    if found is None:
        block = next((code for code in aside if _defines(code, entry_point)), None)
        found = block and _with_preamble(block, prompt, entry_point)
    return found or candidates[0]


def _begins_unindented(text: str, entry_point: str | None) -> bool:
    """Whether a line begins with the definition: what is indented then is its inside, or aside."""
    name = re.escape(entry_point or "")
    pattern = rf"^(?:(?:async[ \t]+)?(?:def|class)[ \t]+{name}\b|{name}[ \t]*=(?!=))"
    return bool(name) and re.search(pattern, text, re.MULTILINE) is not None


def _search(candidates: Sequence[str], prompt: str, entry_point: str | None) -> str | None:
    """A part of the candidates that is a program, as far as there is time to look for it."""
    effort = Effort()
    if prompt and entry_point:
        for before, lines in chain.from_iterable(_bodies(prompt, code) for code in candidates):
            for end in effort.ends(lines, before):
                if _defines(program := before + "".join(lines[:end]), entry_point):
                    return program
    for lines in chain.from_iterable(map(_starts, candidates)):
        for end in effort.ends(lines):
            if _defines(program := "".join(lines[:end]), entry_point):
                return _with_preamble(program, prompt, entry_point)
        if effort.characters <= 0:
            break
    return None


@dataclass(slots=True)
class Effort:
    """How much may still be parsed in search of code."""

    characters: int = MAX_PARSED

    def ends(self, lines: Sequence[str], before: str = "", least: int = 1) -> Iterator[int]:
        """How many first lines, after what stands before them, are Python; the most first.

        Where a text has an error, so has each of its beginnings that holds the error's line.
        """
        end, above = len(lines), before.count("\n")
        while end >= least and self.characters > 0:
            text = before + "".join(lines[:end])
            self.characters -= len(text) + 100
            error = syntax_error(text)
            if error is None:
                yield end
            line = end if error is None or error.lineno is None else error.lineno - above
            end = max(0, min(end, line) - 1)


def parse_python(code: str) -> ast.Module | None:
    """The syntax tree, or None where this is not Python."""
    parsed = None if _refused(code) else _parsed(code)
    return parsed if isinstance(parsed, ast.Module) else None


def parse_expression(code: str) -> ast.Expression | None:
    """The tree of a single expression, or None where this is none."""
    parsed = None if _refused(code) else _parsed(code, "eval")
    return parsed if isinstance(parsed, ast.Expression) else None


def syntax_error(code: str) -> SyntaxError | None:
    """What makes this no Python; its line is None where none is to blame."""
    parsed = _refused(code) or _parsed(code)
    return parsed if isinstance(parsed, SyntaxError) else None


@lru_cache(maxsize=8)
def _refused(code: str) -> SyntaxError | None:
    """Why this process does not read a text: it is long, and a worker cannot do it quickly.

    There are texts of 200 kB over which Python's own parser takes all memory, or hours. The search
    for code asks of one text several times, and each may cost a worker.
    """
    if len(code) > MAX_PARSED:
        return SyntaxError(f"longer than {MAX_PARSED} characters")
    try:
        error = apart(first_error, code, seconds=1) if len(code) > SHORT else None
    except Ended as end:
        return SyntaxError(f"reading it takes more than {end}")
    return None if error is None else SyntaxError(error[0], ("", error[1], None, None))


def first_error(code: str) -> tuple[str, int | None] | None:
    """What makes this no Python, and in which line; for a worker."""
    parsed = _parsed(code)
    return (parsed.msg, parsed.lineno) if isinstance(parsed, SyntaxError) else None


def _parsed(code: str, mode: Literal["exec", "eval"] = "exec") -> ast.AST | SyntaxError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a candidate's invalid escapes are its own business
            return ast.parse(code, mode=mode)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error))


def _defines(code: str, entry_point: str | None, *, imported: bool = True) -> bool:
    """Whether this is a program and, outside of stubs, binds the name at the top level; by an
    import only where that counts."""
    tree = parse_python(code)
    if tree is None or not tree.body or _is_body(tree):
        return False
    return entry_point is None or entry_point in set(_bound_names(tree.body, imported))


def _is_body(tree: ast.Module) -> bool:
    """Whether what only a function can hold stands outside of one: `ast.parse` accepts that.

    `compile` would tell, but takes 2**n for n `finally` in each other.
    """
    inside = ast.Return | ast.Yield | ast.YieldFrom | ast.Await | ast.AsyncFor | ast.AsyncWith
    return any(isinstance(node, inside | ast.Nonlocal) for node in _running(tree))


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """What runs when a program is loaded: everything but the inside of functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                waiting += [*node.decorator_list, *node.args.defaults]
                waiting += filter(None, node.args.kw_defaults)
            case ast.Lambda():
                pass
            case _:
                waiting.extend(ast.iter_child_nodes(node))


def _bound_names(body: Sequence[ast.stmt], imported: bool) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not _is_stub(node):
                yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            used = set() if node.value is None else _names(node.value, ast.Load)
            for target in targets:  # `f = f(1)` uses a function, and defines none
                yield from _names(target, ast.Store) - used
        elif imported and isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.If | ast.For | ast.While):
            yield from _bound_names([*node.body, *node.orelse], imported)
        elif isinstance(node, ast.With):
            yield from _bound_names(node.body, imported)
        elif isinstance(node, ast.Try):
            caught = [each for handler in node.handlers for each in handler.body]
            parts = [*node.body, *caught, *node.orelse, *node.finalbody]
            yield from _bound_names(parts, imported)


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Names that are read or written, but not in a lambda, which runs later."""
    found, waiting = set(), [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Name) and isinstance(each.ctx, context):
            found.add(each.id)
        if not isinstance(each, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(each))
    return found


def _others(blocks: Sequence[str], chosen: str) -> list[str]:
    """The other blocks: those before it from the nearest on, then those after it."""
    place = len(blocks) - 1 - blocks[::-1].index(chosen) if chosen in blocks else 0
    return [*reversed(blocks[:place]), *blocks[place + 1 :]]


#: What only somebody at a terminal uses.
_SESSION = frozenset(("exit", "input", "quit"))


@dataclass(frozen=True, slots=True)
class _Helper:
    """A block without the entry point's own definition, and without examples of use."""

    source: str
    bound: frozenset[str]
    shadows: frozenset[str]
    reads: frozenset[str]
    needs: frozenset[str]


def _with_helpers(program: str, blocks: Sequence[str], prompt: str, entry_point: str | None) -> str:
    """The program after the blocks that bind what it uses and does not bind.

    They are taken whole: a table without the loop that fills it is another table.
    """
    tree = parse_python(program)
    given = set(dir(builtins)) | _all_bound(parse_python(prompt))
    reads = _unknown(tree, set())
    waiting = reads - given - _all_bound(tree)
    if tree is None or not waiting:
        return program
    offered = [helper for block in blocks if (helper := _helper(block, entry_point))]
    helpers = [each for each in offered if not each.shadows & reads & given]
    places: dict[str, int] = {}
    for place, helper in enumerate(helpers):
        for name in helper.bound:
            places.setdefault(name, place)
    own = _bound_at_top(tree.body)
    taken: set[int] = set()
    while waiting:
        place = places.get(waiting.pop(), -1)
        if place >= 0 and place not in taken:
            taken.add(place)
            waiting |= helpers[place].reads - given - own
    imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    imports = [each for each in imports if getattr(each, "module", "") != "__future__"]
    known = given | _bound_at_top(imports)
    text = ""
    for _ in range(2):  # what is missing at first may come with a later one
        for place in sorted(taken, reverse=True):
            if helpers[place].needs <= known:
                text += helpers[place].source
                known |= helpers[place].bound
                taken.discard(place)
    if not text:
        return program
    return after_future_imports(program, "".join(f"{ast.unparse(n)}\n" for n in imports) + text)


def _helper(block: str, entry_point: str | None) -> _Helper | None:
    tree = parse_python(block)
    if tree is None or _is_body(tree):
        return None
    users = {*_SESSION, *filter(None, [entry_point])}
    kept: list[ast.stmt] = []
    for node in tree.body:
        bound = _bound_at_top([node])
        runs = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        used = _unknown(node, set()) if runs else _running_reads([node])
        if entry_point in bound or (used & users and not runs):
            users |= bound  # and what is made of it is an example
        elif not _is_example(node):
            users |= bound if used & users else set()
            kept.append(node)
    places, among = _places(kept), set(kept)
    if places & _places([node for node in tree.body if node not in among]):
        return None
    lines = _lines(block)
    source = "".join(lines[place - 1] for place in sorted(places)).removesuffix("\n") + "\n"
    imports = [node for node in kept if isinstance(node, ast.Import | ast.ImportFrom)]
    bound = _bound_at_top(kept)
    reads = set().union(*(_unknown(node, set()) for node in kept)) - bound
    needs = _running_reads(kept) - bound
    shadows = bound - _bound_at_top(imports)
    return _Helper(source, *map(frozenset, (bound, shadows, reads, needs)))


def _places(body: Sequence[ast.stmt]) -> set[int]:
    """The numbers of the lines of statements, with their decorators."""
    found: set[int] = set()
    for node in body:
        start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        found.update(range(start, (node.end_lineno or start) + 1))
    return found


def _is_example(node: ast.stmt) -> bool:
    match node:
        case ast.Assert() | ast.Expr(value=ast.Constant() | ast.Call(func=ast.Name(id="print"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="exit" | "main" | "testmod"))):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.ImportFrom(module="__future__"):
            return True
        case _:
            return False


def _unknown(tree: ast.AST | None, known: set[str]) -> set[str]:
    names = (node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - known


def _all_bound(tree: ast.AST | None) -> set[str]:
    return set().union(*map(_bound_by, ast.walk(tree or ast.Module([], []))))


def _bound_at_top(body: Sequence[ast.stmt]) -> set[str]:
    classes = ast.ClassDef
    return set().union(
        *(
            _bound_by(each)
            for node in body
            for each in ([node] if isinstance(node, classes) else _running(node))
        )
    )


def _running_reads(body: Sequence[ast.stmt]) -> set[str]:
    """Names of others that are read when this is loaded."""
    running = [each for node in body for each in _running(node)]
    names = (each for each in running if isinstance(each, ast.Name))
    read = {each.id for each in names if isinstance(each.ctx, ast.Load)}
    return read - set().union(*map(_bound_by, running))


def _bound_by(node: ast.AST) -> set[str]:
    """The names that this very node binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.arg(arg=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {each.asname or each.name.partition(".")[0] for each in names}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return {name}
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return {name}
        case _:
            return set()


def _is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A docstring, `pass` or `...` only: the task's own header repeated, not an answer."""
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in function.body
    )


def _with_preamble(program: str, prompt: str, entry_point: str | None) -> str:
    """The program after what the prompt defines before the entry point."""
    tree = parse_python(prompt) if prompt else None
    if tree is None or entry_point is None:
        return program
    first = next(
        (
            min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node.name == entry_point
        ),
        None,
    )
    preamble = "".join(prompt.splitlines(keepends=True)[: (first or 1) - 1])
    if not preamble.strip():
        return program
    return after_future_imports(program, preamble.rstrip() + "\n\n")


def after_future_imports(program: str, preamble: str) -> str:
    """The program with `preamble` before everything that may have something before it."""
    futures = _future_imports(program)
    lines = program.splitlines(keepends=True)
    return "".join(lines[:futures]) + preamble + "".join(lines[futures:])


def _future_imports(program: str) -> int:
    """How many first lines of a program end with its last `from __future__ import`."""
    tree = parse_python(program)
    return max(
        (
            node.end_lineno or 0
            for node in (tree.body if tree else ())
            if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        ),
        default=0,
    )


def _indented_blocks(text: str) -> Iterator[str]:
    """Markdown's other kind of code, the last first: indented lines after an empty one."""
    runs = re.findall(r"(?:(?<=\n\n)|(?<=\n\r\n))(?:(?: {4}|\t)[^\n]*(?:\n|\Z)|[ \t\r]*\n)++", text)
    return (textwrap.dedent(run) for run in reversed(runs) if run.strip())


def _bodies(prompt: str, code: str) -> Iterator[tuple[str, list[str]]]:
    """The prompt, and lines whose beginning may finish its function."""
    header = prompt if prompt.endswith("\n") else prompt + "\n"
    for body in (code, textwrap.indent(textwrap.dedent(code), "    ")):
        yield header, _lines(body)


def _starts(text: str) -> Iterator[list[str]]:
    """The lines from each one on with which code can begin."""
    lines = _lines(text)
    for index, line in enumerate(lines):
        if re.match(r"(?:from|import|def|class|async|@|#)|[A-Za-z_]\w*\s*=", line):
            yield lines[index:]


def _lines(text: str) -> list[str]:
    """Lines as Python counts them, with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def boxed_answers(text: str) -> list[str]:
    r"""The contents of every brace-balanced `\boxed{…}` (or `\fbox{…}`), outermost ones only.

    Where there is none, what follows a `\boxed ` without braces.
    """
    boxes = [content for _, content in _boxes(text)]
    return boxes or _UNBRACED_BOX.findall(text)


def _boxes(text: str) -> list[tuple[int, str]]:
    """The end and the content of every balanced box, outermost ones only."""
    boxes = {match.end() for match in _BOX.finditer(text)}
    opened: list[int] = []
    found: list[tuple[int, int]] = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.end())
        elif brace[0] == "}" and opened and (start := opened.pop()) in boxes:
            while found and found[-1][0] > start:
                found.pop()
            found.append((start, brace.start()))
    return [(end + 1, text[start:end]) for start, end in found]


def answer_lines(text: str) -> list[str]:
    """What follows `ANSWER:` on lines that begin with it, Markdown emphasis taken off."""
    return [match["answer"].rstrip(" \t*_`") for match in _ANSWER_LINE.finditer(text)]


def final_answer(reply: str) -> str | None:
    """The mathematical answer a reply ends with: boxed, marked `ANSWER:`, or said to be it.

    Of boxes, `ANSWER:` lines and answer headings the one that comes last counts; a sentence
    "the answer is …" is read only where none of them is there.
    """
    text = without_reasoning(reply)
    lines = _ANSWER_LINE.finditer(text)
    marked = [(match.end(), match["answer"].rstrip(" \t*_`")) for match in lines]
    marked += [(match.end(), match["answer"]) for match in _ANSWER_HEADING.finditer(text)]
    boxed = _boxes(text)
    if boxed and (not marked or boxed[-1][0] >= max(marked)[0] or _boxes_of(max(marked)[1])):
        return boxed[-1][1].strip()
    if marked:
        stated = _hoped(max(marked)[1])
        said = _ANSWER_SENTENCE.findall(stated)
        return _undelimited(said[-1] if said else stated)
    return _unmarked(text)


def _unmarked(text: str) -> str | None:
    """The answer where no box with braces, line or heading marks it: what is said last."""
    found = [
        (match.start(), _undelimited(match[group]))
        for pattern, group in ((_ANSWER_SENTENCE, 1), (_LAST_HEADING, 1), (_UNBRACED_BOX, 1))
        for match in pattern.finditer(text)
    ]
    return max(found)[1] if found else None


def _boxes_of(text: str) -> bool:
    return bool(_BOX.search(text))


def _hoped(answer: str) -> str:
    """The answer inside the closing sentence of the Minerva prompt."""
    said = answer.partition("final answer is")[2]
    match = re.match(r"\s*+(.*?)\.\s*+I hope it is correct", said)
    return match[1] if match else answer


_DELIMITERS = (
    ("**", "**"), ("*", "*"), ("__", "__"), ("`", "`"),
    ("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"),
)  # fmt: skip


def _undelimited(answer: str) -> str:
    """Without emphasis and math delimiters around the whole, and the full stop after it."""
    answer = answer.strip().rstrip(".").strip()
    for left, right in _DELIMITERS:
        inner = answer.removeprefix(left).removesuffix(right)
        if len(answer) - len(inner) == len(left) + len(right) and left not in inner:
            return _undelimited(inner)
    for emphasis in ("**", "__", "*"):  # of the whole sentence
        if answer.endswith(emphasis) and emphasis not in answer.removesuffix(emphasis):
            return _undelimited(answer.removesuffix(emphasis))
    return answer


def json_envelope(text: str) -> JSON | None:
    """The last JSON object of a reply: in a json fence, else anywhere in the text.

    A text with so many broken objects that the search does not end in time has none.
    """
    text = without_reasoning(text)
    for block in reversed(fenced_blocks(text)):
        if block.language in {"json", ""} and isinstance(found := _json(block.code), dict):
            return found
    decoder = json.JSONDecoder()
    last, end, effort = None, 0, 100_000 + 20 * len(text)
    while opening := _OBJECT.search(text, end):
        position, end = opening.span()
        try:
            last, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            effort -= error.pos - position + error.pos // 50  # it counts the lines before it
        except (ValueError, RecursionError):
            return None
        if effort < 0:
            return None
    return last


def _json(text: str) -> JSON | None:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def patch(text: str) -> str:
    """The unified diff of a reply: tagged, fenced, or bare; "" where there is none."""
    text = without_reasoning(text)
    if (tagged := _tagged_patch(text)) is not None:
        return _diff_text(tagged)
    fenced = [
        block.code
        for block in fenced_blocks(text)
        if block.language in DIFF_FENCES or (not block.language and _is_diff(block.code))
    ]
    if fenced:
        return _diff_text("".join(fenced))
    begin = re.search(r"^(?:diff --git .*|--- \S.*\n\+\+\+ \S.*)$", text, re.MULTILINE)
    return _diff_text(text[begin.start() :]) if begin else ""


def _tagged_patch(text: str) -> str | None:
    """What the last closed `<patch>` or `<diff>` holds."""
    closings = {tag: f"</{tag}>" for tag in ("patch", "diff")}
    last = {tag: text.rfind(closing) for tag, closing in closings.items()}
    found, end = None, 0
    for opening in _PATCH_TAG.finditer(text):
        if opening.start() >= end and last[opening[1]] >= opening.end():
            end = text.index(closings[opening[1]], opening.end())
            found = text[opening.end() : end]
    return found


def _is_diff(code: str) -> bool:
    return code.startswith(("diff --git ", "--- ", "Index: "))


def _diff_text(text: str) -> str:
    """A diff whose last line is ended, as `git apply` wants it."""
    text = text.strip("\n")
    return text + "\n" if text.strip() else ""

"""Formulas of docstrings, which are plain text for a terminal, as LaTeX for the pages of the site.

A docstring says ``ψ(x) = l1·‖x‖₁ + (l2/2)·‖x‖²``. ``latex`` translates such a formula character by character,
``sentence`` finds the formulas in a line of prose and marks them as mathematics, and ``display`` sets an indented block.
"""

from __future__ import annotations

import re

SYMBOLS = {
    "·": r"\cdot ", "×": r"\times ", "‖": r"\Vert ", "←": r"\leftarrow ", "…": r"\ldots ", "≤": r"\le ", "≥": r"\ge ",
    "∈": r"\in ", "∞": r"\infty ", "∇": r"\nabla ", "⌈": r"\lceil ", "⌉": r"\rceil ", "⟨": r"\langle ", "⟩": r"\rangle ",
    "½": r"\frac{1}{2}", "Σ": r"\sum ", "−": "-", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ",
    "ε": r"\varepsilon ", "θ": r"\theta ", "κ": r"\kappa ", "λ": r"\lambda ", "μ": r"\mu ", "π": r"\pi ",
    "ρ": r"\rho ", "σ": r"\sigma ", "τ": r"\tau ", "ψ": r"\psi ", "ω": r"\omega ", "{": r"\{", "}": r"\}",
    "\N{COMBINING CIRCUMFLEX ACCENT}": r"\hat", "\N{COMBINING TILDE}": r"\tilde", "\N{COMBINING MACRON}": r"\bar",
}  # fmt: skip
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀ", [*"0123456789+-", r"\top "], strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
SIGNS = "".join({*SYMBOLS, *RAISED, *LOWERED} - {"{", "}", "…"})
OPERATORS = {"=", "+", "-", "/", "<", ">", ":", "≤", "≥", "·", "←", "∈", "×", "−"}
LOG_LIKE = {"log", "exp", "max", "min"}
FUNCTIONS = {
    "prox",
    "sign",
    "soft",
    "argmin",
    "mean",
    "indicator",
    "expression",
    "operator",
    "first",
    "second",
    "sup",
    "diag",
}
NAMES = {
    "alpha", "high", "inf", "initial", "l1", "l1_ratio", "l2", "level", "low", "lower", "mapping", "radius", "rate",
    "ridge", "scale", "step", "strength", "tol", "total", "upper", "value", "width",
}  # fmt: skip
SHORT = {"an", "as", "at", "by", "if", "in", "is", "it", "no", "of", "on", "or", "to", "up"}
"""English words of two letters; other pairs of letters, such as yz, are products."""
TOKEN = re.compile(
    r"l1_ratio|(?P<base>l[12])(?![A-Za-z0-9])|[A-Za-z]{2,}(?![\u0300-\u036f])|\d+(?:\.\d+)?|.",
    re.DOTALL,
)


def closing(text: str, start: int) -> int:
    """The place of the bracket that closes the one at ``start``."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in "({") - (text[place] in ")}")
        if depth == 0:
            return place
    raise ValueError(f"a bracket of {text!r} is not closed")


def word(letters: str) -> str:
    """A run of letters: a function, the name of an argument, a product of two quantities, or English."""
    if letters in LOG_LIKE:
        return f"\\{letters} "
    if letters == "inf":
        return r"\infty "
    if letters in FUNCTIONS:
        return rf"\operatorname{{{letters}}}"
    if letters in NAMES:
        return rf"\mathrm{{{letters}}}".replace("_", r"\_")
    if letters in SHORT - {"an"} or (len(letters) > 2 and letters.islower()):
        return rf"\text{{ {letters} }}"
    return letters


def index(letters: str) -> str:
    """A subscript or superscript without braces: L_max is a name, w_ij two indices."""
    if letters in {"max", "min"}:
        return f"\\{letters} "
    return rf"\mathrm{{{letters}}}" if letters in {"rad"} else latex(letters)


def latex(text: str) -> str:
    """A formula in plain text as LaTeX."""
    found, place = "", 0
    while place < len(text):
        here, rest = text[place], text[place + 1 :]
        if run := re.match(f"[{''.join(RAISED)}]+", text[place:]):
            found += "^{" + "".join(RAISED[c] for c in run[0]).strip() + "}"
            place += len(run[0])
        elif run := re.match(f"[{''.join(LOWERED)}]+", text[place:]):
            found += "_{" + "".join(LOWERED[c] for c in run[0]) + "}"
            place += len(run[0])
        elif here in "_^" and rest[:1] in "{(":
            end = closing(text, place + 1)
            inside = text[place + 2 : end]
            found += here + "{" + (latex(inside) if rest[0] == "{" else f"({latex(inside)})") + "}"
            place = end + 1
        elif here in "_^" and (run := re.match(r"[A-Za-z0-9]+|.", rest)):
            found += here + "{" + index(run[0]) + "}"
            place += 1 + len(run[0])
        elif here == "√" and rest[:1] == "(":
            end = closing(text, place + 1)
            found += rf"\sqrt{{{latex(text[place + 2 : end])}}}"
            place = end + 1
        elif here == "√":
            found += rf"\sqrt{{{latex(rest[0])}}}"
            place += 2
        elif here == "*" and place and text[place - 1].isalpha():  # σ*² is the square of σ*
            found += "_{*}" if text[place - 1] == "σ" or rest[:1] == "^" else "^{*}"
            place += 1
        elif rest[:1] and rest[0] in SYMBOLS and "\u0300" <= rest[0] <= "\u036f":
            found += SYMBOLS[rest[0]] + "{" + SYMBOLS.get(here, here).strip() + "}"
            place += 2
        elif run := re.match(r"[a-km-z](\d)(?!\d)", text[place:]):
            found += f"{here}_{{{run[1]}}}"
            place += 2
        elif here == "Σ" and re.match(r"[A-Z]|,| -|$", rest):  # the matrix of a decomposition
            found += r"\Sigma "
            place += 1
        elif token := TOKEN.match(text, place):
            piece = token[0]
            found += (
                word(piece) if len(piece) > 1 and piece[0].isalpha() else SYMBOLS.get(piece, piece)
            )
            place = token.end()
    return re.sub(" +", " ", re.sub(r" \} \\text\{ ", " ", found)).strip()


PROSE = re.compile(r"\0|[\"“]|\.[a-z]{2,}|^[a-z]{2,}_[a-z]{3,}")
"""Quoted words, names of files, and names of arguments with an underscore."""


def mathematical(piece: str) -> bool:
    """Whether a piece between two spaces can only be part of a formula."""
    if PROSE.search(piece) or re.fullmatch(r"\(?[A-Za-z][A-Za-z'’-]+[,.:;)]*", piece):
        return False
    marks = r"[A-Za-z]_|[A-Za-z]\(\S|[({|]\S*\w|^[+-]\w|^…|[{}]|^[A-Za-z]-\d|^[A-Za-z]\*|\w\^"
    return piece in OPERATORS or any(c in SIGNS for c in piece) or bool(re.search(marks, piece))


def short(piece: str, near: bool) -> bool:
    """Whether a piece without any sign is a quantity: a single letter, or beside an operator."""
    if re.fullmatch(r"[B-Zb-z](/[B-Zb-z])?", piece):
        return True
    return near and (len(piece) <= 2 or piece in NAMES or piece.isdigit())


def cut(piece: str, depth: int) -> tuple[str, str]:
    """A piece of a formula, and the punctuation or the ending (as in L_i-smooth) behind it."""
    if piece in OPERATORS or depth > 0:
        return piece, ""
    body = piece.rstrip(",.:;")
    if depth < 0 and body.endswith(")"):
        body = body[:-1]
    if suffix := re.fullmatch(r"(.*_\w+|.*L̄)-[a-z]{3,}|(.*)'s", body):
        body = suffix[1] or suffix[2]
    return body, piece[len(body) :]


def pieces(text: str) -> list[tuple[bool, str]]:
    """The formulas (True) and the prose (False) of a line, in order."""
    words = text.split(" ")
    sure = [mathematical(each) for each in words]
    found: list[tuple[bool, str]] = []
    depth = 0
    for place, each in enumerate(words):
        bare = each.rstrip(",.:;")
        follows = place > 0 and words[place - 1] in OPERATORS
        leads = place + 1 < len(words) and (
            words[place + 1] in OPERATORS or (bare in LOG_LIKE and sure[place + 1])
        )
        near = follows or leads
        formula = (
            (depth > 0 and "\0" not in each)
            or sure[place]
            or (bare in LOG_LIKE and leads)
            or (bare not in SHORT and short(bare, near))
        )
        body, tail = each, ""
        if formula:
            depth += sum(each.count(c) for c in "({⟨") - sum(each.count(c) for c in ")}⟩")
            body, tail = cut(each, depth)
            depth = max(depth, 0)
        if found and found[-1][0] == formula:
            found[-1] = (formula, f"{found[-1][1]} {body}")
        else:
            found.append((formula, body))
        if tail:
            found.append((False, tail))
    return found


def plain(text: str) -> str:
    """Literals that are formulas (a bar would be markup in a docstring) without their quotes."""

    def formula(quoted: re.Match[str]) -> str:
        return quoted[1] if re.search(r"[|≤≥ρ]", quoted[1]) else quoted[0]

    return re.sub(r"``(.*?)``", formula, text)


def sentence(text: str) -> str:
    """Prose with its formulas marked for the pages; literals and links stay as they are."""
    kept: list[str] = []

    def keep(quoted: re.Match[str]) -> str:
        kept.append(quoted[0])
        return f"\0{len(kept) - 1}\0"

    found = ""
    for formula, part in pieces(re.sub(r"``.*?``|:\w+:`.*?`|`.*?`_*", keep, plain(text))):
        gap = "" if not found or (not formula and part[0] in ",.:;-)'") else " "
        found += gap + (f":math:`{latex(part)}`" if formula else part)
    return re.sub("\0(\\d+)\0", lambda mark: kept[int(mark[1])], found)


def prose(part: str) -> str:
    return rf"\text{{{'' if part[0] in ',.:;-)' else ' '}{part} }}"


def display(lines: list[str]) -> list[str]:
    """An indented block of formulas, one below another."""
    rows = []
    for line in lines:
        columns = re.split(" {2,}", re.sub(" +([=←])", r" \1", line.strip()))
        parts = [pieces(column) for column in columns]
        rows.append(
            r" \quad ".join("".join(latex(p) if f else prose(p) for f, p in row) for row in parts)
        )
    body = r" \\ ".join(rows)
    return [
        ".. math::",
        "",
        rf"    \begin{{array}}{{l}} {body} \end{{array}}" if len(rows) > 1 else f"    {body}",
        "",
    ]


def formal(text: str) -> bool:
    """Whether a line has a formula at all."""
    indexed = re.search(r"(?<![\w`.])[A-Za-z]_[a-z0-9](?!\w)", text)
    return any(c in SIGNS for c in text) or " = " in text or indexed is not None

"""Clean text of the two books: Jane Austen's six novels and the King James Bible.

A document is a chapter. Every 25th chapter of each book is held out.
"""

import re
import subprocess
from pathlib import Path

from . import rdata

HELD_OUT_EVERY = 25

# The order and the full names of the books as `bible` abbreviates them.
BOOKS = dict(
    pair.split("=")
    for pair in (
        "Ge=Genesis Exo=Exodus Lev=Leviticus Num=Numbers Deu=Deuteronomy Josh=Joshua Jdgs=Judges Ruth=Ruth "
        "1Sm=1_Samuel 2Sm=2_Samuel 1Ki=1_Kings 2Ki=2_Kings 1Chr=1_Chronicles 2Chr=2_Chronicles Ezra=Ezra "
        "Neh=Nehemiah Est=Esther Job=Job Psa=Psalm Prv=Proverbs Eccl=Ecclesiastes SSol=Song_of_Solomon Isa=Isaiah "
        "Jer=Jeremiah Lam=Lamentations Eze=Ezekiel Dan=Daniel Hos=Hosea Joel=Joel Amos=Amos Obad=Obadiah "
        "Jonah=Jonah Mic=Micah Nahum=Nahum Hab=Habakkuk Zep=Zephaniah Hag=Haggai Zec=Zechariah Mal=Malachi "
        "Mat=Matthew Mark=Mark Luke=Luke John=John Acts=Acts Rom=Romans 1Cor=1_Corinthians 2Cor=2_Corinthians "
        "Gal=Galatians Eph=Ephesians Phi=Philippians Col=Colossians 1Th=1_Thessalonians 2Th=2_Thessalonians "
        "1Tim=1_Timothy 2Tim=2_Timothy Titus=Titus Phmn=Philemon Heb=Hebrews Jas=James 1Pet=1_Peter 2Pet=2_Peter "
        "1Jn=1_John 2Jn=2_John 3Jn=3_John Jude=Jude Rev=Revelation"
    ).split()
)


def austen_chapters(packages):
    """The chapters of the six novels, paragraphs separated by an empty line."""
    novels = rdata.read_vectors(Path(packages) / "usr/lib/R/site-library/janeaustenr/data/Rdata")
    chapters = []
    for name in sorted(novels):
        chapters += _novel_chapters(novels[name])
    return chapters


def _novel_chapters(lines):
    chapters, paragraph = [], []

    def end_paragraph():
        if paragraph and chapters:
            chapters[-1].append(" ".join(paragraph))
        paragraph.clear()

    for line in lines:
        text = re.sub(r"[_\u00a3]|\* ?", "", line).strip()
        if re.fullmatch(r"chapter [ivxl\d]+\.?", text, re.IGNORECASE):
            end_paragraph()
            chapters.append([])
        elif re.fullmatch(r"(volume [ivx\d]+|the end|finis|\(end of volume \w+\.\))\.?|", text, re.IGNORECASE):
            end_paragraph()
        else:
            paragraph.append(text)
    end_paragraph()
    return ["\n\n".join(c) for c in chapters if c]


def bible_verses(packages):
    """{(book, chapter, verse): text} in the order of the book, printed by the package's own program."""
    root = Path(packages)
    command = [root / "usr/bin/bible", "-p", root / "usr/lib", "-f", "gen1:1-rev22:21"]
    text = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True).stdout
    verses = {}
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+?)(\d+):(\d+) (.*\S)\s*", line)
        if not found:
            raise ValueError(f"not a verse: {line!r}")
        book, chapter, verse, words = found.groups()
        verses[BOOKS[book].replace("_", " "), int(chapter), int(verse)] = words
    if len(verses) != 31102:
        raise ValueError(f"{len(verses)} verses; the book has 31102")
    return verses


def bible_chapters(verses):
    """[((book, chapter), text)], one verse a line."""
    chapters = {}
    for (book, chapter, _), words in verses.items():
        chapters.setdefault((book, chapter), []).append(words)
    return [(key, "\n".join(lines)) for key, lines in chapters.items()]


def is_held_out(index):
    return index % HELD_OUT_EVERY == HELD_OUT_EVERY // 2

"""Texts to measure with and texts to compare with, the same in every run."""

import json
import random
import re
import unicodedata
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "notes"
SEED = 20261130

# Tokens in a set of texts of one length, and texts in the mixed set.
SET_TOKENS = 4096
N_MIXED = 400
# As in the study of the engines that this project's was designed after: a median of 67 tokens.
MIXED = (4.2, 0.9)
SHORTEST = 5

# Texts to compare with; one in so many of each kind.
N_COMPARED = 1000


class Words:
    """Words that are one token each, of the model's own vocabulary, half of them Korean if it
    knows Korean. `count` gives the tokens of texts with all that is put around them.
    """

    def __init__(self, tokenizer, count):
        chance = random.Random(SEED)
        english, korean = vocabulary(json.loads(tokenizer.read_text("utf-8")))
        self.languages = []
        for words in (english, korean):
            words = chance.sample(words, min(len(words), 2000))
            counts = count(words)
            # A word in the vocabulary may still be cut otherwise: keep those that are not.
            self.around = min(counts) - 1 if counts else 0
            words = [word for word, n in zip(words, counts) if n == self.around + 1]
            if len(words) >= 100:
                self.languages.append(words)
        self.around = count([self.languages[0][0]])[0] - 1
        self.count = count

    def texts(self, lengths, seed):
        """A text of each length in tokens."""
        chance = random.Random(seed)
        found = []
        for i, length in enumerate(lengths):
            words = self.languages[i % len(self.languages)]
            found.append(" ".join(chance.choices(words, k=max(1, length - self.around))))
        counts = self.count(found)
        if counts != list(lengths):
            wrong = next(i for i, n in enumerate(counts) if n != lengths[i])
            raise ValueError(f"a text of {lengths[wrong]} tokens came out with {counts[wrong]}")
        return found


def vocabulary(tokenizer):
    """English and Korean words of a tokenizer.json that begin a word and are one piece."""
    pieces = tokenizer["model"]["vocab"]
    if isinstance(pieces, dict):
        begin, pieces = "", sorted(pieces)
    else:
        begin, pieces = "▁", sorted(piece for piece, _ in pieces)
    english = re.compile(f"{begin}([a-z]{{3,12}})")
    korean = re.compile(f"{begin}([가-힣]{{2,6}})")
    return tuple(
        [match[1] for match in map(pattern.fullmatch, pieces) if match]
        for pattern in (english, korean)
    )


def measured(words, window, share=1.0):
    """Sets of texts by name: of exact lengths, and of the lengths that notes have."""
    sets = {}
    for length in (32, 128, 256, 512):
        if length <= window:
            n_texts = max(2, int(SET_TOKENS * share) // length)
            sets[str(length)] = words.texts([length] * n_texts, length)
    chance = random.Random(SEED)
    lengths = [
        min(max(int(chance.lognormvariate(*MIXED)), SHORTEST), window)
        for _ in range(max(8, int(N_MIXED * share)))
    ]
    sets["mixed"] = words.texts(lengths, SEED)
    return sets


def question(words, count_query):
    """A question of 8 tokens with all that is put around it."""
    word = words.languages[0][0]
    n_words = max(1, 1 + 8 - count_query(word))
    return " ".join(random.Random(SEED).choices(words.languages[0], k=n_words))


# Texts to compare with.


def compared(count, window, n_texts=N_COMPARED):
    """Texts as (kind, text), Korean and English, of one token to about `window`.

    `count` gives the tokens of texts.
    """
    chance = random.Random(SEED)
    paragraphs, words = corpus()
    long = []
    for i in range(n_texts):
        kind, make = KINDS[i % len(KINDS)]
        target = int(2 ** chance.uniform(0, 9))
        long.append((kind, make(chance, paragraphs, words), min(target, window)))
    counts = count([" ".join(pieces) for _, pieces, _ in long])
    found = []
    for (kind, pieces, target), n_tokens in zip(long, counts):
        n_pieces = max(1, round(len(pieces) * target / n_tokens))
        found.append((kind, " ".join(pieces[:n_pieces])))
    return found


def corpus():
    """Paragraphs of the project's corpus, and their words."""
    paragraphs = []
    for path in sorted(CORPUS.rglob("*.md")):
        for text in path.read_text(encoding="utf-8-sig").split("\n\n"):
            if text.strip():
                paragraphs.append(text.strip())
    words = sorted({word for text in paragraphs for word in text.split()})
    return paragraphs, words


def passage(chance, paragraphs, words):
    pieces = []
    while len(pieces) < 500:
        pieces += chance.choice(paragraphs).split(" ")
    return pieces


def shuffled(chance, paragraphs, words):
    return chance.choices(words, k=400)


def emoji(chance, paragraphs, words):
    signs = ["🙂", "🎉", "👩‍👩‍👧‍👦", "🇰🇷", "❤️", "👍🏽", "🧑‍💻", "⚠️"]
    return [chance.choice(signs if chance.random() < 0.2 else words) for _ in range(400)]


def decomposed(chance, paragraphs, words):
    korean = [text for text in paragraphs if re.search("[가-힣]", text)]
    return [unicodedata.normalize("NFD", word) for word in passage(chance, korean, words)]


def punctuation(chance, paragraphs, words):
    marks = "!?.,;:'\"()[]{}<>/\\|@#$%^&*-_=+~`…—·「」“”％"
    def mark():
        return "".join(chance.choices(marks, k=chance.randint(1, 6)))
    return [mark() if chance.random() < 0.5 else chance.choice(words) for _ in range(400)]


def numbers(chance, paragraphs, words):
    def number():
        return chance.choice([
            str(chance.randrange(10**6)), f"{chance.random():.4f}", f"{chance.randrange(100)}%",
            f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
            f"0x{chance.randrange(2**32):x}",
        ])  # fmt: skip
    return [number() if chance.random() < 0.5 else chance.choice(words) for _ in range(400)]


def letters(chance, paragraphs, words):
    """Made-up words, which fall into single letters and rare pieces."""
    latin, hangul = "abcdefghijklmnopqrstuvwxyzéüñßø", [chr(c) for c in range(0xAC00, 0xD7A4)]
    return [
        "".join(chance.choices(chance.choice([latin, hangul]), k=chance.randint(1, 12)))
        for _ in range(400)
    ]


def long_words(chance, paragraphs, words):
    """Now and then a word of over a hundred letters, as in links and encoded files."""
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces = chance.choices(words, k=400)
    for i in range(0, len(pieces), 25):
        pieces[i] = "".join(chance.choices(alphabet, k=chance.randint(90, 260)))
    return pieces


# Most texts are of the kind that people write.
KINDS = [
    ("passage", passage), ("passage", passage), ("passage", passage), ("shuffled words", shuffled),
    ("passage", passage), ("passage", passage), ("emoji", emoji), ("decomposed", decomposed),
    ("punctuation", punctuation), ("numbers", numbers), ("letters", letters),
    ("long words", long_words),
]  # fmt: skip


def as_read(text, longest_word):
    """What our encoder makes of a text before the tokenizer sees it: NFC, and for WordPiece a blank
    in every word of over `longest_word` letters and digits, which would be one unknown token.
    """
    text = unicodedata.normalize("NFC", text.strip())
    if longest_word is None:
        return text
    broken, n_run = [], 0
    for letter in text:
        n_run = n_run + 1 if letter.isalnum() else 0
        if n_run > longest_word:
            broken.append(" ")
            n_run = 1
        broken.append(letter)
    return "".join(broken)

"""Writes golden.json with CPython's difflib: python3 generate.py > golden.json"""
import difflib
import json
import random
import sys

random.seed(20261120)
WORDS = ["alpha", "beta", "return x", "    if a:", "", "}", "é–—", "foo(bar, baz)", "\tx = 1", "日本語"]


def text(n):
    return "".join(random.choice("abcde fé\n") for _ in range(n))


def mutate(s):
    out = []
    for c in s:
        r = random.random()
        if r < 0.08:
            continue
        out.append(c)
        if r > 0.93:
            out.append(random.choice("xyz ab"))
    return "".join(out)


ratios = [("", ""), ("a", ""), ("", "b"), ("abcd", "bcde"), ("private", "privte"), ("qabxcd", "abycdf"),
          ("def hello():", "def helo ():"), ("a" * 250, "a" * 249 + "b"), ("x" * 199 + "y", "y" + "x" * 199)]
for n in (3, 10, 40, 120, 199, 200, 201, 400, 700):
    for _ in range(4):
        a = text(n)
        ratios.append((a, mutate(a)))
        ratios.append((a, text(n)))

diffs = []
for n in (0, 1, 2, 5, 12, 40, 250):
    for _ in range(4):
        a = [random.choice(WORDS) + "\n" for _ in range(n)]
        b = [w for w in a if random.random() > 0.1]
        for _ in range(random.randint(0, 3)):
            b.insert(random.randint(0, len(b)), random.choice(WORDS) + "!\n")
        diffs.append(("".join(a), "".join(b)))


def split(s):
    return [line + "\n" for line in s.split("\n")[:-1]]


json.dump({
    "ratios": [{"a": a, "b": b, "ratio": difflib.SequenceMatcher(None, a, b).ratio()} for a, b in ratios],
    "diffs": [{"a": a, "b": b, "diff": "".join(difflib.unified_diff(split(a), split(b), "a/f", "b/f"))} for a, b in diffs],
}, sys.stdout, ensure_ascii=False, indent=0)

"""Writes the synthetic tokenizers of this folder and the texts they are tried on.

    python3 make_tokenizers.py && npm install --prefix /tmp/reference tokenizers@0.23.2 &&
    NODE_PATH=/tmp/reference/node_modules node reference.cjs

The second step runs the library that defines the format on them and writes *.golden.jsonl.
Vocabularies are trained here on the text below; nothing is taken from a published model.
"""
import base64
import json
import random
import struct
from collections import Counter

TEXT = """The harness runs the agent and the agent runs the tools. It's what they'd said: we can't lose a row.
def main(args):\n    return sum(x for x in args if x > 10)\n\nfor i in range(100):\n\tprint(i, i * i)
Straße, naïve café, déjà vu; привет мир, привет; 你好世界,你好; こんにちは 😀😀 1234567 2024-11-21 3.14159
{"name": "terminal", "arguments": {"command": "ls -la /tmp"}} HTTPServer camelCase snake_case I'LL THEY'VE
""" * 3


def byte_chars():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    chars, nxt = {}, 256
    for b in range(256):
        if b in keep:
            chars[b] = chr(b)
        else:
            chars[b] = chr(nxt)
            nxt += 1
    return chars


BYTES = byte_chars()


def train(words, alphabet, merges, prefix="", suffix=""):
    """Plain byte-pair training; returns vocabulary and merges."""
    def symbols(word):
        out = list(word)
        out = [s if i == 0 else prefix + s for i, s in enumerate(out)]
        out[-1] += suffix
        return out
    words = Counter(words)
    split = {w: symbols(w) for w in words}
    vocab = {}
    for token in alphabet:
        vocab.setdefault(token, len(vocab))
    for parts in split.values():
        for s in parts:
            vocab.setdefault(s, len(vocab))
    done = []
    for _ in range(merges):
        pairs = Counter()
        for w, n in words.items():
            for a, b in zip(split[w], split[w][1:]):
                pairs[a, b] += n
        if not pairs:
            break
        (a, b), n = max(pairs.items(), key=lambda kv: (kv[1], kv[0]))
        if n < 2:
            break
        joined = a + b[len(prefix):]
        vocab.setdefault(joined, len(vocab))
        done.append([a, b])
        for w, parts in split.items():
            out, i = [], 0
            while i < len(parts):
                if i + 1 < len(parts) and parts[i] == a and parts[i + 1] == b:
                    out.append(joined)
                    i += 2
                else:
                    out.append(parts[i])
                    i += 1
            split[w] = out
    return vocab, done


def words_of(text, space=" "):
    out, word = [], ""
    for c in text:
        if c == " " or c == "\n":
            if word:
                out.append(word)
            word = space if c == " " else ""
            if c == "\n":
                out.append("\n")
        else:
            word += c
    return out + ([word] if word else [])


def added(vocab, *tokens):
    out = []
    for t in tokens:
        t = dict({"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}, **t)
        t["id"] = vocab.get(t["content"], len(vocab) + len([o for o in out if o["content"] not in vocab]))
        out.append(t)
    return out


SPECIAL = [
    {"content": "<|start|>"}, {"content": "<|end|>"},
    {"content": "<tool_call>", "special": False},
    {"content": "<left>", "lstrip": True}, {"content": "<right>", "rstrip": True},
    {"content": "word", "single_word": True, "special": False, "normalized": True},
    {"content": "Norm Alé", "special": False, "normalized": True},
    {"content": "<|end|>x", "special": True},
]


def write(name, **parts):
    file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None}
    file.update(parts)
    with open(name + ".json", "w") as f:
        text = json.dumps(file, ensure_ascii=False, separators=(",", ":"))
        f.write(text.replace("-7.000000000000001", "-7.00000000000000049").replace("-6.999999999999999", "-6.99999999999999937"))
        f.write("\n")


def bpe(vocab, merges, lines=False, **more):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    model.update(more)
    model["vocab"] = vocab
    model["merges"] = [" ".join(m) for m in merges] if lines else merges
    return model


def template(before, after, vocab):
    ids = lambda t: {"id": t["content"], "ids": [t["id"]], "tokens": [t["content"]]}
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": before["content"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": after["content"], "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {before["content"]: ids(before), after["content"]: ids(after)}}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def sequence(*parts, key="pretokenizers"):
    return {"type": "Sequence", key: list(parts)}


LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
LEVEL_DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
UP, LOW = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UP + "*" + LOW + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?" + UP + "+" + LOW +
         r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?" + UP + "*" + LOW + r"+|[^\r\n\p{L}\p{N}]?" + UP + "+" + LOW +
          r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
HAN = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
       r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

DEEPSEEK = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")

level_words = ["".join(BYTES[b] for b in w.encode()) for w in words_of(TEXT)]
level_vocab, level_merges = train(level_words, BYTES.values(), 250)
tokens = added(level_vocab, *SPECIAL)
start, end = tokens[0], tokens[1]
for name, pre, more in [
    ("level_gpt2", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"lines": True}),
    ("level_llama3", sequence(split(LLAMA3), LEVEL), {"ignore_merges": True}),
    ("level_qwen2", sequence(split(QWEN2), LEVEL), {}),
    ("level_o200k", sequence(split(O200K), LEVEL), {}),
    ("level_tekken", sequence(split(TEKKEN), LEVEL), {}),
    ("level_han", sequence(split(HAN), LEVEL), {}),
    ("level_deepseek", sequence(split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK), LEVEL), {}),
    ("level_possessive", sequence(split(POSSESSIVE), LEVEL), {}),
    ("level_looks", sequence(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), split(r"(?<=[a-z])(?=[A-Z])", "MergedWithPrevious"), split(r"\bthe\b", "Removed"), LEVEL), {}),
    ("level_steps", sequence(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"),
                             split(r"[!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), LEVEL), {}),
]:
    write(name, added_tokens=tokens, model=bpe(level_vocab, level_merges, **more), decoder=LEVEL_DECODER, pre_tokenizer=pre,
          normalizer={"type": "NFC"} if name == "level_qwen2" else None,
          post_processor=sequence({"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
                                  template(start, end, level_vocab), key="processors"))

# A vocabulary that lacks bytes leaves those out.
few = {t: i for i, t in enumerate([c for c in level_vocab if not any(BYTES[b] in c for b in range(0x80, 0xC0))])}
few_merges = [m for m in level_merges if m[0] in few and m[1] in few and m[0] + m[1] in few]
write("level_gaps", added_tokens=added(few, *SPECIAL[:2]), model=bpe(few, few_merges), decoder=LEVEL_DECODER,
      pre_tokenizer=sequence({"type": "Digits", "individual_digits": True}, dict(LEVEL, use_regex=True)))

piece_words = words_of(TEXT, "▁")
fallback = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
piece_vocab, piece_merges = train(piece_words, fallback, 200)
for rare in "你好😀é":
    piece_vocab.pop(rare, None)
piece_vocab = {t: i for i, t in enumerate(piece_vocab)}
piece_merges = [m for m in piece_merges if m[0] in piece_vocab and m[1] in piece_vocab and m[0] + m[1] in piece_vocab]
piece_tokens = added(piece_vocab, {"content": "<unk>"}, {"content": "<s>"}, {"content": "</s>"}, *SPECIAL)
spm_decoder = sequence({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                       {"type": "Strip", "content": " ", "start": 1, "stop": 0}, key="decoders")
spm = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
write("piece_prepend", added_tokens=piece_tokens, model=bpe(piece_vocab, piece_merges, **spm), decoder=spm_decoder,
      normalizer=sequence({"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, key="normalizers"),
      post_processor=template(piece_tokens[1], piece_tokens[2], piece_vocab))
for scheme in ["first", "always", "never"]:
    write("piece_" + scheme, added_tokens=piece_tokens, model=bpe(piece_vocab, piece_merges, **spm),
          decoder=spm_decoder if scheme == "first" else {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True},
          pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme != "first"})
no_bytes = {t: i for i, t in enumerate(t for t in piece_vocab if not t.startswith("<0x"))}
write("piece_unknown", added_tokens=added(no_bytes, *SPECIAL[:2]), model=bpe(no_bytes, piece_merges, unk_token="<unk>", fuse_unk=False),
      decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
      pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True})

counts = Counter()
for w in piece_words:
    for i in range(len(w)):
        for j in range(i + 1, min(len(w), i + 8) + 1):
            counts[w[i:j]] += 1
kept = [t for t, n in counts.most_common(400)] + sorted({c for w in piece_words for c in w if ord(c) < 0x400} - {t for t, _ in counts.most_common(400)})
unigram = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0]] + [[t, round(-3 - 40 / (1 + counts[t]) + 0.5 * len(t), 4)] for t in kept]
write("unigram", added_tokens=added({t: i for i, (t, _) in enumerate(unigram)}, {"content": "<unk>"}, *SPECIAL),
      normalizer=sequence({"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, key="normalizers"),
      pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
      decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
      model={"type": "Unigram", "unk_id": 0, "vocab": unigram, "byte_fallback": False})
with_bytes = unigram + [["<0x%02X>" % b, -20.0] for b in range(256)]
write("unigram_bytes", added_tokens=added({t: i for i, (t, _) in enumerate(with_bytes)}, {"content": "<unk>"}, *SPECIAL),
      normalizer=sequence({"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, key="normalizers"),
      decoder=spm_decoder, model={"type": "Unigram", "unk_id": 0, "vocab": with_bytes, "byte_fallback": True})



def charsmap(rules):
    """SentencePiece's compiled rules: a double-array trie of the keys, then what they become."""
    texts, trie = b"", {}
    for key, value in rules.items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = len(texts)
        texts += value.encode() + b"\0"
    units = {0: 0}

    def place(node, at):
        base = next(b for b in range(1, 1 << 20) if b != at and all(b ^ label not in units for label in node))
        units[at] |= (at ^ base) << 10
        for label in node:
            units[base ^ label] = label
        for label, below in node.items():
            if label == 0:
                units[at] |= 1 << 8
                units[base] = below | 1 << 31
            else:
                place(below, base ^ label)

    place(trie, 0)
    array = b"".join(struct.pack("<I", units.get(i, 0)) for i in range((max(units) | 0xFF) + 1))
    return base64.b64encode(struct.pack("<I", len(array)) + array + texts).decode()


RULES = {"ﬁ": "fi", "…": "...", "\u200b": " ", "\u00a0": " ", "\u3000": " ", "①": "1", "e\u0301": "é", "\x01": "", "\t": " ", "İ": "I"}
write("unigram_compiled", added_tokens=added({t: i for i, (t, _) in enumerate(unigram)}, {"content": "<unk>"}, *SPECIAL),
      normalizer=sequence({"type": "Precompiled", "precompiled_charsmap": charsmap(RULES)}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, key="normalizers"),
      pre_tokenizer=sequence({"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}),
      decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
      model={"type": "Unigram", "unk_id": 0, "vocab": unigram, "byte_fallback": False})
# Equally likely ways to cut a text, where the library reads a score with a small error.
ties = [["<unk>", 0.0], ["▁", -2.5], ["a", -3.5], ["b", -3.5], ["ab", -7.00000000000000049], ["ba", -6.99999999999999937], ["aba", -10.5]]
write("unigram_ties", added_tokens=added({t: i for i, (t, _) in enumerate(ties)}, {"content": "<unk>"}),
      normalizer=sequence({"type": "Nmt"}, {"type": "NFKC"}, key="normalizers"),
      pre_tokenizer=sequence({"type": "FixedLength", "length": 7}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}),
      decoder={"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "▁", "cleanup": True},
      model={"type": "Unigram", "unk_id": 0, "vocab": ties, "byte_fallback": False})

bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + sorted({c for c in TEXT.lower() if not c.isspace()}) + \
       ["##" + c for c in sorted({c for c in TEXT.lower() if not c.isspace()})] + ["the", "##s", "agent", "run", "##ing", "##ss", "re", "##turn", "cafe", "naive"]
bert = {t: i for i, t in enumerate(dict.fromkeys(bert))}
write("wordpiece", added_tokens=added(bert, {"content": "[UNK]"}, {"content": "[CLS]"}, {"content": "[SEP]"}),
      normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
      pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
      post_processor={"type": "BertProcessing", "sep": ["[SEP]", bert["[SEP]"]], "cls": ["[CLS]", bert["[CLS]"]]},
      model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 20, "vocab": bert})
# The ids in the file are not those that the library gives.
odd = added({"<unk>": 0, "the": 1}, {"content": "<unk>"}, {"content": "the", "special": False}, {"content": "<new>"})
odd[1]["id"], odd[2]["id"] = 77, 99
level = {t: i for i, t in enumerate(["<unk>", "the", "agent", "runs", ".", ",", "tools", "10", "Straße", "{\"", "привет"])}
write("wordlevel_ids", added_tokens=odd, pre_tokenizer={"type": "Whitespace"}, model={"type": "WordLevel", "unk_token": "<unk>", "vocab": level})
write("wordlevel", added_tokens=added(level, {"content": "<unk>"}), pre_tokenizer={"type": "Whitespace"},
      model={"type": "WordLevel", "unk_token": "<unk>", "vocab": level})

clip_words = [w.strip().lower() for w in words_of(TEXT) if w.strip()]
clip_vocab, clip_merges = train(clip_words, ["<unk>"], 150, suffix="</w>")
write("suffix", added_tokens=added(clip_vocab, {"content": "<unk>"}), model=bpe(clip_vocab, clip_merges, unk_token="<unk>", end_of_word_suffix="</w>"),
      normalizer=sequence({"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, key="normalizers"),
      pre_tokenizer=sequence({"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Contiguous"}),
      decoder={"type": "BPEDecoder", "suffix": "</w>"})
prefix_vocab, prefix_merges = train(clip_words, ["<unk>"], 150, prefix="@@")
for behavior, invert in [("MergedWithPrevious", False), ("MergedWithNext", False), ("Contiguous", False), ("Removed", True), ("MergedWithNext", True)]:
    write("split_%s%s" % (behavior.lower(), "_invert" if invert else ""), added_tokens=added(prefix_vocab, {"content": "<unk>"}),
          model=bpe(prefix_vocab, prefix_merges, unk_token="<unk>", fuse_unk=True, continuing_subword_prefix="@@"),
          pre_tokenizer=sequence({"type": "Split", "pattern": {"String": " "} if not invert else {"Regex": r"\w+"}, "behavior": behavior, "invert": invert},
                                 {"type": "Digits", "individual_digits": False}))

random.seed(7)
WORDS = ("the agent runs tools it's I'LL they'VE 'ſ can't 123 4567 89012 3.14 0xFF foo_bar camelCase HTTPServer naïve café Straße привет Мир 你好世界 "
         "こんにちは カタカナ 한국어 مرحبا हिन्दी ภาษาไทย 😀 👨‍👩‍👧 🇩🇪 ½ ² Ⅷ ١٢٣ １２３ ... --- !!! // /* {\"a\":[1,2]} def return #include ﬁ ǅ İ ẞ a\u0301 e\u0301\u0323 "
         "\u00a0 \u200b \ufeff \u0085 \u3000 \x00 \x7f <|start|> <|end|> <|end|>x <tool_call> <left> <right> word words sword Norm\u0020Alé Norm\u0020Ale\u0301 <unk> <0x41> </s> ▁ ▁▁a").split(" ")
SEPARATORS = [" ", " ", " ", "", "  ", "\n", "\n\n", "\t", " \n", "\r\n", "   ", "\n "]
texts = ["", " ", "  ", "\n", "a", " a", "<|end|>", " <|end|> ", "x<left>y", "x  <left>  <right>  y", "a word.", "swords word", "aaaa" * 40, "=" * 130 + "x", "ab" * 100, TEXT[:400]]
while len(texts) < 90:
    k = random.random()
    if k < 0.7:
        texts.append("".join(random.choice(WORDS) + random.choice(SEPARATORS) for _ in range(random.randint(1, 12))))
    elif k < 0.85:
        texts.append("".join(random.choice(" \t\n\r\u00a0\u3000a1.'/é") for _ in range(random.randint(1, 25))))
    else:
        texts.append("".join(chr(random.choice([random.randint(1, 0x7f), random.randint(0xa0, 0x17f), random.randint(0x370, 0x5ff), random.randint(0x3040, 0x9fff), random.randint(0x1f300, 0x1f64f)])) for _ in range(random.randint(1, 25))))
# Later Unicode versions, many marks, what folds to an ASCII letter, ties.
texts += ["\u1c89\u1c8a \ua7cb\ua7dc\ua7ce \u0897a\u0897 \U000105c9 \U00010d4a\U00010d40 \U00016ea0 \U00011de0 \u166d\u061d \u1734",
          "a" + "\u0323\u0301" * 20 + "b\u0344" * 2 + "\u1100\u1161\u11a8\u11a7 \U00011938\U00011935\U00011930",
          "a'\u017f b'\u017fc O'\u212a 'LL it'S 1'S", "the The theme the.", "1234567 12 123 1234 x1234567y", "camelCaseWordHTTPServer", "abababab baba aabb abba" * 3,
          "<new> the <new>the", "ﬁx… ①②\u0308 e\u0301\u0323 a\u00a0b\u200bc \x01d İ", "\u0903\u0301 a\u0903 \u20dd1\u20dd", "१२३ ⅷ½² x² _\u200d- \u200c", "a\rb\x0bc\x0cd\x85e\u2028f \n\n \r\n"]
with open("texts.jsonl", "w") as f:
    for t in texts:
        f.write(json.dumps(t) + "\n")

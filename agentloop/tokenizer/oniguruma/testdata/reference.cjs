// Writes published.jsonl and random.jsonl: patterns, texts, and where the library that
// defines the format cuts the texts.
//
//   npm install --prefix DIR tokenizers@0.23.2 && NODE_PATH=DIR/node_modules node reference.cjs
const { Tokenizer } = require("tokenizers");
const fs = require("fs");

const contraction = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)`;
const upper = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, lower = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
const before = String.raw`[^\r\n\p{L}\p{N}]?`;
const space = String.raw`\s*[\r\n]+|\s+(?!\S)|\s+`;
const other = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|` + space, otherSlash = String.raw` ?[^\s\p{L}\p{N}]+[\r\n/]*|` + space;
const noHan = (c) => c.replace(/\]$/, String.raw`&&[^\p{Han}]]`);
// The patterns of published tokenizers.
const published = {
  gpt2: String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`,
  llama3: `${contraction}|${before}\\p{L}+|\\p{N}{1,3}|${other}`,
  qwen2: `${contraction}|${before}\\p{L}+|\\p{N}|${other}`,
  qwen35: String.raw`${contraction}|${before}[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|${space}`,
  o200k: `${before}${upper}*${lower}+${contraction}?|${before}${upper}+${lower}*${contraction}?|\\p{N}{1,3}|${otherSlash}`,
  tekken: `${before}${upper}*${lower}+|${before}${upper}+${lower}*|\\p{N}|${otherSlash}`,
  cl100k: String.raw`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`,
  deepseek_v3: "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
  deepseek_han: "[一-龥\u3040-ゟ゠-ヿ]+",
  deepseek_spaces: String.raw`\s+$`,
  bailing: String.raw`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
  bloom: " ?[^(\\s|[.,!?…。，、।۔،])]+",
  poro: " ?[^(\\s|.,!?…。，、।۔،)]+",
  superbpe: String.raw`(?=(\d{3})+(?!\d))`,
  tiny_aya: String.raw`\d{1,3}(?=(?:\d{3})*\b)`,
  digits_from_the_right: String.raw`(?<!\d)\d{1,2}(?=(?:\d{3})+(?!\d))|\d{3}|\d+`,
  kimi_k2: `[\\p{Han}]+|${before}${noHan(upper)}*${noHan(lower)}+${contraction}?|${before}${noHan(upper)}+${noHan(lower)}*${contraction}?|\\p{N}{1,3}|${other}`,
  chameleon: "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z|([\\t\\n]|    |  )|<sentinel:[0-9]+>",
  exaone: String.raw`${contraction}|${before}(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`,
  jais2: `${contraction}|${before}\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}`,
  granite: String.raw`${before}((?=[\p{L}\p{M}])([^a-z]))*((?=[\p{L}\p{M}])([^A-Z]))+(?:'[sS]|'[tT])?|\p{N}{1,3}|${otherSlash}`,
  youtu: "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+",
  laguna: "[^\\n]+|[\\n]+",
  words: String.raw`\w+|[^\w\s]+`,
  classes: String.raw`[\w]+|[[:punct:]]+`,
};

let seed = 7;
function random() {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const many = (n, one) => Array.from({ length: n }, one).join("");

const words = ("it's I'LL they'VE O'\u017f DON'T 123 1234567 3.14 foo_bar camelCase HTTPServer naïve Straße \u212a 你好，世界。 こんにちは 한국어 مرحبا हिन्दी ภาษาไทย Ελληνικά ǅ İ e\u0301 1\u0301 " +
  "\u{1f600} ½² Ⅷ ١٢٣ ... --- !!! // {\"a\":[1,2]} #x =y IMGIMGABZ <sentinel:12> \u1c89\u1c8a \ua7cb \u0897a \u{10d4a} \u{16ea0} \u200d \u200b \u0000").split(" ");
const gaps = [" ", " ", "", "  ", "\n", "\r\n", "\n\n", "\t", " \n", "     ", "\u00a0", "\u3000", "\u2028", "\u0085"];
const text = () => many(1 + below(7), () => pick(words) + pick(gaps));

const chars = ["a", "b", "c", "A", "B", "s", "1", "2", " ", "\\n", "é", "你", "'", "\u017f", "k"];
const sets = String.raw`\w \s \d \S \W \D \h \p{L} \p{N} \p{Lu} \p{Ll} \p{M} \P{L} \p{^N} [a-c] [^a-c] [\s\p{L}] [^\s\p{L}\p{N}] [\w&&[^b]] [a-z&&[^bc]] [^a-z&&[^x]] [[:alpha:]] [[:^alpha:]1] \p{Han} [\r\n] . [-a] [a-] []a] [\]\-b] [a[bc]1] \R \N \O`.split(" ");
const quantifiers = "* + ? *? +? ?? *+ ++ ?+ {2} {1,2} {0,2} {2,} {,2} {1,2}? {2,}? {1,2}+ {x".split(" ");
function atom(depth) {
  const r = random();
  if (r < 0.35 || depth === 0) return pick(chars);
  if (r < 0.7) return pick(sets);
  const inner = alternatives(depth - 1);
  return pick(["(?:", "(?:", "(", "(?>", "(?=", "(?!", "(?<=", "(?<!", "(?i:", "(?m:", "(?<n>"]) + inner + ")";
}
function sequence(depth) {
  return many(1 + below(3), () => {
    if (random() < 0.04) return pick(["^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z"]);
    const a = atom(depth);
    return /^\(\?(=|!|<=|<!)/.test(a) || random() < 0.55 ? a : a + pick(quantifiers);
  });
}
const alternatives = (depth) => Array.from({ length: random() < 0.6 ? 1 : 1 + below(4) }, () => sequence(depth)).join("|");
const shortText = () => many(1 + below(13), () => pick([..."abcABsS129 \n\ré你'k-]_x", "\u017f", "\u212a", "\u0301", "\u00a0", "{"]));

function splitter(pattern, behavior) {
  const file = {
    version: "1.0", truncation: null, padding: null, added_tokens: [], normalizer: null, post_processor: null, decoder: null,
    model: { type: "WordLevel", unk_token: "u", vocab: { u: 0 } },
    pre_tokenizer: { type: "Split", pattern: { Regex: pattern }, behavior, invert: false },
  };
  return Tokenizer.fromString(JSON.stringify(file)).getPreTokenizer();
}
// The lengths in bytes of the parts of a text; those that no match covers are negative.
function parts(pattern, texts) {
  const all = splitter(pattern, "Isolated"), rest = splitter(pattern, "Removed");
  return texts.map((t) => {
    const unmatched = new Set(rest.preTokenizeString(t).map(([, range]) => String(range)));
    return all.preTokenizeString(t).map(([part, range]) => Buffer.byteLength(part) * (unmatched.has(String(range)) ? -1 : 1));
  });
}
const line = (pattern, texts) => JSON.stringify({ pattern, texts, parts: parts(pattern, texts) });
const lines = Object.values(published).map((pattern) => line(pattern, Array.from({ length: 12 }, text)));
fs.writeFileSync("published.jsonl", lines.join("\n") + "\n");
const found = [];
while (found.length < 400) {
  const pattern = (random() < 0.05 ? "(?i)" : "") + alternatives(2);
  const texts = Array.from({ length: 4 }, shortText);
  try {
    if (pattern.length < 80) found.push(line(pattern, texts));
  } catch {
    // The library refuses the pattern.
  }
}
fs.writeFileSync("random.jsonl", found.join("\n") + "\n");

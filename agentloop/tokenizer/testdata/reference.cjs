// Writes NAME.golden.jsonl for every NAME.json here with the library that defines the
// format (npm package tokenizers): one line per text of texts.jsonl. See make_tokenizers.py.
const { Tokenizer } = require("tokenizers");
const fs = require("fs");
const texts = fs.readFileSync("texts.jsonl", "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l));
(async () => {
  for (const file of fs.readdirSync(".").filter((f) => f.endsWith(".json"))) {
    const tokenizer = Tokenizer.fromFile(file);
    const lines = [];
    for (const text of texts) {
      const ids = (await tokenizer.encode(text, null, { addSpecialTokens: true })).getIds();
      const plain = (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
      const decoded = ids.length ? await tokenizer.decode(ids, false) : "";
      const skipped = ids.length ? await tokenizer.decode(ids, true) : "";
      lines.push(JSON.stringify({ ids, plain: plain.length, decoded, skipped }));
    }
    fs.writeFileSync(file.replace(".json", ".golden.jsonl"), lines.join("\n") + "\n");
  }
})();

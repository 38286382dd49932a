// Prints how many megabytes of text the library that defines the format encodes per second
// of processor time; BenchmarkEncode reports the same figure as MB/cpu-s.
//
//   npm install --prefix DIR tokenizers@0.23.2 && NODE_PATH=DIR/node_modules node speed.cjs TOKENIZER.json TEXT…
const { Tokenizer } = require("tokenizers");
const fs = require("fs");
const text = process.argv.slice(3).map((file) => fs.readFileSync(file, "utf8")).join("");
(async () => {
  const tokenizer = Tokenizer.fromFile(process.argv[2]);
  const encode = async () => (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
  await encode();
  const start = process.cpuUsage();
  let rounds = 0, used = 0;
  while (used < 3e6) {
    await encode();
    rounds++;
    const { user, system } = process.cpuUsage(start);
    used = user + system;
  }
  console.log(((rounds * Buffer.byteLength(text)) / used).toFixed(2), "MB/cpu-s");
})();

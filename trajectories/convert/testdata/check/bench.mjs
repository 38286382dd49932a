// Measures conversions of a large file against DuckDB, in one run:
//   HERMES_ENV_NODE_MODULES=… node bench.mjs BINARY FOLDER [MEGABYTES] [ROUNDS]
// Writes rollouts.jsonl of the given size into FOLDER, converts it to JSON Lines and
// Parquet, and lets DuckDB turn the same JSON Lines into Parquet. With ROUNDS only JSON Lines
// to Parquet is measured, by both in turn; the least processor time of each counts, because
// other work on the machine can only add to it.
import { createWriteStream, existsSync, mkdirSync, rmSync, statSync, readdirSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { once } from 'node:events';
import { join } from 'node:path';

const require = createRequire(process.env.HERMES_ENV_NODE_MODULES + '/of/the/bench.js');
const [binary, folder, megabytes = '1000', rounds = '0'] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });

// Words from a small generator, so that texts compress about as prose does.
let seed = 1;
function random() {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const words = Array.from({ length: 4000 }, () => Array.from({ length: 2 + Math.floor(random() * 9) }, () => String.fromCharCode(97 + Math.floor(random() * 26))).join(''));
const prose = (n) => Array.from({ length: n }, () => words[Math.floor(random() * random() * words.length)]).join(' ');

function rollout(i) {
  const messages = [{ role: 'user', content: prose(80) }];
  for (let turn = 0; turn < 12; turn++) {
    const id = `call_${i}_${turn}`;
    messages.push({ role: 'assistant', content: turn % 3 ? null : prose(20), reasoning_content: prose(60), tool_calls: [{ id, type: 'function', function: { name: 'terminal', arguments: JSON.stringify({ command: prose(15) }) } }] });
    messages.push({ role: 'tool', tool_call_id: id, content: JSON.stringify({ output: prose(150), exit_code: 0 }) });
  }
  messages.push({ role: 'assistant', content: prose(40) });
  return JSON.stringify({
    rollout_id: `r${i}`, item_id: `item-${i >> 2}`, item_digest: 'sha256:1', step: 0, group: i >> 2, attempt: i & 3, outcome: 'scored', score: (i % 5) / 4, passed: i % 5 > 2,
    stop_reason: 'natural', error: null, model: 'org/model', turns_used: 13, finished_naturally: true, tools: ['terminal'], toolsets: ['terminal'], tool_errors: [],
    usage: { prompt_tokens: 9000, completion_tokens: 1500, total_tokens: 10500, cached_tokens: 0, reasoning_tokens: 0 }, timings: { total_seconds: 30.5, turns: [] },
    sandbox: null, retries: 0, started_at: '2026-03-30T14:22:31.456Z', finished_at: '2026-03-30T14:23:31.456Z', metadata: { task_name: `t${i >> 2}` }, messages,
  });
}

const source = join(folder, 'rollouts.jsonl');
if (!existsSync(source)) {
  const out = createWriteStream(source);
  let size = 0;
  for (let i = 0; size < Number(megabytes) * 1e6; i++) {
    const line = rollout(i) + '\n';
    size += Buffer.byteLength(line);
    if (!out.write(line)) await once(out, 'drain');
  }
  out.end();
  await once(out, 'finish');
}

const sizeOf = (path) => (statSync(path).isDirectory() ? readdirSync(path).reduce((n, name) => n + sizeOf(join(path, name)), 0) : statSync(path).size);
// The time of the processors counts: the clock on the wall also counts what else the machine does.
const report = (name, seconds, cpu, rss, path) =>
  console.log(`${name}\t${seconds.toFixed(1)} s, ${cpu.toFixed(1)} s of processors\t${(statSync(source).size / 1e6 / cpu).toFixed(0)} MB/s and processor\tpeak ${rss}\t${(sizeOf(path) / 1e6).toFixed(0)} MB`);

function convert(input, to, out) {
  rmSync(out, { recursive: true, force: true });
  const start = process.hrtime.bigint();
  const run = spawnSync('/usr/bin/time', ['-f', '%U %S %M', binary, 'convert', input, '--to', to, '-o', out, '--shard-size', '0'], { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(run.stderr);
  const [user, system, kib] = run.stderr.trim().split('\n').pop().split(' ').map(Number);
  report(`hermes-env ${input === source ? '' : 'rows '}${to}`, Number(process.hrtime.bigint() - start) / 1e9, user + system, `${(kib / 1024).toFixed(0)} MiB`, out);
  return user + system;
}

console.log(`${source}: ${(statSync(source).size / 1e6).toFixed(0)} MB`);
convert(source, 'messages', join(folder, 'messages'));
if (rounds === '0') {
  convert(source, 'parquet', join(folder, 'parquet'));
  convert(source, 'sharegpt', join(folder, 'sharegpt'));
}
const rows = join(folder, 'messages', 'data', 'train-00000-of-00001.jsonl');

const { DuckDBInstance } = require('@duckdb/node-api');
const duck = await (await DuckDBInstance.create(':memory:')).connect();
const target = join(folder, 'duckdb.parquet');
let ours = Infinity, theirs = Infinity;
for (let round = 0; round < Math.max(1, Number(rounds)); round++) {
  ours = Math.min(ours, convert(rows, 'parquet', join(folder, 'again')));
  const start = process.hrtime.bigint(), before = process.cpuUsage();
  await duck.run(`copy (select * from read_json('${rows}', timestampformat='%Y|%d', maximum_object_size=268435456)) to '${target}' (format parquet, compression zstd)`);
  const { user, system } = process.cpuUsage(before), cpu = (user + system) / 1e6;
  report('DuckDB, the same rows from JSON', Number(process.hrtime.bigint() - start) / 1e9, cpu, `${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MiB`, target);
  theirs = Math.min(theirs, cpu);
}
console.log(`JSON Lines to Parquet: ${ours.toFixed(2)} s against ${theirs.toFixed(2)} s of processors, ${(ours / theirs).toFixed(2)} times`);

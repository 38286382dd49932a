// Makes the Parquet files of this folder with DuckDB:
//   HERMES_ENV_NODE_MODULES=… node make.mjs
// Conversations as other programs store them, in encodings that a reader may get wrong:
// differences of integers that need more than 32 bits (version 2 of the format), blocks
// of LZ4, moments, maps and decimals as columns beside the messages.
import { createRequire } from 'node:module';

const require = createRequire(process.env.HERMES_ENV_NODE_MODULES + '/of/the/make.js');
const { DuckDBInstance } = require('@duckdb/node-api');
const duck = await (await DuckDBInstance.create(':memory:')).connect();
await duck.run(`create table rows as select
  'row ' || i as id,
  [{'role': 'user', 'content': 'Question ' || i || repeat(' more', 20)}, {'role': 'assistant', 'content': 'Answer ' || i}] as messages,
  (case when i % 3 = 0 then -2147483648 when i % 3 = 1 then 2147483647 else i end)::integer as seed,
  timestamp '2026-03-30 14:22:31.456' + to_seconds(i) as asked,
  map {'level': 'l' || i % 5} as labels,
  (i / 8)::decimal(9, 3) as price,
  case when i = 7 then 'NaN'::double else i / 4 end as score
  from range(500) t(i)`);
for (const [name, options] of Object.entries({
  'duckdb-v2-zstd': "parquet_version v2, compression zstd",
  'duckdb-v2-lz4': "parquet_version v2, compression lz4_raw",
  'duckdb-v1-brotli': "parquet_version v1, compression brotli",
})) await duck.run(`copy rows to '${new URL(name + '.parquet', import.meta.url).pathname}' (format parquet, ${options}, row_group_size 200)`);

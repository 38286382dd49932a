// Makes the Parquet files of this folder that DuckDB, arrow-rs (parquet-wasm) and hyparquet-writer write.
// npm i @duckdb/node-api parquet-wasm apache-arrow hyparquet-writer; node make.mjs FOLDER
import { DuckDBInstance } from '@duckdb/node-api'
import { writeFileSync } from 'node:fs'

const out = process.argv[2]
const db = await (await DuckDBInstance.create(':memory:')).connect()
const run = sql => db.run(sql)
const copy = (sql, name, options = '') => run(`COPY (${sql}) TO '${out}/${name}.parquet' (FORMAT parquet${options})`)

await run(`SET TimeZone='UTC'`)
await run(`CREATE TYPE mood AS ENUM ('calm', 'cross')`)
const types = `
  SELECT * FROM (VALUES
   (1, true, 127::TINYINT, 32767::SMALLINT, 2147483647::INTEGER, 9223372036854775807::BIGINT,
    255::UTINYINT, 65535::USMALLINT, 4294967295::UINTEGER, 18446744073709551615::UBIGINT,
    1.5::FLOAT, 0.1::DOUBLE, 123.4::DECIMAL(4,1), -5.120::DECIMAL(18,3), 1234567890123456789012345678.0123456789::DECIMAL(38,10),
    'plain "quoted" \\ / ' || chr(9) || chr(10) || chr(1) || ' é 漢字 😀', 'text'::BLOB, DATE '2024-02-29', TIME '12:34:56.789',
    TIMESTAMP '2024-02-29 12:34:56.789', TIMESTAMP_S '2024-02-29 12:34:56', TIMESTAMP_MS '2024-02-29 12:34:56.7',
    TIMESTAMP_NS '2024-02-29 12:34:56.123456789', TIMESTAMPTZ '2024-02-29 12:34:56+02', INTERVAL '14 months 3 days 1.5 seconds',
    UUID '00112233-4455-6677-8899-aabbccddeeff', 'calm'::mood, '{"b": 1, "a": [1.0]}'::JSON),
   (2, false, -128, -32768, -2147483648, -9223372036854775808,
    0, 0, 0, 0,
    'nan', '-inf', -0.1, 0.001, -0.0000000001,
    '', '\\xFF\\x00\\x01'::BLOB, DATE '0001-01-01', TIME '00:00:00',
    TIMESTAMP '1969-12-31 23:59:59.999999', TIMESTAMP_S '1969-12-31 23:59:59', TIMESTAMP_MS '1677-09-22 00:00:00.001',
    TIMESTAMP_NS '1677-09-22 00:00:00', TIMESTAMPTZ '9999-12-31 23:59:59Z', INTERVAL '0 seconds',
    UUID 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'cross', 'null'),
   (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL),
   (4, true, 0, 0, 0, 0, 1, 1, 1, 1, 3.4028235e38, 1e16, 0.0, 1, 1, ' ', ''::BLOB, DATE '2000-01-01', TIME '23:59:59.999999',
    TIMESTAMP '2000-01-01', TIMESTAMP_S '2000-01-01 00:00:00', TIMESTAMP_MS '2000-01-01 00:00:00', TIMESTAMP_NS '2000-01-01 00:00:00',
    TIMESTAMPTZ '2000-01-01 00:00:00Z', INTERVAL '1 millisecond', UUID '00000000-0000-0000-0000-000000000000', 'calm', '[]')
  ) t("row", zbool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, d4, d18, d38, "text", "bytes", "date", "time", ts, ts_s, ts_ms,
      ts_ns, tstz, "interval", "uuid", "enum", "json")`
await copy(types, 'duckdb-types')
await copy(types, 'duckdb-types-v2', ', PARQUET_VERSION V2, COMPRESSION zstd')

const nested = `
  SELECT * FROM (VALUES
   (1, ['a', NULL, 'b'], [[1, 2], [], NULL, [NULL, 3]], {'x': 1, 'y': {'z': 'deep', 'l': [1.5, NULL]}},
    [{'role': 'user', 'content': 'hi', 'tags': ['t1', 't2']}, {'role': 'assistant', 'content': NULL, 'tags': []}, NULL],
    MAP {'b': 1, 'a': 2}, MAP {1: 'one', 2: NULL}, MAP {'k': [{'v': 1}]}, [[[['x']]]]),
   (2, [], [], {'x': NULL, 'y': NULL}, [], MAP {}, MAP {}, MAP {}, []),
   (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
   (4, [NULL], [[]], {'x': 4, 'y': {'z': NULL, 'l': NULL}}, [{'role': 's', 'content': '', 'tags': NULL}],
    MAP {'': NULL}, MAP {-1: ''}, MAP {'k': NULL, 'j': []}, [NULL, [NULL, [NULL, [NULL]]]])
  ) t("row", strings, matrix, struct, messages, counts, numbered, nested_map, "deep")`
await copy(nested, 'duckdb-nested')
await copy(nested, 'duckdb-nested-v2', ', PARQUET_VERSION V2, COMPRESSION gzip')

// One table, every compression; low cardinality gives dictionaries, two row groups.
const plain = `SELECT i::INTEGER AS id, 'category ' || (i % 5) AS category, ((i % 8) * 0.25)::DOUBLE AS score, CASE WHEN i % 7 = 0 THEN NULL ELSE repeat('x', i % 11) END AS "text"
  FROM range(2100) t(i)`
for (const c of ['uncompressed', 'snappy', 'gzip', 'zstd', 'lz4_raw', 'brotli'])
  await copy(plain, `duckdb-${c}`, `, COMPRESSION ${c}, ROW_GROUP_SIZE 2048`)

// arrow-rs
const { tableFromIPC, tableToIPC, vectorFromArray, Table, makeVector, Dictionary, Utf8, Int32, Int64, Float16, Float32, List, Field, Struct, Map_, Bool, Binary,
  DateDay, TimestampMicrosecond, TimestampNanosecond, Decimal, Null, Uint64, LargeUtf8, FixedSizeList, Float64, TimeMillisecond } = await import('apache-arrow')
const wasm = await import('parquet-wasm/node')
const columns = {
  z_first: vectorFromArray([1, null, 3], new Int32()),
  word: vectorFromArray(['one', 'two', 'one'], new Dictionary(new Utf8(), new Int32())),
  half: vectorFromArray([1.5, 65504, null], new Float16()),
  single: vectorFromArray([0.1, -0, 16777216], new Float32()),
  list: vectorFromArray([['a', null], [], null], new List(new Field('item', new Utf8(), true))),
  pair: vectorFromArray([[1.5, 2], [3, 4], null], new FixedSizeList(2, new Field('item', new Float64(), true))),
  struct: vectorFromArray([{ a: 1, b: ['x'] }, { a: null, b: null }, null], new Struct([new Field('a', new Int32(), true), new Field('b', new List(new Field('item', new Utf8(), true)), true)])),
  bytes: vectorFromArray([new Uint8Array([0xff, 0xd8]), new Uint8Array([104, 105]), null], new Binary()),
  day: vectorFromArray([new Date('2024-02-29'), null, new Date('1970-01-01')], new DateDay()),
  at: vectorFromArray([1709210096789, 0, null], new TimestampMicrosecond('UTC')),
  local: vectorFromArray([1709210096789, 0, null], new TimestampMicrosecond()),
  nothing: vectorFromArray([null, null, null], new Null()),
  flag: vectorFromArray([true, false, null], new Bool()),
  big: vectorFromArray([18446744073709551615n, 0n, null], new Uint64()),
}
const table = new Table(columns)
for (const [name, codec, version] of [['arrow-rs', wasm.Compression.SNAPPY, wasm.WriterVersion.V1], ['arrow-rs-v2', wasm.Compression.ZSTD, wasm.WriterVersion.V2]]) {
  const props = new wasm.WriterPropertiesBuilder().setCompression(codec).setWriterVersion(version).build()
  writeFileSync(`${out}/${name}.parquet`, wasm.writeParquet(wasm.Table.fromIPCStream(tableToIPC(table, 'stream')), props))
}

// hyparquet-writer
const { parquetWriteBuffer } = await import('hyparquet-writer')
writeFileSync(`${out}/hyparquet.parquet`, Buffer.from(parquetWriteBuffer({ columnData: [
  { name: 'name', data: ['Ann', 'Bob', null], type: 'STRING' },
  { name: 'age', data: [1, 2, null], type: 'INT32' },
  { name: 'at', data: [new Date(0), new Date(1709210096789), null], type: 'TIMESTAMP' },
  { name: 'doc', data: [{ b: 1, a: [true] }, [], null], type: 'JSON' },
  { name: 'score', data: [0.5, -0.25, null], type: 'DOUBLE' },
] })))


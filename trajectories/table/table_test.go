package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/hermes-env/hermes-env/trajectories/parquetrows"
)

var update = flag.Bool("update", false, "write the golden files anew")

func exampleSchema() Schema {
	call := StructOf(Field{Name: "id", Type: Of(String)}, Field{Name: "function", Type: StructOf(Field{Name: "name", Type: Of(String), Repeats: true}, Field{Name: "arguments", Type: Of(String)})})
	message := StructOf(Field{Name: "role", Type: Of(String), Repeats: true}, Field{Name: "content", Type: Of(String)}, Field{Name: "tool_calls", Type: ListOf(call)})
	return Schema{
		{Name: "messages", Type: ListOf(message)},
		{Name: "id", Type: Of(String)},
		{Name: "score", Type: Of(Float64)},
		{Name: "passed", Type: Of(Bool)},
		{Name: "count", Type: Of(Int64)},
		{Name: "tokens", Type: ListOf(Of(Int32))},
		{Name: "logprobs", Type: ListOf(Of(Float32))},
		{Name: "nested", Type: ListOf(ListOf(Of(String)))},
		{Name: "stats", Type: StructOf(Field{Name: "zebra", Type: Of(Int64)}, Field{Name: "ant", Type: Of(Int64)})},
	}
}

func exampleRows() []Row {
	call := Values(Text("call_1"), Values(Text("terminal"), Text(`{"command":"ls"}`)))
	return []Row{
		{Value{}, Text("bare"), Value{}, Value{}, Value{}, Value{}, Value{}, Value{}, Value{}},
		{Values(), Text(""), Float(1), Boolean(false), Int(-3), Integers(nil), Numbers([]float64{}), Values(), Values(Int(1), Value{})},
		{
			Values(
				Values(Text("user"), Text("hi \u65e5\u672c \" \n"), Value{}),
				Values(Text("assistant"), Value{}, Values(call, call)),
				Values(Text("assistant"), Text("done"), Values()),
				Value{},
			),
			Text("full"), Float(0.25), Boolean(true), Int(math.MaxInt64), Integers([]int64{1, 2, 128_000}), Numbers([]float64{-0.5, 0.1}),
			Values(Values(Text("a"), Value{}), Values(), Value{}, Values(Text("b"))), Values(Int(1), Int(2)),
		},
	}
}

func write(t *testing.T, schema Schema, rows []Row) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewParquetWriter(&out, schema, "test")
	require.NoError(t, err)
	for _, row := range rows {
		require.NoError(t, w.Write(row))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func read(t *testing.T, file []byte) []string {
	t.Helper()
	var lines []string
	rows, err := parquetrows.Open(t.Context(), bytes.NewReader(file), int64(len(file)), parquetrows.Config{})
	require.NoError(t, err)
	defer rows.Close()
	for {
		line, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
}

// requireSame compares JSON by its values: texts may be escaped and numbers with a
// fraction written in several ways, integers in one.
func requireSame(t require.TestingT, want, got string) {
	a, b := gjson.Parse(want), gjson.Parse(got)
	require.Equal(t, a.Type, b.Type, "%s\n%s", want, got)
	switch {
	case a.Type == gjson.Number:
		require.Equal(t, strings.ContainsAny(a.Raw, ".eE"), strings.ContainsAny(b.Raw, ".eE"), "%s\n%s", want, got)
		if strings.ContainsAny(a.Raw, ".eE") {
			require.Equal(t, math.Float64bits(a.Num), math.Float64bits(b.Num), "%s\n%s", want, got)
		} else {
			require.Equal(t, a.Raw, b.Raw)
		}
	case a.Type != gjson.JSON:
		require.Equal(t, a.String(), b.String())
	default:
		var keys, others []string
		var values, otherValues []gjson.Result
		a.ForEach(func(key, value gjson.Result) bool {
			keys, values = append(keys, key.String()), append(values, value)
			return true
		})
		b.ForEach(func(key, value gjson.Result) bool {
			others, otherValues = append(others, key.String()), append(otherValues, value)
			return true
		})
		require.Equal(t, a.IsObject(), b.IsObject(), "%s\n%s", want, got)
		require.Equal(t, len(values), len(otherValues), "%s\n%s", want, got)
		for i := range values {
			if a.IsObject() {
				require.Equal(t, keys[i], others[i])
			}
			requireSame(t, values[i].Raw, otherValues[i].Raw)
		}
	}
}

func TestParquetGivesBackTheRowsThatJSONHas(t *testing.T) {
	schema, rows := exampleSchema(), exampleRows()
	lines := read(t, write(t, schema, rows))
	require.Len(t, lines, len(rows))
	for i, row := range rows {
		requireSame(t, string(schema.AppendJSON(nil, row)), lines[i])
	}
}

func TestParquetKeepsManyRowsAcrossRowGroupsAndBatches(t *testing.T) {
	schema := Schema{{Name: "text", Type: Of(String)}, {Name: "list", Type: ListOf(Of(Int64))}}
	var rows []Row
	for i := range rowGroupRows + 7 {
		rows = append(rows, Row{Text(string(bytes.Repeat([]byte{'a' + byte(i%26)}, i%40))), Integers(make([]int64, i%3))})
	}
	lines := read(t, write(t, schema, rows))
	require.Len(t, lines, len(rows))
	for i, row := range rows {
		requireSame(t, string(schema.AppendJSON(nil, row)), lines[i])
	}
}

func TestWhateverIsWrittenIsReadBackFromParquet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := Schema(drawFields(t, 3))
		var rows []Row
		for range rapid.IntRange(0, 6).Draw(t, "rows") {
			row := make(Row, len(schema))
			for i := range schema {
				row[i] = drawValue(t, schema[i].Type)
			}
			rows = append(rows, row)
		}
		var out bytes.Buffer
		w, err := NewParquetWriter(&out, schema, "test")
		require.NoError(t, err)
		for _, row := range rows {
			require.NoError(t, w.Write(row))
		}
		require.NoError(t, w.Close())
		reader, err := parquetrows.Open(context.Background(), bytes.NewReader(out.Bytes()), int64(out.Len()), parquetrows.Config{})
		require.NoError(t, err)
		defer reader.Close()
		for _, row := range rows {
			line, err := reader.Next()
			require.NoError(t, err)
			require.True(t, json.Valid(line))
			requireSame(t, string(schema.AppendJSON(nil, row)), string(line))
		}
		_, err = reader.Next()
		require.ErrorIs(t, err, io.EOF)
	})
}

func drawFields(t *rapid.T, depth int) []Field {
	var fields []Field
	for i := range rapid.IntRange(1, 4).Draw(t, "fields") {
		// Out of alphabetical order.
		fields = append(fields, Field{Name: string(rune('z' - i)), Type: drawType(t, depth), Repeats: rapid.Bool().Draw(t, "repeats")})
	}
	return fields
}

func drawType(t *rapid.T, depth int) Type {
	highest := int(Struct)
	if depth == 0 {
		highest = int(Float32)
	}
	switch k := Kind(rapid.IntRange(0, highest).Draw(t, "kind")); k {
	case List:
		return ListOf(drawType(t, depth-1))
	case Struct:
		return StructOf(drawFields(t, depth-1)...)
	default:
		return Of(k)
	}
}

func drawValue(t *rapid.T, typ Type) Value {
	if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		return Value{}
	}
	switch typ.Kind {
	case String:
		return Text(rapid.String().Draw(t, "text"))
	case Bool:
		return Boolean(rapid.Bool().Draw(t, "bool"))
	case Int64:
		return Int(rapid.Int64().Draw(t, "int"))
	case Int32:
		return Int(int64(rapid.Int32().Draw(t, "int")))
	case Float64:
		return Float(rapid.Float64().Draw(t, "float"))
	case Float32:
		return Float(rapid.SampledFrom([]float64{0, 1, -0.5, 0.1, 1e-7, 123456.75}).Draw(t, "float"))
	case Struct:
		v := Values()
		for _, f := range typ.Fields {
			v.List = append(v.List, drawValue(t, f.Type))
		}
		return v
	}
	v := Values()
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		v.List = append(v.List, drawValue(t, *typ.Elem))
	}
	return v
}

func TestSchemasThatCanNotBeWrittenAreRefused(t *testing.T) {
	for name, schema := range map[string]Schema{
		"no columns":              {},
		"an empty name":           {{Type: Of(String)}},
		"a name given twice":      {{Name: "a", Type: Of(String)}, {Name: "a", Type: Of(Bool)}},
		"a struct without fields": {{Name: "a", Type: StructOf()}},
		"a list of nothing":       {{Name: "a", Type: Type{Kind: List}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewParquetWriter(&bytes.Buffer{}, schema, "test")
			require.Error(t, err)
			_, err = NewShards(Target{Schema: schema, Encoding: Parquet})
			require.Error(t, err)
		})
	}
}

func TestShardsAreNumberedAndHoldAllRowsInOrder(t *testing.T) {
	for _, encoding := range []Encoding{JSONLines, Parquet} {
		t.Run(string(encoding), func(t *testing.T) {
			dir := t.TempDir()
			schema := Schema{{Name: "text", Type: Of(String)}}
			s, err := NewShards(Target{Dir: dir, Name: "train", Encoding: encoding, Schema: schema, ShardBytes: 2000, CreatedBy: "test"})
			require.NoError(t, err)
			for i := range 100 {
				require.NoError(t, s.Write(Row{Text(string(bytes.Repeat([]byte{byte('a' + i%26)}, 100)))}))
			}
			split, err := s.Close()
			require.NoError(t, err)
			require.EqualValues(t, 100, split.Rows)
			require.Greater(t, len(split.Files), 1)
			var rows int64
			for _, f := range split.Files {
				rows += f.Rows
				info, err := os.Stat(filepath.Join(dir, f.Name))
				require.NoError(t, err)
				require.Equal(t, info.Size(), f.Size)
			}
			require.EqualValues(t, 100, rows)
			left, err := filepath.Glob(filepath.Join(dir, "*.part"))
			require.NoError(t, err)
			require.Empty(t, left)
			require.Contains(t, split.Files[0].Name, "train-00000-of-000")
		})
	}
}

func TestSplitWithoutRowsIsAFileThatCanBeRead(t *testing.T) {
	dir := t.TempDir()
	s, err := NewShards(Target{Dir: dir, Name: "train", Encoding: Parquet, Schema: exampleSchema(), CreatedBy: "test"})
	require.NoError(t, err)
	split, err := s.Close()
	require.NoError(t, err)
	require.Equal(t, "train-00000-of-00001.parquet", split.Files[0].Name)
	require.NoError(t, parquetrows.Each(t.Context(), filepath.Join(dir, split.Files[0].Name), parquetrows.Config{}, func(parquetrows.Row) error {
		t.Fatal("there are no rows")
		return nil
	}))
}

func TestCard(t *testing.T) {
	for name, encoding := range map[string]Encoding{"card_parquet.md": Parquet, "card_jsonl.md": JSONLines} {
		t.Run(name, func(t *testing.T) {
			card := Card{
				Schema: exampleSchema(), Encoding: encoding, Title: "Example", Body: "What it is.", Tags: []string{"agent", "a: b", "no"},
				Splits: []Split{{Name: "train", Paths: "data/train-*", Rows: 1234, Bytes: 99, Files: []File{{Size: 11}, {Size: 22}}}},
			}
			golden := filepath.Join("testdata", name)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(card.Text()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), card.Text())
		})
	}
}

func TestRowsThatShowATypeComeFirstInJSONLines(t *testing.T) {
	dir := t.TempDir()
	schema := Schema{{Name: "id", Type: Of(Int64)}, {Name: "text", Type: Of(String)}, {Name: "score", Type: Of(Float64)}, {Name: "list", Type: ListOf(Of(String))}}
	s, err := NewShards(Target{Dir: dir, Name: "train", Encoding: JSONLines, Schema: schema})
	require.NoError(t, err)
	filler := Text(string(bytes.Repeat([]byte{'x'}, 1000)))
	for i := range 400 {
		row := Row{Int(int64(i)), filler, Value{}, Values()}
		switch {
		case i == 300, i == 310:
			row[2] = Float(1)
		case i == 399:
			row[3] = Values(Text("a"))
		}
		require.NoError(t, s.Write(row))
	}
	split, err := s.Close()
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(dir, split.Files[0].Name))
	require.NoError(t, err)
	require.EqualValues(t, split.Files[0].Size, len(content))
	var order []int
	for _, line := range bytes.Split(bytes.TrimSpace(content), []byte{'\n'}) {
		var row struct{ ID int }
		require.NoError(t, json.Unmarshal(line, &row))
		order = append(order, row.ID)
	}
	require.Equal(t, []int{0, 300, 399, 1, 2}, order[:5])
	require.Len(t, order, 400)
	require.Equal(t, []int{299, 301, 302}, order[301:304])
}

package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories/table"
)

// metadataRows writes ShareGPT rows with the given metadata.environment.
func metadataRows(t *testing.T, environments ...string) string {
	t.Helper()
	var b strings.Builder
	for i, e := range environments {
		fmt.Fprintf(&b, `{"rollout_id":"r%d","tampered":false,"item_id":"i%d","prompt_index":%d,"conversations":[{"from":"human","value":"q%d"},{"from":"gpt","value":"a"}],`+
			`"timestamp":"2026-03-30T14:22:31.456000","model":"m","completed":true,"partial":false,"api_calls":1,"toolsets_used":[],"outcome":"scored","score":1.0,`+
			`"metadata":{"batch_num":0,"timestamp":"2026-03-30T14:22:31.456000","model":"m","step":0,"attempt":0,"item_digest":"","stop_reason":"","tampering":"[]","environment":%s}}`+"\n", i, i, i, i, e)
	}
	path := filepath.Join(t.TempDir(), "trajectories.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

func TestShareGPT_CarriesMetadataAsValuesOfOneType(t *testing.T) {
	in := metadataRows(t,
		`{"level":3,"hard":true,"source":{"name":"x","n":1},"tags":["a"],"answer":5,"mean":1,"verifier":{"exit_code":0}}`,
		`"{\"level\":4,\"hard\":false,\"source\":{\"name\":\"y\"},\"tags\":[],\"answer\":\"five\",\"mean\":0.5}"`,
		`{"level":null,"extra":"e"}`,
	)
	want := []string{
		`{"level":3,"hard":true,"source":{"name":"x","n":1},"tags":["a"],"answer":"5","mean":1.0,"extra":null}`,
		`{"level":4,"hard":false,"source":{"name":"y","n":null},"tags":[],"answer":"five","mean":0.5,"extra":null}`,
		`{"level":null,"hard":null,"source":null,"tags":null,"answer":null,"mean":null,"extra":"e"}`,
	}
	for _, to := range []Format{ShareGPT, ShareGPTPublished} {
		_, lines := run(t, Options{Inputs: []string{in}, To: to})
		require.Len(t, lines, len(want))
		for i := range want {
			require.Equal(t, want[i], gjson.Get(lines[i], "metadata.environment").Raw, "%s: each column has one type in all rows", to)
		}
		if to == ShareGPT {
			require.Equal(t, `{"verifier":{"exit_code":0}}`, gjson.Get(lines[0], "metadata.verification").Str)
		}
		out := filepath.Join(t.TempDir(), "out")
		_, err := Run(t.Context(), Options{Inputs: []string{in}, To: to, Encoding: table.Parquet, Out: out})
		require.NoError(t, err)
		_, back := run(t, Options{Inputs: []string{out}, To: Rollouts})
		require.Equal(t, `{"level":4,"hard":false,"source":{"name":"y"},"tags":[],"answer":"five","mean":0.5}`, gjson.Get(back[1], "metadata").Raw, to)
		require.Equal(t, `{"extra":"e"}`, gjson.Get(back[2], "metadata").Raw, to)
	}
}

func TestShareGPTPublished_HasOnlyTheOriginalColumnsWithoutMetadata(t *testing.T) {
	_, lines := run(t, Options{Inputs: []string{metadataRows(t, `null`, `"{}"`)}, To: ShareGPTPublished})
	for _, l := range lines {
		require.Equal(t, `{"batch_num":0,"timestamp":"2026-03-30T14:22:31.456000","model":"m"}`, gjson.Get(l, "metadata").Raw)
	}
}

func TestRunCard_NamesTheTypesOfMetadata(t *testing.T) {
	content, err := os.ReadFile(metadataRows(t, `{"n":1,"tags":["a"],"by":{"x":true}}`, `{"n":2.5}`))
	require.NoError(t, err)
	lines, err := DescribeTrajectories(bytes.NewReader(content))
	require.NoError(t, err)
	f := features{own: lines.own}
	column := f.shareGPTSchema()
	metadata := column[column.Column("metadata")].Type
	require.Equal(t, table.StructOf(
		table.Field{Name: "n", Type: table.Of(table.Float64)},
		table.Field{Name: "tags", Type: table.ListOf(table.Of(table.String))},
		table.Field{Name: "by", Type: table.StructOf(table.Field{Name: "x", Type: table.Of(table.Bool)})},
	), metadata.Fields[len(metadata.Fields)-2].Type)
}

func TestTypeOfValue_TakesWhatIsNoColumnAsText(t *testing.T) {
	deep := strings.Repeat(`{"a":`, maxValueDepth) + "{}" + strings.Repeat("}", maxValueDepth)
	var wide strings.Builder
	for i := range maxValueFields + 1 {
		fmt.Fprintf(&wide, `,"k%d":1`, i)
	}
	for _, text := range []string{`{}`, `{"":1}`, `{"a":1,"a":2}`, "{" + wide.String()[1:] + "}", `12345678901234567890`, `1e999`, `"x"`, `null`} {
		typ := typeOfValue(gjson.Parse(text), 0)
		require.Equal(t, table.Of(table.String), typ.column(), text)
		require.NoError(t, table.Schema{{Name: "c", Type: typ.column()}}.Check())
	}
	require.NoError(t, table.Schema{{Name: "c", Type: typeOfValue(gjson.Parse(deep), 0).column()}}.Check())
	require.Equal(t, table.Of(table.String), mergeTypes(typeOfValue(gjson.Parse("true"), 0), typeOfValue(gjson.Parse("1"), 0)).column())
}

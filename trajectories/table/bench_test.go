package table

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkParquetWriter writes conversations of 40 turns of prose.
func BenchmarkParquetWriter(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4000)
	for i := range words {
		word := make([]byte, 2+random.IntN(9))
		for k := range word {
			word[k] = byte('a' + random.IntN(26))
		}
		words[i] = string(word)
	}
	turn := StructOf(Field{Name: "from", Type: Of(String), Repeats: true}, Field{Name: "value", Type: Of(String)})
	schema := Schema{{Name: "conversations", Type: ListOf(turn)}, {Name: "score", Type: Of(Float64)}}
	rows := make([]Row, 64)
	var size int64
	for i := range rows {
		var turns []Value
		for range 40 {
			var text strings.Builder
			for range 120 {
				text.WriteString(words[int(random.Float64()*random.Float64()*float64(len(words)))])
				text.WriteByte(' ')
			}
			turns = append(turns, Values(Text("gpt"), Text(text.String())))
		}
		rows[i] = Row{Values(turns...), Float(1)}
		size += schema.size(rows[i])
	}
	b.SetBytes(size / int64(len(rows)))
	b.ReportAllocs()
	w, err := NewParquetWriter(discard{}, schema, "bench")
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if err := w.Write(rows[i%len(rows)]); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

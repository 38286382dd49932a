package tools_test

import (
	"context"
	"testing"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// BenchmarkCall compares tool calls with the bare sandbox command they need.
func BenchmarkCall(b *testing.B) {
	r := newRollout(b, tools.Options{AllowRepeatedReads: true})
	r.put("f.py", "import os\n")
	b.Run("sandbox command", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.box.Exec(context.Background(), sandbox.Command{Script: "true", Session: true, Merge: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, c := range []struct{ tool, arguments string }{
		{"todo", `{"todos":[{"id":"1","content":"a","status":"pending"}]}`},
		{"terminal", `{"command":"true"}`},
		{"read_file", `{"path":"f.py"}`},
		{"write_file", `{"path":"g.py","content":"import os\n"}`},
		{"search_files", `{"pattern":"import"}`},
	} {
		b.Run(c.tool, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.call(c.tool, c.arguments)
			}
		})
	}
}

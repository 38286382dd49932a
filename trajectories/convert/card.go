package convert

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

// card describes the output of a conversion.
func (w *writer) card() *table.Card {
	o, r := w.options, w.report
	var b strings.Builder
	fmt.Fprintf(&b, "%s, written by hermes-env %s.\n\n", sentence(w.target.Text), o.Version)
	name := filepath.Base(filepath.Clean(o.Out))
	if o.For != "" {
		b.WriteString(o.For.usageText(name, o.To))
	} else {
		fmt.Fprintf(&b, "```python\nfrom datasets import load_dataset\nds = load_dataset(%q)\n```\n\n", name)
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n| rows | %d |\n| rollouts read | %d |\n| left out by filters | %d |\n| lines that could not be read | %d |\n\n", r.Written, r.Read, r.Read-r.Kept, r.Broken)
	counts := func(title string, list []Count) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s\n\n", title)
		for _, c := range list {
			fmt.Fprintf(&b, "* %s: %d\n", strings.ReplaceAll(strings.ReplaceAll(c.What, "\n", " "), "|", "/"), c.Rows)
		}
		b.WriteByte('\n')
	}
	counts("Left out:", r.Filtered)
	counts("What the source knows and these files can't carry, in rows:", r.Lost)
	counts("What the source lacks and was made up, in rows:", r.MadeUp)
	fmt.Fprintf(&b, "Columns and their meaning: docs/formats.md of hermes-env. The same counts for programs: `%s`.\n", ReportFile)
	features := o.For.features(o.To)
	return &table.Card{
		Schema: w.builder.schema, Encoding: o.Encoding, Splits: r.Splits, FreeSchema: features == "" && (!o.To.tabular() || w.builder.schema == nil), Features: features,
		Tags: []string{"hermes-env", "agent", "tool-use", string(o.To)}, Title: filepath.Base(filepath.Clean(o.Out)), Body: b.String(),
	}
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Trajectories is what a card says of the lines of a trajectories.jsonl. The zero value is
// that of an empty file.
type Trajectories struct {
	Rows, Bytes int64
	own         *valueType // of metadata.environment
}

// DescribeTrajectories reads a trajectories.jsonl.
func DescribeTrajectories(r io.Reader) (Trajectories, error) {
	var t Trajectories
	in := bufio.NewReaderSize(r, 256<<10)
	for {
		line, err := in.ReadBytes('\n')
		t.Bytes += int64(len(line))
		if own := gjson.GetBytes(line, "metadata.environment"); own.IsObject() {
			t.own = mergeTypes(t.own, typeOfValue(own, 0))
		}
		switch {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return t, err
		}
		t.Rows++
	}
}

// RunCard describes a run directory: its trajectories.jsonl as a data set, with
// the types of its columns.
func RunCard(m trajectories.Manifest, name, version string, lines Trajectories) *table.Card {
	f := features{score: true, toolsets: true, toolNames: m.ToolNames, own: lines.own}
	rows, bytes := lines.Rows, lines.Bytes
	body := fmt.Sprintf("Trajectories of the environment `%s`, written by hermes-env %s.\n\n"+
		"```python\nfrom datasets import load_dataset\nds = load_dataset(%q)\n```\n\n"+
		"One row per rollout that the model took part in; `score` is null where nothing was scored. Everything else about the rollouts is in `rollouts.jsonl`; "+
		"`hermes-env convert` makes Parquet, chat messages, preference pairs and other formats of it. Columns and their meaning: docs/formats.md of hermes-env.\n",
		m.Environment, version, name)
	return &table.Card{
		Schema: f.shareGPTSchema(), Encoding: table.JSONLines, Title: name, Body: body,
		Tags:   []string{"hermes-env", "agent", "tool-use", "sharegpt"},
		Splits: []table.Split{{Name: "train", Paths: "trajectories.jsonl", Rows: rows, Bytes: bytes, Files: []table.File{{Name: "trajectories.jsonl", Rows: rows, Size: bytes}}}},
	}
}

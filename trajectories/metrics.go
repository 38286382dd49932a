package trajectories

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Metrics is the result of an evaluation in the shape of Atropos' evaluate_log.
type Metrics struct {
	TaskName             string // default "<environment>_eval"
	ModelName            string
	Duration             time.Duration   // of the evaluation, all sessions together
	GenerationParameters json.RawMessage // a JSON object; nil means {}
	Values               []Metric        // in the order to show them in

	// MisspeltTimeKey writes the duration under the key total_evaluation_time_secondes
	// of the Atropos that hermes-agent ran on, for programs that read that.
	MisspeltTimeKey bool
}

// Metric is one named figure, for example eval/pass_rate.
type Metric struct {
	Name  string
	Value float64 // finite
}

// WriteMetrics writes metrics.json and samples.jsonl, one line per recorded
// rollout, into the run directory. Files of these names are replaced atomically.
func (r *Run) WriteMetrics(m Metrics) error { return r.ExportMetrics(r.dir, m) }

// ExportMetrics writes the files of WriteMetrics into another directory, which is
// created when missing.
func (r *Run) ExportMetrics(dir string, m Metrics) (err error) {
	if m.TaskName == "" {
		m.TaskName = r.Manifest().Environment + "_eval"
	}
	encoded, err := m.encode()
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, metricsFile), err)
	}
	if err := makeDirs(dir); err != nil {
		return derivedFailure("metrics to "+dir, err)
	}
	rollouts, size, err := r.openRollouts()
	if err != nil {
		return fmt.Errorf("write metrics to %s: %w", dir, err)
	}
	defer closeInto(&err, rollouts)
	path := filepath.Join(dir, samplesFile)
	err = writeAtomic(path, func(w io.Writer) error { return writeSamples(w, io.LimitReader(rollouts, size)) })
	if err != nil {
		return derivedFailure(path, err)
	}
	// Last, so that whoever sees new metrics finds the samples they rest on.
	path = filepath.Join(dir, metricsFile)
	err = writeAtomic(path, func(w io.Writer) error {
		_, err := w.Write(encoded)
		return err
	})
	if err != nil {
		return derivedFailure(path, err)
	}
	return nil
}

func (m *Metrics) encode() ([]byte, error) {
	parameters := bytes.TrimSpace(m.GenerationParameters)
	if len(parameters) == 0 {
		parameters = []byte("{}")
	}
	if !json.Valid(parameters) || parameters[0] != '{' {
		return nil, errors.New("the generation parameters are not a JSON object")
	}
	values, err := encodeMetrics(m.Values)
	if err != nil {
		return nil, err
	}
	timeKey := "total_evaluation_time_seconds"
	if m.MisspeltTimeKey {
		timeKey = "total_evaluation_time_secondes"
	}
	seconds := math.Round(m.Duration.Seconds()*1000) / 1000
	e := encoder{buf: []byte{'{'}}
	e.key("config_general")
	e.raw('{')
	e.text("model_name", m.ModelName)
	e.text(timeKey, string(appendFloat(nil, seconds)))
	e.key("generation_parameters")
	e.buf = append(e.buf, parameters...)
	e.raw('}')
	e.key("results")
	e.raw('{')
	e.key("atropos|" + m.TaskName + "|0")
	e.buf = append(e.buf, values...)
	e.key("all")
	e.buf = append(e.buf, values...)
	e.buf = append(e.buf, "}}"...)
	var indented bytes.Buffer
	if err := json.Indent(&indented, e.buf, "", "  "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

func encodeMetrics(values []Metric) ([]byte, error) {
	seen := make(map[string]bool, len(values))
	e := encoder{buf: []byte{'{'}}
	for _, v := range values {
		if !finite(v.Value) {
			return nil, fmt.Errorf("metric %q is %v, not a finite number", v.Name, v.Value)
		}
		if seen[v.Name] {
			return nil, fmt.Errorf("metric %q is given twice", v.Name)
		}
		seen[v.Name] = true
		e.key(v.Name)
		e.buf = appendFloat(e.buf, v.Value)
	}
	return append(e.buf, '}'), nil
}

// sampleFields are the members of a rollout that its sample repeats, in order.
func sampleFields() []string {
	return []string{
		"item_id", "attempt", "step", "group", "outcome", "score", "passed", "turns_used",
		"finished_naturally", "stop_reason", "error", "model", "rollout_id", "score_parts", "tampering", "metadata", "task_name", "category", "reward", "messages",
	}
}

// writeSamples copies the chosen members of every rollout as they stand.
func writeSamples(w io.Writer, rollouts io.Reader) error {
	out := bufio.NewWriterSize(w, 256<<10)
	fields := sampleFields()
	var buf []byte
	err := eachLine(rollouts, func(l *lineReader, line []byte) error {
		if !validJSON(line) {
			return fmt.Errorf("%w: %s line %d: not valid JSON", ErrCorrupt, rolloutsFile, l.number)
		}
		object := make(map[string]string, 32)
		gjson.ParseBytes(line).ForEach(func(key, value gjson.Result) bool {
			object[key.Str] = value.Raw
			return true
		})
		buf = append(buf[:0], '{')
		for _, name := range fields {
			raw, ok := object[name]
			if !ok {
				continue
			}
			if len(buf) > 1 {
				buf = append(buf, ',')
			}
			buf = chat.AppendString(buf, name)
			buf = append(buf, ':')
			buf = append(buf, raw...)
			if name == "passed" {
				// The name evaluation samples have by habit.
				buf = append(buf, `,"correct":`...)
				buf = append(buf, raw...)
			}
		}
		buf = append(buf, "}\n"...)
		_, err := out.Write(buf)
		return err
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

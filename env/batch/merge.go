package batch

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Result is how a whole run stands, all of its sessions and the original's rows included.
type Result struct {
	Statistics
	Rows     int // in trajectories.jsonl
	Failed   int // prompts of this session that left no row
	Broken   int // lines of batch files that are no rows
	Invented int // rows left out because they call tools that don't exist
	Doubled  int // rows left out because the same prompt was run twice
}

// merger goes over all rows.
type merger struct {
	run    *Run
	places []place
	union  []string // columns of tool_stats in trajectories.jsonl, sorted
	result *Result
}

// Finish writes checkpoint.json, trajectories.jsonl and statistics.json from all batch files.
// elapsed is how long this session took.
func (r *Run) Finish(elapsed time.Duration) (*Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.save(); err != nil {
		return nil, err
	}
	quiet := r.opts.Warn
	r.opts.Warn = func(string) {} // Open has said all of it
	names := newToolNames()
	places, err := r.scan(names)
	r.opts.Warn = quiet
	if err != nil {
		return nil, err
	}
	m := &merger{run: r, result: &Result{Failed: r.failures}}
	m.choose(places)
	m.judge(names)
	path := filepath.Join(r.opts.Dir, mergedFile)
	err = trajectories.ReplaceFile(path, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 256<<10)
		if err := m.copy(out); err != nil {
			return err
		}
		return out.Flush()
	})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	s := &m.result.Statistics
	s.fill(r, elapsed)
	return m.result, s.write(r.opts.Dir)
}

// choose drops what is no data and sorts the rest by the prompts' order.
func (m *merger) choose(places []place) {
	type content struct {
		index int
		text  textHash
	}
	seen := make(map[content]bool)
	for _, p := range places {
		p.ours = m.run.ours[p.identity()]
		switch p.kind {
		case kindBroken:
			m.result.Broken++
			continue
		case kindTombstone:
			m.result.Discarded++
			continue
		case kindFailed:
			continue
		}
		if key := (content{p.index, p.text}); p.index >= 0 {
			if seen[key] {
				m.result.Doubled++
				continue
			}
			seen[key] = true
		}
		m.places = append(m.places, p)
	}
	slices.SortStableFunc(m.places, func(a, b place) int { return cmp.Compare(a.index, b.index) })
}

// each reads the chosen rows in their order.
func (m *merger) each(visit func(p *place, line []byte) error) (err error) {
	files := make(map[int]*os.File)
	defer func() {
		for _, f := range files {
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
		}
	}()
	var line []byte
	for i := range m.places {
		p := &m.places[i]
		f := files[p.batch]
		if f == nil {
			if len(files) >= maxOpenFiles {
				for n, open := range files {
					if err := open.Close(); err != nil {
						return err
					}
					delete(files, n)
					break
				}
			}
			if f, err = os.Open(batchFile(m.run.opts.Dir, p.batch)); err != nil {
				return err
			}
			files[p.batch] = f
		}
		if int64(cap(line)) < p.length {
			line = make([]byte, p.length)
		}
		line = line[:p.length]
		if _, err := f.ReadAt(line, p.offset); err != nil {
			return fmt.Errorf("read %s: %w", f.Name(), err)
		}
		if err := visit(p, line); err != nil {
			return err
		}
	}
	return nil
}

const maxOpenFiles = 32

// judge finds out which tools exist, and leaves out rows that name others. Rows of the
// original name every tool it had, called or not; so a name with a zero somewhere was one
// of them.
func (m *merger) judge(names *toolNames) {
	own, theirs := make(map[string]bool), make(map[string]bool)
	for _, name := range m.run.opts.Store.Tools().Names() {
		own[name], theirs[name] = true, true
	}
	for _, name := range tools.StandardTools() {
		theirs[name] = true
	}
	for name := range names.idle {
		theirs[name] = true
	}
	union := make(map[string]bool)
	for name := range own {
		union[name] = true
	}
	for i := range m.places {
		p := &m.places[i]
		known := theirs
		if p.ours {
			known = own
		}
		list := names.lists[p.tools]
		if p.invented = slices.ContainsFunc(list, func(name string) bool { return !known[name] }); p.invented {
			continue
		}
		for _, name := range list {
			union[name] = true
		}
	}
	m.union = slices.Sorted(maps.Keys(union))
}

// copy writes the rows with one schema and counts what the statistics say.
func (m *merger) copy(out *bufio.Writer) error {
	var padded []byte
	return m.each(func(p *place, line []byte) error {
		parsed := gjson.ParseBytes(line)
		m.result.add(parsed)
		stats := parsed.Get("tool_stats")
		if p.invented {
			m.result.Invented++
			return nil
		}
		m.result.Rows++
		text := line
		if complete(stats, m.union) && complete(parsed.Get("tool_error_counts"), m.union) {
			_, err := out.Write(append(text, '\n'))
			return err
		}
		var err error
		if padded, err = m.pad(padded[:0], line); err != nil {
			return err
		}
		_, err = out.Write(append(padded, '\n'))
		return err
	})
}

// complete says whether an object has all the names; rows that passed have no others.
func complete(object gjson.Result, names []string) bool {
	n := 0
	object.ForEach(func(gjson.Result, gjson.Result) bool { n++; return true })
	return n == len(names)
}

// pad writes a row again with every tool in its two columns. All other members keep
// their bytes.
func (m *merger) pad(dst, line []byte) ([]byte, error) {
	object, err := chat.ParseObject(line)
	if err != nil {
		return nil, err
	}
	zero := trajectories.AppendToolStat(nil, trajectories.ToolStat{})
	for _, c := range []struct {
		key     string
		missing []byte
	}{{"tool_stats", zero}, {"tool_error_counts", []byte("0")}} {
		key, missing := c.key, c.missing
		var column chat.Object
		if raw := object.Get(key); raw != nil {
			if column, err = chat.ParseObject(raw); err != nil {
				column = nil
			}
		}
		for _, name := range m.union {
			if column.Get(name) == nil {
				column.Set(name, missing)
			}
		}
		object.Set(key, appendPython(nil, column))
	}
	return appendPython(dst, object), nil
}

// appendPython writes the members with Python's separators; their values stay as they are.
func appendPython(dst []byte, object chat.Object) []byte {
	dst = append(dst, '{')
	for i, f := range object {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = trajectories.AppendPythonString(dst, f.Key)
		dst = append(dst, ": "...)
		dst = append(dst, f.Value...)
	}
	return append(dst, '}')
}

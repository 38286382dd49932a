package batch

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// kind says what a line of a batch file is.
type kind uint8

const (
	kindRow       kind = iota // a trajectory
	kindTombstone             // a discarded one: done, but no data
	kindFailed                // a failed prompt: to be run again
	kindBroken                // no JSON object
)

// place is a line of a batch file and what is remembered of it.
type place struct {
	batch          int // number of the file
	offset, length int64
	kind           kind
	index          int // prompt_index, -1 when it has none
	stamp          textHash
	text           textHash // of the first human turn
	ours           bool     // made from run/rollouts.jsonl
	tools          int      // its list of tools, see toolNames
	invented       bool     // it calls a tool that does not exist
}

// identity tells rows apart: the index alone is not enough once the dataset was edited.
type identity struct {
	index int
	stamp textHash
}

func (p *place) identity() identity { return identity{p.index, p.stamp} }

func hashStamp(stamp string) textHash {
	sum := sha256.Sum256([]byte(stamp))
	return textHash(sum[:16])
}

func batchFile(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("batch_%d.jsonl", n)) }

var batchName = regexp.MustCompile(`^batch_(\d{1,9})\.jsonl$`)

// batchNumbers returns the numbers of the batch files in dir, sorted.
func batchNumbers(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		if m := batchName.FindStringSubmatch(e.Name()); m != nil && !e.IsDir() {
			n, err := strconv.Atoi(m[1])
			if err == nil && filepath.Base(batchFile(dir, n)) == e.Name() {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// scanBatch reads one batch file. It puts right what a killed writer left: a last line
// that was cut off is removed, one that only lacks its newline gets it.
func scanBatch(dir string, number int, names *toolNames, warn func(string)) (places []place, err error) {
	path := batchFile(dir, number)
	cut, unended := int64(-1), false
	err = trajectories.EachLineOf(path, func(line trajectories.Line) error {
		if len(bytes.TrimSpace(line.Text)) == 0 {
			return nil
		}
		p := names.readPlace(line.Text)
		p.batch, p.offset, p.length = number, line.Offset, int64(len(line.Text))
		switch {
		case !line.Whole && p.kind == kindBroken:
			cut = line.Offset
			return nil
		case !line.Whole:
			unended = true
		case p.kind == kindBroken:
			warn(fmt.Sprintf("%s, line %d is no row; it stays there and is left out of trajectories.jsonl", path, line.Number))
		}
		places = append(places, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	switch {
	case cut >= 0:
		if err := os.Truncate(path, cut); err != nil {
			return nil, fmt.Errorf("remove the torn last line of %s: %w", path, err)
		}
		warn("removed a last line of " + path + " that had been cut off")
	case unended:
		if err := appendTo(path, []byte{'\n'}); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// readPlace reads what a line says of itself, in one pass over its members.
func (n *toolNames) readPlace(line []byte) place {
	p := place{index: -1}
	if !chat.Valid(line) || !gjson.ParseBytes(line).IsObject() {
		p.kind = kindBroken
		return p
	}
	failed, discarded, stamp := false, false, ""
	gjson.ParseBytes(line).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "prompt_index":
			if v.Type == gjson.Number && v.Num >= 0 && v.Num == float64(int32(v.Num)) {
				p.index = int(v.Num)
			}
		case "conversations":
			p.text = hashText(firstHuman(v))
		case "metadata":
			stamp = v.Get("timestamp").String()
		case "failed":
			failed = v.Bool()
		case "discarded":
			discarded = true
		case "tool_stats":
			p.tools = n.list(v)
		}
		return true
	})
	p.stamp = hashStamp(stamp)
	switch {
	case failed:
		p.kind = kindFailed
	case discarded:
		p.kind = kindTombstone
	}
	return p
}

// toolNames are the tools that rows name. Rows have few different lists of them.
type toolNames struct {
	lists   [][]string
	byNames map[string]int
	idle    map[string]bool // named without a call somewhere
}

// list returns the number of a row's list of tools.
func (n *toolNames) list(stats gjson.Result) int {
	var names []string
	stats.ForEach(func(name, stat gjson.Result) bool {
		names = append(names, name.String())
		if stat.Get("count").Num == 0 && !n.idle[name.String()] {
			n.idle[name.String()] = true
		}
		return true
	})
	slices.Sort(names)
	key := strings.Join(names, "\x00")
	i, ok := n.byNames[key]
	if !ok {
		i = len(n.lists)
		n.lists = append(n.lists, names)
		n.byNames[key] = i
	}
	return i
}

func newToolNames() *toolNames {
	return &toolNames{lists: [][]string{nil}, byNames: map[string]int{"": 0}, idle: map[string]bool{}}
}

// firstHuman returns the text of the first human turn; what is no text gives its JSON, as
// with prompts.
func firstHuman(conversations gjson.Result) (text string) {
	conversations.ForEach(func(_, turn gjson.Result) bool {
		if role := turn.Get("from").Str; role != "human" && role != "user" {
			return true
		}
		value := turn.Get("value")
		if text = value.Raw; value.Type == gjson.String {
			text = value.Str
		}
		return false
	})
	return text
}

// appendTo appends to a file with one write.
func appendTo(path string, text []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close %s: %w", path, closeErr)
		}
	}()
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("write %s: %w (every finished rollout is safe in run/rollouts.jsonl; make room and use --resume)", path, err)
	}
	return nil
}

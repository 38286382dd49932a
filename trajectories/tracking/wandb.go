package tracking

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// WandbConfig describes an offline run of Weights & Biases.
type WandbConfig struct {
	// Dir is the directory that run directories are made in; it is made when missing.
	// A run directory that is there already, of an earlier session, gives the new one
	// its run id.
	Dir      string
	Project  string // "" leaves the choice to whoever uploads the run
	Group    string
	Name     string // as people see it; "" leaves it to the service
	JobType  string // such as process
	Host     string
	Producer string // program and version
	// Config is a JSON object, each of whose members becomes an entry of the run's
	// configuration; nil has none. Secrets have to be gone from it.
	Config json.RawMessage
	// FirstStep is the step the session begins with, that of the last log of an
	// earlier session.
	FirstStep int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Wandb writes a run into the files of an offline Weights & Biases run, which the
// program wandb uploads with wandb sync. Nothing is sent.
type Wandb struct {
	config  WandbConfig
	id      string
	dir     string // of the run
	log     *wandbLog
	num     int64
	started time.Time

	pending []item // of the step that may still grow
	step    int
	rows    int
	summary []item // the latest value of each key, in the order they came
	places  map[string]int
}

// summaryEvery is after how many rows the summary is written again, so that a killed
// run has one.
const summaryEvery = 20

// NewWandb makes the directory of an offline run and begins its file.
func NewWandb(config WandbConfig) (*Wandb, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	settings, err := configItems(config.Config)
	if err != nil {
		return nil, fmt.Errorf("begin an offline run of Weights & Biases: %w", err)
	}
	w := &Wandb{config: config, started: config.Now(), step: config.FirstStep, places: make(map[string]int)}
	earlier := w.findRun()
	if err := w.makeDir(); err != nil {
		return nil, fmt.Errorf("begin an offline run of Weights & Biases in %s: %w", config.Dir, err)
	}
	if w.log, err = createWandbLog(filepath.Join(w.dir, "run-"+w.id+".wandb")); err != nil {
		return nil, fmt.Errorf("begin an offline run of Weights & Biases: %w", err)
	}
	run := config.runPayload(w.id, w.started, config.FirstStep, earlier, settings)
	err = w.log.append(w.record(recordHeader, headerPayload(config.Producer)), w.record(recordRun, run))
	if err != nil {
		return nil, errors.Join(err, w.log.close())
	}
	return w, nil
}

func configItems(config json.RawMessage) ([]item, error) {
	if len(config) == 0 {
		return nil, nil
	}
	object := gjson.ParseBytes(config)
	if !gjson.ValidBytes(config) || !object.IsObject() {
		return nil, errors.New("its configuration is not a JSON object")
	}
	var items []item
	object.ForEach(func(key, value gjson.Result) bool {
		items = append(items, item{key.String(), []byte(value.Raw)})
		return true
	})
	return items, nil
}

// runDir is the name of an offline run's directory: when it began and its id.
var runDir = regexp.MustCompile(`^offline-run-\d{8}_\d{6}-([a-z0-9]{4,64})$`)

// findRun takes over the id of the latest run directory, and says whether there is one.
func (w *Wandb) findRun() bool {
	entries, err := os.ReadDir(w.config.Dir) // sorted, so that the latest is last
	if err != nil {
		return false
	}
	for _, e := range entries {
		if m := runDir.FindStringSubmatch(e.Name()); m != nil && e.IsDir() {
			w.id = m[1]
		}
	}
	return w.id != ""
}

// makeDir makes the run's directory. Its name holds the second it began in, so that one
// of a session that began in the same second makes it wait for the next name.
func (w *Wandb) makeDir() error {
	if w.id == "" {
		w.id = newWandbID()
	}
	if err := os.MkdirAll(w.config.Dir, 0o755); err != nil {
		return err
	}
	for at := w.started; ; at = at.Add(time.Second) {
		w.dir = filepath.Join(w.config.Dir, "offline-run-"+at.Format("20060102_150405")+"-"+w.id)
		switch err := os.Mkdir(w.dir, 0o755); {
		case err == nil:
			return os.MkdirAll(filepath.Join(w.dir, "files"), 0o755)
		case !errors.Is(err, os.ErrExist):
			return err
		}
	}
}

// newWandbID returns eight random letters and digits, as the service's own ids are.
func newWandbID() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, as crypto/rand documents
	for i, b := range random {
		random[i] = letters[int(b)%len(letters)]
	}
	return string(random[:])
}

// Dir returns the run's directory.
func (w *Wandb) Dir() string { return w.dir }

// ID returns the run's id. Sessions of one run share it.
func (w *Wandb) ID() string { return w.id }

// SyncCommand returns what uploads every session of the run, for a shell in the
// working directory.
func (w *Wandb) SyncCommand() string {
	dir := w.config.Dir
	if strings.ContainsAny(dir, " \t'\"\\$&|;<>()*?[]{}~#`!") {
		dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return "wandb sync --append " + dir + "/offline-run-*-" + w.id
}

func (w *Wandb) record(field protowire.Number, payload []byte) []byte {
	w.num++
	return wandbRecord(w.num, field, payload)
}

// Log implements Sink. Rows of one step are joined: the service takes one for each.
func (w *Wandb) Log(step int, metrics []Metric, tables []Table) error {
	var err error
	if step > w.step {
		err = w.flush()
		w.step = step
	}
	for _, m := range metrics {
		w.set(m.Name, appendNumber(nil, m.Value))
	}
	for _, t := range tables {
		value, failed := w.writeTable(t)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		w.set(t.Name, value)
	}
	return err
}

// set gives a key of the row under way its value.
func (w *Wandb) set(key string, value []byte) {
	for i := range w.pending {
		if w.pending[i].key == key {
			w.pending[i].value = value
			return
		}
	}
	w.pending = append(w.pending, item{key, value})
}

// flush writes the row under way, and the summary where it is time.
func (w *Wandb) flush() error {
	if len(w.pending) == 0 {
		return nil
	}
	now := w.config.Now()
	row := append(w.pending,
		item{"_timestamp", appendSeconds(nil, now)},
		item{"_runtime", appendNumber(nil, max(0, now.Sub(w.started).Seconds()))},
		item{"_step", strconv.AppendInt(nil, int64(w.step), 10)})
	w.pending = nil
	for _, it := range row {
		if i, ok := w.places[it.key]; ok {
			w.summary[i] = it
			continue
		}
		w.places[it.key] = len(w.summary)
		w.summary = append(w.summary, it)
	}
	records := [][]byte{w.record(recordHistory, historyPayload(w.step, row))}
	if w.rows++; w.rows%summaryEvery == 1 {
		records = append(records, w.record(recordSummary, summaryPayload(w.summary)))
	}
	return w.log.append(records...)
}

// writeTable writes the file of a table and tells the run of it. It returns what the
// row holds in its place.
func (w *Wandb) writeTable(t Table) ([]byte, error) {
	content := append(appendTableMembers([]byte{'{'}, t), '}')
	digest := sha256.Sum256(content)
	sum := hex.EncodeToString(digest[:])
	path := fmt.Sprintf("media/table/%s_%d_%s.table.json", safePath(t.Name), w.step, sum[:20])
	file := filepath.Join(w.dir, "files", filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, fmt.Errorf("write the table %s: %w", t.Name, err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		_ = os.Remove(file) // half of it helps nobody
		return nil, fmt.Errorf("write the table %s: %w", t.Name, err)
	}
	if err := w.log.append(w.record(recordFiles, filesPayload([]string{path}))); err != nil {
		return nil, err
	}
	value := fmt.Appendf(nil, `{"_type":"table-file","ncols":%d,"nrows":%d,"sha256":"%s","size":%d,"path":`, len(t.Columns), len(t.Rows), sum, len(content))
	return append(chat.AppendString(value, path), '}'), nil
}

// safePath keeps letters, digits and what separates them; nothing in it climbs out of
// a directory or is a pattern.
func safePath(name string) string {
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		if part = strings.Trim(strings.Map(clean, part), "."); part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "table"
	}
	return strings.Join(parts, "/")
}

// Close implements Sink: it writes the last row, the summary and the end of the run.
func (w *Wandb) Close() error {
	err := w.flush()
	now := w.config.Now()
	var records [][]byte
	if len(w.summary) > 0 {
		summary := append(w.summary, item{"_wandb", fmt.Appendf(nil, `{"runtime":%d}`, int(now.Sub(w.started).Seconds()))})
		records = append(records, w.record(recordSummary, summaryPayload(summary)))
	}
	records = append(records, w.record(recordExit, exitPayload(now.Sub(w.started))), w.record(recordFinal, nil), w.record(recordFooter, nil))
	err = errors.Join(err, w.log.append(records...))
	if failed := w.log.close(); failed != nil {
		err = errors.Join(err, fmt.Errorf("close %s: %w", w.log.f.Name(), failed))
	}
	return err
}

package prompts

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/dataset"
	"github.com/hermes-env/hermes-env/env/dataset/hub"
	"github.com/hermes-env/hermes-env/env/reward"
	"github.com/hermes-env/hermes-env/env/reward/rowtext"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Name is the environment's name.
const Name = "prompts"

//go:embed replay.yaml
var replayScript []byte

// Definition describes prompts to the command line.
func Definition() env.Definition {
	d := env.Define(Name, "any dataset of prompts and any reward, declared in YAML: no Go needed",
		func(common *config.Env, own *Config) {
			common.MaxTokenLength = 16000
			common.TotalSteps = env.UnlimitedSteps // as many as there are rows
			own.Judge.BaseURL = ""                 // no judge unless one is named
		},
		func(common config.Env, own Config) (env.Environment, error) { return build(common, own) })
	d.Replay = replayScript
	return d
}

// build makes the environment of a valid configuration. One that puts something into its sandboxes has Prepare as well.
func build(common config.Env, own Config) (env.Environment, error) {
	e := &Environment{common: common, own: own, skipped: &skippedRows{}}
	var err error
	if e.prompter, err = newPrompter(own); err != nil {
		return nil, err
	}
	if e.files, err = readLocalFiles(own.SetupFiles); err != nil {
		return nil, fmt.Errorf("setup_files: %w", err)
	}
	if e.scorer, err = reward.New(reward.Options{Config: own.Reward, Judge: own.Judge, LookupEnv: os.LookupEnv}); err != nil {
		return nil, err
	}
	if len(own.SetupFiles) > 0 || own.FilesField != "" || own.SetupCommand != "" || own.SetupCommandField != "" {
		return &preparing{e}, nil
	}
	return e, nil
}

// Environment hands out the rows of a dataset and scores them.
type Environment struct {
	common   config.Env
	own      Config
	prompter *prompter
	scorer   *reward.Scorer
	files    []setupFile // for every sandbox
	skipped  *skippedRows

	train, eval *source // the same where evaluate has no dataset of its own
	size        int     // usable rows of eval; -1 when unknown

	next  func() (namedRow, error, bool)
	stop  func()
	epoch int
}

var (
	_ env.Evaluator          = (*Environment)(nil)
	_ env.Sizer              = (*Environment)(nil)
	_ env.Rewinder           = (*Environment)(nil)
	_ env.TrainSizer         = (*Environment)(nil)
	_ env.ContentKeyed       = (*Environment)(nil)
	_ env.SandboxSpecifier   = (*Environment)(nil)
	_ env.Describer          = (*Environment)(nil)
	_ env.DatasetDescriber   = (*Environment)(nil)
	_ env.RunDirUser         = (*Environment)(nil)
	_ env.Noter              = (*Environment)(nil)
	_ env.Aggregator         = (*Environment)(nil)
	_ env.Restorer           = (*Environment)(nil)
	_ env.InstantScorer      = (*Environment)(nil)
	_ env.ConversationScorer = (*Environment)(nil)
	_ env.Closer             = (*Environment)(nil)
	_ env.AnswerOracle       = (*Environment)(nil)
	_ env.PartialOracle      = (*Environment)(nil)
	_ env.Preparer           = (*preparing)(nil)
)

// row is the value of an item.
type row struct {
	data     json.RawMessage
	position int64
}

// MarshalJSON writes the row, so that an item's digest is that of its content.
func (r row) MarshalJSON() ([]byte, error) { return r.data, nil }

// Name returns prompts.
func (e *Environment) Name() string { return Name }

// countedBytes is the size up to which a local dataset is read through before the run, to find bad rows early and to know how
// much there is to do.
const countedBytes = 64 << 20

// Setup opens the dataset and reads a small one through, of a large one the beginning.
func (e *Environment) Setup(ctx context.Context) error {
	if err := e.scorer.Start(ctx); err != nil {
		return err
	}
	var err error
	if e.train, err = e.open(ctx, false); err != nil {
		return err
	}
	e.eval = e.train
	if e.own.EvalDatasetName != "" || e.own.EvalSplit != "" {
		if e.eval, err = e.open(ctx, true); err != nil {
			return err
		}
	}
	e.size, err = e.examine(ctx, e.eval)
	if err == nil && e.eval != e.train {
		_, err = e.examine(ctx, e.train)
	}
	return err
}

func (e *Environment) open(ctx context.Context, evaluate bool) (*source, error) {
	o := e.own.options(evaluate)
	s := &source{own: e.own, seed: e.common.Seed, check: e.check, skipped: e.skipped}
	o.Warn = func(p dataset.Problem) {
		if !p.Kept {
			s.skipped.add(p.File, p.Line, p.Row, p.Err)
		}
	}
	var err error
	if o.Hub, err = hub.FromEnvironment(os.Getenv); err != nil {
		return nil, err
	}
	if s.data, err = dataset.Open(ctx, o); err != nil {
		return nil, err
	}
	return s, nil
}

// examine reads a small dataset through and returns the number of its usable rows; of others it reads until the first.
func (e *Environment) examine(ctx context.Context, s *source) (int, error) {
	small, total := true, int64(0)
	for _, f := range s.data.Info().Files {
		if f.Size < 0 {
			small = false
		}
		total += f.Size
	}
	small = small && total <= countedBytes && s.data.Info().Revision == ""
	if !small && s.own.Shuffle {
		inOrder := *s
		inOrder.own.Shuffle = false // shuffling would read it all
		s = &inOrder
	}
	if !s.own.Shuffle {
		counting := *s
		counting.keyless = true // keys are of no use here, and cost as much as all else
		s = &counting
	}
	n := 0
	for _, err := range s.items(ctx) {
		if err != nil {
			return 0, err
		}
		if n++; !small {
			return -1, nil
		}
	}
	return n, nil
}

// check says what keeps a row from being used.
func (e *Environment) check(data []byte) error {
	if _, err := e.prompter.messages(data); err != nil {
		return err
	}
	if err := e.scorer.Check(data); err != nil {
		return err
	}
	if _, err := e.spec(data); err != nil {
		return err
	}
	if e.own.FilesField != "" {
		if _, err := rowFiles(data, e.own.FilesField, e.own.FilesRoot); err != nil {
			return err
		}
	}
	if e.own.IDField != "" {
		if _, reason := rowID(data, e.own.IDField); reason != "" {
			return fmt.Errorf("id_field %s: %s", e.own.IDField, reason)
		}
	}
	_, err := e.setupScript(data)
	return err
}

// item makes an item of a row. Its digest covers the files of the configuration too, which decide what the agent finds.
func (e *Environment) item(r namedRow) env.Item {
	it := env.Item{ID: r.ID, Digest: e.withFiles(r.Digest()), Value: row{r.Data, r.Position}}
	if name := r.nameDigest(); name != "" {
		it.NameDigest = e.withFiles(name)
	}
	return it
}

// withFiles returns the digest of a row together with the files of the configuration.
func (e *Environment) withFiles(digest string) string {
	if len(e.files) == 0 {
		return digest
	}
	sum := sha256.New()
	fmt.Fprintln(sum, digest)
	for _, f := range e.files {
		fmt.Fprintf(sum, "%q %o %d\n", f.path, f.mode, len(f.content))
		sum.Write(f.content)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// ContentKeyed says that rows are known by their names or their content.
func (e *Environment) ContentKeyed() {}

// NextItem returns the rows in turn, epoch by epoch. From the second epoch on ids end with the number of the epoch.
func (e *Environment) NextItem(ctx context.Context) (env.Item, error) {
	for {
		if e.next == nil {
			if e.own.Epochs > 0 && e.epoch == e.own.Epochs {
				return env.Item{}, io.EOF
			}
			e.epoch++
			e.next, e.stop = iter.Pull2(e.train.items(ctx))
		}
		r, err, more := e.next()
		if more {
			if err != nil {
				return env.Item{}, err
			}
			it := e.item(r)
			if e.epoch > 1 {
				it.ID = fmt.Sprintf("%s@%d", it.ID, e.epoch)
			}
			return it, nil
		}
		e.stop()
		e.next = nil
	}
}

// Rewind lets another epoch follow the last one.
func (e *Environment) Rewind(context.Context) error {
	e.own.Epochs = max(e.own.Epochs, e.epoch) + 1
	return nil
}

// EvalItems yields the rows that evaluate runs.
func (e *Environment) EvalItems(ctx context.Context) iter.Seq2[env.Item, error] {
	return func(yield func(env.Item, error) bool) {
		for r, err := range e.eval.items(ctx) {
			if err != nil {
				yield(env.Item{}, err)
				return
			}
			if !yield(e.item(r), nil) {
				return
			}
		}
	}
}

// EvalSize returns how many rows evaluate runs, -1 when that is unknown.
func (e *Environment) EvalSize() int { return e.size }

// TrainSize returns how many items process gets at most, -1 when that is unknown.
func (e *Environment) TrainSize() int {
	if e.size < 0 || e.own.Epochs == 0 || e.eval != e.train {
		return -1
	}
	return e.size * e.own.Epochs
}

// FormatPrompt returns the messages that rollouts of a row start with.
func (e *Environment) FormatPrompt(it env.Item) ([]chat.Message, error) {
	return e.prompter.messages(it.Value.(row).data)
}

// Sandbox returns a row's sandbox.
func (e *Environment) Sandbox(it env.Item) (sandbox.Spec, error) { return e.spec(it.Value.(row).data) }

func (e *Environment) spec(data []byte) (spec sandbox.Spec, err error) {
	if spec.Image, err = optional(data, e.own.ImageField); err != nil {
		return spec, fmt.Errorf("image_field: %w", err)
	}
	if spec.Dir, err = optional(data, e.own.CwdField); err != nil {
		return spec, fmt.Errorf("cwd_field: %w", err)
	}
	return spec, nil
}

// optional returns the text at a path, or "" where there is none.
func optional(data []byte, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if v, ok := rowtext.Lookup(data, path); !ok || v.Type == gjson.Null {
		return "", nil
	}
	text, err := rowtext.String(data, path)
	return strings.TrimSpace(text), err
}

// Describe returns the row's position and the columns to record.
func (e *Environment) Describe(it env.Item) json.RawMessage {
	r := it.Value.(row)
	object := chat.Object{}
	if text, err := chat.Marshal(r.position); err == nil {
		object.Set("row", text)
	}
	for _, field := range e.own.MetadataFields {
		if v, ok := rowtext.Lookup(r.data, field); ok {
			object.Set(field, json.RawMessage(v.Raw))
		}
	}
	return object.Append(nil)
}

// Reward scores a rollout.
func (e *Environment) Reward(ctx context.Context, it env.Item, result *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	return e.scorer.Score(ctx, reward.Input{ItemID: it.ID, Row: it.Value.(row).data, Result: result, Tools: tc})
}

// HasSolution says whether the reward compares with a reference that can be given as an answer.
func (e *Environment) HasSolution(it env.Item) bool {
	_, ok := e.scorer.RightAnswer(it.Value.(row).data)
	return ok
}

// OracleAnswer gives the reference as an answer.
func (e *Environment) OracleAnswer(_ context.Context, it env.Item, _ *toolcontext.Context) (string, error) {
	answer, ok := e.scorer.RightAnswer(it.Value.(row).data)
	if !ok {
		return "", errors.New("the reward compares with no reference that could be given as an answer")
	}
	return answer, nil
}

// ScoresInstantly says whether the reward only compares texts and numbers.
func (e *Environment) ScoresInstantly() bool { return e.own.Reward.OnlyCompares() }

// ScoresConversation says whether the reward never looks at the sandbox.
func (e *Environment) ScoresConversation() bool { return !e.own.Reward.NeedsSandbox() }

// Dataset says where the rows come from. The digest covers local files; a dataset of the hub is known by its commit.
func (e *Environment) Dataset() (json.RawMessage, string, error) {
	info := e.train.data.Info()
	if info.Revision == "" {
		if _, err := e.train.data.Digest(context.Background()); err != nil {
			return nil, "", err
		}
		info = e.train.data.Info()
	}
	text, err := chat.Marshal(info)
	return text, info.Digest, err
}

// UseRunDir says where the list of rows left out and the logs of reward programs go.
func (e *Environment) UseRunDir(dir string) {
	e.skipped.useDir(dir)
	e.scorer.UseRunDir(dir)
}

// Notes says how many rows were left out.
func (e *Environment) Notes() []string {
	n, first := e.skipped.total()
	if n == 0 {
		return nil
	}
	note := fmt.Sprintf("%d rows of the dataset were left out, the first: %s", n, first)
	if n == 1 {
		note = "1 row of the dataset was left out: " + first
	}
	if err := e.skipped.write(); err != nil {
		return []string{note, err.Error()}
	}
	return []string{note + " (all in " + skippedFile + ")"}
}

// Aggregate adds the number of rows left out.
func (e *Environment) Aggregate(iter.Seq[env.Record]) []env.Metric {
	n, _ := e.skipped.total()
	return []env.Metric{{Name: "dataset/skipped_rows", Value: float64(n)}}
}

// Restorable says whether a recorded rollout can be scored again: its conversation is all that rewards need, but for scripts
// that look at the sandbox.
func (e *Environment) Restorable(env.Item, *trajectories.Rollout) error {
	if !e.ScoresConversation() {
		return errors.New("the reward looks into the sandbox, and what the agent left there was not kept")
	}
	return nil
}

// Restore has nothing to do; see Restorable.
func (e *Environment) Restore(_ context.Context, it env.Item, rec *trajectories.Rollout, _ *toolcontext.Context) error {
	return e.Restorable(it, rec)
}

// Close ends the reward's programs and the reading of the dataset.
func (e *Environment) Close() error {
	if e.next != nil {
		e.stop()
		e.next = nil
	}
	return e.scorer.Close()
}

package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext"
)

// Options is what a Scorer works with.
type Options struct {
	Config Config
	// Judge is the model server that judges; needed only with a part of that type.
	Judge config.Server
	// LookupEnv finds the variables that programs may see; nil finds none.
	LookupEnv func(string) (string, bool)
}

// Input is one finished rollout.
type Input struct {
	ItemID string
	Row    json.RawMessage // the item's row, a JSON object
	Result *agentloop.Result
	Tools  *toolcontext.Context // sealed
}

// Scorer scores rollouts. Its methods may be called from many goroutines at once.
type Scorer struct {
	parts []part
	skip  bool // leave out parts that fail
	judge *judgeClient
}

// part is one configured reward.
type part struct {
	name, kind string
	weight     float64
	scorer
}

// scorer is a type of reward.
type scorer interface {
	// check says what keeps the rollouts of a row from being scored; nil when nothing does.
	check(row []byte) error
	// score judges one rollout. An error says that it can't be told.
	score(ctx context.Context, in Input) (result, error)
	// close ends what the scorer started, and waits for it.
	close() error
}

// result is what one part found.
type result struct {
	score   float64
	parts   map[string]float64 // named components; nil for none
	details chat.Object
}

// New makes a Scorer from a configuration that has no Problems. It starts nothing.
func New(o Options) (*Scorer, error) {
	parts, _ := o.Config.list()
	if len(parts) == 0 {
		return nil, errors.New("no reward is configured: set env.reward.type")
	}
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	s := &Scorer{skip: o.Config.OnPartError == PartErrorSkips}
	if o.Config.UsesJudge() {
		s.judge = &judgeClient{server: o.Judge}
	}
	for _, p := range parts {
		scorer, err := newScorer(p, o, s.judge)
		if err != nil {
			return nil, fmt.Errorf("reward %s: %w", p.name(), err)
		}
		s.parts = append(s.parts, part{name: p.name(), kind: p.Type, weight: p.Weight, scorer: scorer})
	}
	return s, nil
}

func newScorer(p Part, o Options, judge *judgeClient) (scorer, error) {
	switch p.Type {
	case TypeExact, TypeNormalized, TypeRegex, TypeNumeric:
		return newMatcher(p)
	case TypeCommand:
		return newCommand(p)
	case TypeProgram:
		return newProgram(p, o.LookupEnv)
	case TypeJudge:
		return newJudge(p, judge)
	}
	return nil, fmt.Errorf("no reward of type %q", p.Type)
}

// Start checks that there are the programs that are going to be run, and starts the embedded model of a judge. Programs start
// with the first rollout.
func (s *Scorer) Start(ctx context.Context) error {
	for _, p := range s.parts {
		if program, ok := p.scorer.(*program); ok {
			if err := program.find(); err != nil {
				return fmt.Errorf("reward %s: %w", p.name, err)
			}
		}
	}
	if s.judge == nil {
		return nil
	}
	return s.judge.start(ctx)
}

// UseRunDir says where programs leave what they write to standard error.
func (s *Scorer) UseRunDir(dir string) {
	for _, p := range s.parts {
		if program, ok := p.scorer.(*program); ok {
			program.logTo(dir, p.name)
		}
	}
}

// Close ends the programs and waits for them. Rollouts must no longer be scored.
func (s *Scorer) Close() error {
	var errs []error
	for _, p := range s.parts {
		errs = append(errs, p.close())
	}
	if s.judge != nil {
		errs = append(errs, s.judge.close())
	}
	return errors.Join(errs...)
}

// Check says what keeps the rollouts of a row from being scored: a column without which a part can't tell, a reference
// without a number. nil means that nothing does.
func (s *Scorer) Check(row []byte) error {
	for _, p := range s.parts {
		if err := p.check(row); err != nil {
			return fmt.Errorf("reward %s: %w", p.name, err)
		}
	}
	return nil
}

// RightAnswer returns an answer to a row that the reward calls right; ok is false unless
// the reward is one comparison with a reference whose form is known.
func (s *Scorer) RightAnswer(row []byte) (answer string, ok bool) {
	if len(s.parts) != 1 {
		return "", false
	}
	m, ok := s.parts[0].scorer.(*matcher)
	if !ok {
		return "", false
	}
	return m.right(row)
}

// partRecord is what metadata.verifier says of each part.
type partRecord struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Weight float64  `json:"weight"`
	Score  *float64 `json:"score"`
	Error  string   `json:"error,omitempty"`
	// Details is what the part found: the answer it compared, the reasons of a judge, ….
	Details chat.Object `json:"details,omitempty"`
}

// record is metadata.verifier.
type record struct {
	OnPartError string       `json:"on_part_error"`
	Scale       float64      `json:"scale"` // what the sum was multiplied with because parts were left out
	Parts       []partRecord `json:"parts"`
}

// Score scores one rollout. Its error is an *env.VerifierError, a failure of the sandbox (see toolcontext.IsInfrastructure), or
// the end of ctx.
func (s *Scorer) Score(ctx context.Context, in Input) (env.Score, error) {
	rec := record{OnPartError: PartErrorFails, Scale: 1}
	if s.skip {
		rec.OnPartError = PartErrorSkips
	}
	score := env.Score{Parts: map[string]float64{}}
	all, left := 0.0, 0.0
	var failed []error
	for _, p := range s.parts {
		r, err := p.score(ctx, in)
		if err == nil {
			err = finite(p.kind, r)
		}
		entry := partRecord{Name: p.name, Type: p.kind, Weight: p.weight, Details: r.details}
		all += math.Abs(p.weight)
		if err != nil {
			if ctx.Err() != nil || toolcontext.IsInfrastructure(err) {
				return env.Score{}, fmt.Errorf("reward %s: %w", p.name, err)
			}
			entry.Error = textutil.Shorten(err.Error(), 4000)
			failed = append(failed, fmt.Errorf("reward %s: %w", p.name, err))
			rec.Parts = append(rec.Parts, entry)
			continue
		}
		left += math.Abs(p.weight)
		entry.Score = &r.score
		score.Value += p.weight * r.score
		score.Parts[p.name] = r.score
		for name, v := range r.parts {
			score.Parts[p.name+"."+name] = v
		}
		rec.Parts = append(rec.Parts, entry)
	}
	if len(failed) > 0 && s.skip && left > 0 {
		rec.Scale = all / left
		score.Value *= rec.Scale
		failed = nil
	}
	details, err := chat.Marshal(rec)
	if err != nil {
		return env.Score{}, fmt.Errorf("record the parts of the reward: %w", err)
	}
	score.Details = details
	if len(failed) > 0 {
		return env.Score{}, &env.VerifierError{Class: classOf(failed[0]), Err: errors.Join(failed...), Details: details}
	}
	return score, nil
}

// finite makes a score that is no number a failure of the reward that gave it.
func finite(kind string, r result) error {
	class := classReference
	switch kind {
	case TypeCommand:
		class = classCommand
	case TypeProgram:
		class = classProgram
	case TypeJudge:
		class = classJudge
	}
	if math.IsNaN(r.score) || math.IsInf(r.score, 0) {
		return failing(class, "the score is %v, which is not a finite number", r.score)
	}
	for name, v := range r.parts {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return failing(class, "its part %q is %v, which is not a finite number", name, v)
		}
	}
	return nil
}

// failure is a reward that could not be told, with a class to count by.
type failure struct {
	class string
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failing(class, format string, args ...any) error {
	return &failure{class, fmt.Errorf(format, args...)}
}

// Classes of failures.
const (
	classReference = "reward_reference"
	classCommand   = "reward_command"
	classProgram   = "reward_program"
	classJudge     = "reward_judge"
)

func classOf(err error) string {
	var f *failure
	if errors.As(err, &f) {
		return f.class
	}
	return classReference
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/validation"
	"github.com/hermes-env/hermes-env/trajectories"
)

// itemSelection says which items a run takes; the zero value takes all.
type itemSelection struct {
	keep func(env.Item) bool
	size int // items of evaluate that are kept, 0 when unknown
}

// skippedFile holds, in a run directory, the verdicts on the items that were left
// out, so that a resumed run leaves out the same ones.
const skippedFile = "skipped.jsonl"

// maxNamed bounds how many items a warning names.
const maxNamed = 5

// selectItems warns of items that validate found unsound and leaves them out where
// the configuration says so. The environment has been set up.
func (j *job) selectItems(ctx context.Context) error {
	known, source, err := j.knownVerdicts()
	if err != nil {
		return err
	}
	for digest, v := range known {
		if !v.Kind.Unsound() {
			delete(known, digest)
		}
	}
	skip := j.cfg.Env.SkipUnsound
	if len(known) == 0 {
		return nil
	}
	unsound := func(item env.Item) (validation.Verdict, bool) {
		v, ok := known[item.Digest]
		return v, ok && j.sameVerification(item, v)
	}
	left := itemSelection{keep: func(item env.Item) bool { _, ok := unsound(item); return !ok }}
	if _, ok := j.environment.(env.Evaluator); !ok || j.mode != config.Evaluate {
		// The items are not known ahead.
		if !skip {
			return nil
		}
		j.items = left
		j.skipped = slices.SortedFunc(maps.Values(known), func(a, b validation.Verdict) int { return strings.Compare(a.ItemID, b.ItemID) })
		j.out.Note("items that validate found unsound are left out; see " + source)
		return nil
	}
	kept := 0
	var found []validation.Verdict
	for item, err := range env.EvalItems(ctx, j.environment, env.SubsetOf(j.cfg.Env)) {
		if err != nil {
			return err
		}
		if v, ok := unsound(item); ok {
			v.ItemID = item.ID
			found = append(found, v)
		} else {
			kept++
		}
	}
	if len(found) == 0 {
		return nil
	}
	text := describeUnsound(found)
	if !skip {
		j.out.Warn(text + "; env.skip_unsound leaves them out; see " + source)
		return nil
	}
	if kept == 0 {
		return fmt.Errorf("%s; with env.skip_unsound no item is left to run; see %s", text, source)
	}
	j.out.Note(text + "; they are left out; see " + source)
	left.size = kept
	j.items, j.skipped = left, found
	return nil
}

// cleanVerifier says of an item whether its tests run in a clean container, without what the
// agent left running or installed. A task can be sound in one way and not in the other.
type cleanVerifier interface{ VerifiesClean(env.Item) bool }

// sameVerification says whether a verdict is of a verification as this run's.
func (j *job) sameVerification(item env.Item, v validation.Verdict) bool {
	e, ok := j.environment.(cleanVerifier)
	return !ok || e.VerifiesClean(item) == (v.VerifiedIn == "clean")
}

// knownVerdicts returns the verdicts that a run goes by: those it went by before
// when it is resumed and leaves items out, else those kept for the user.
func (j *job) knownVerdicts() (validation.Known, string, error) {
	if path := filepath.Join(j.flags.RunDir, skippedFile); j.cfg.Env.SkipUnsound && j.flags.Resume {
		if _, err := os.Stat(path); err == nil {
			known, _, err := validation.Read(path, j.cfg.Environment)
			return known, path, err
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, path, fmt.Errorf("read what the run left out: %w", err)
		}
	}
	path, ok := validation.DefaultPath(j.app.Getenv)
	if !ok {
		return nil, "", nil
	}
	known, damaged, err := validation.Read(path, j.cfg.Environment)
	if err != nil {
		if j.cfg.Env.SkipUnsound {
			return nil, path, fmt.Errorf("env.skip_unsound: %w", err)
		}
		j.out.Warn(fmt.Sprintf("%v; going on without them", err))
		return nil, path, nil
	}
	if damaged > 0 {
		j.out.Warn(fmt.Sprintf("%d lines of %s are no verdicts and count for nothing", damaged, path))
	}
	return known, path, nil
}

// keepSkipped writes down what a run leaves out when it begins.
func (j *job) keepSkipped(store *trajectories.Run) error {
	if !j.cfg.Env.SkipUnsound {
		return nil
	}
	path := filepath.Join(store.Dir(), skippedFile)
	if _, err := os.Stat(path); err == nil {
		return nil // a resumed run
	}
	return validation.Write(path, j.skipped)
}

// describeUnsound is a sentence about items of a set that are unsound.
func describeUnsound(found []validation.Verdict) string {
	counts := make(map[validation.Kind]int)
	var newest time.Time
	var names []string
	for _, v := range found {
		counts[v.Kind]++
		if v.At.After(newest) {
			newest = v.At
		}
		if len(names) < maxNamed {
			names = append(names, trajectories.ShortItemID(v.ItemID))
		}
	}
	var kinds []string
	for _, k := range validation.Kinds() {
		if counts[k] > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", counts[k], k))
		}
	}
	if more := len(found) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	items := "items"
	if len(found) == 1 {
		items = "item"
	}
	return fmt.Sprintf("validate found %d %s of this set unsound on %s (%s): %s", len(found), items, newest.Format(time.DateOnly), strings.Join(kinds, ", "), strings.Join(names, ", "))
}

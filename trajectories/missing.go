package trajectories

import "fmt"

// checkMissing compares rollouts.index with what was read from rollouts.jsonl. A rollout is in
// the index only after its line was synced, so one that is missing was taken away later.
// It says so in an error, or as a repair if that is allowed.
func (r *Run) checkMissing() error {
	indexed, missing, err := r.missing()
	if err != nil {
		return fmt.Errorf("compare %s with %s: %w", indexFile, rolloutsFile, err)
	}
	if len(missing) == 0 {
		return nil
	}
	what := fmt.Sprintf("%d of the %d finished rollouts that %s knows are gone", len(missing), indexed, indexFile)
	if missing[indexed-1] {
		what = "the file was cut, and " + what
	}
	if r.allowMissing {
		r.repaired("%s: %s; they run again", rolloutsFile, what)
		return nil
	}
	return fmt.Errorf("%w: %s: %s: put the file back from a copy, or add --allow-missing-rollouts to run them again; nothing was changed", ErrCorrupt, r.path(rolloutsFile), what)
}

// missing returns how many rollouts rollouts.index knows, and the numbers of those that are
// not recorded. A rewrite that was killed leaves an index of the file as it was before, so
// what is in superseded.jsonl is not missing.
func (r *Run) missing() (indexed int, missing map[int]bool, err error) {
	stream := r.openFrames()
	if stream == nil {
		return 0, nil, nil
	}
	defer stream.close()
	numbers := map[string]int{}
	for {
		f, err := stream.next()
		if err != nil {
			break
		}
		for _, e := range f.entries {
			if !r.index.hasID(e.ID) {
				numbers[e.ID] = indexed
			}
			indexed++
		}
	}
	if len(numbers) > 0 {
		if err := r.eachSuperseded(func(e Entry) { delete(numbers, e.ID) }); err != nil {
			return 0, nil, err
		}
	}
	missing = make(map[int]bool, len(numbers))
	for _, n := range numbers {
		missing[n] = true
	}
	return indexed, missing, nil
}

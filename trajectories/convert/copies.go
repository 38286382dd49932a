package convert

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// errEnough ends the reading of a file early.
var errEnough = errors.New("enough was read")

// firstRow is the first row of a file: its format, and its rollout's id if it has one.
type firstRow struct {
	file   string
	format Format
	id     string
}

// withoutCopies leaves out files that have the rollouts of another file of their folder in
// another format, such as a record and its trajectories under names of their own. The record
// stays, else the first file.
func withoutCopies(files []string) ([]string, error) {
	var folders []string
	byFolder := map[string][]firstRow{}
	for _, f := range files {
		folder := filepath.Dir(f)
		if byFolder[folder] == nil {
			folders = append(folders, folder)
		}
		byFolder[folder] = append(byFolder[folder], firstRow{file: f})
	}
	copies := map[string]bool{}
	for _, folder := range folders {
		rows := byFolder[folder]
		if len(rows) < 2 {
			continue
		}
		for i := range rows {
			if err := rows[i].read(); err != nil {
				return nil, err
			}
		}
		slices.SortStableFunc(rows, func(a, b firstRow) int { return b.rank() - a.rank() })
		for i, row := range rows {
			for _, other := range rows[:i] {
				if row.id == "" || other.id == "" || other.format == row.format || copies[other.file] || copies[row.file] {
					continue
				}
				found, err := hasRollout(other.file, row.id)
				if err != nil {
					return nil, err
				}
				copies[row.file] = found
			}
		}
	}
	return slices.DeleteFunc(files, func(f string) bool { return copies[f] }), nil
}

func (r *firstRow) rank() int {
	if r.format == Rollouts {
		return 1
	}
	return 0
}

func (r *firstRow) read() error {
	err := eachRecord(context.Background(), r.file, new(atomic.Int64), func(line record) error {
		if line.err == nil && !line.tooLong && chat.Valid(line.text) && isObject(line.text) {
			members := membersOf(line.text)
			if format, err := detect(members); err == nil {
				r.format = format
			}
			if id := members.Get("rollout_id"); isText(id) {
				r.id = chat.Unquote(id)
			}
		}
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// hasRollout reports whether a file has a row of a rollout.
func hasRollout(file, id string) (found bool, err error) {
	err = eachRecord(context.Background(), file, new(atomic.Int64), func(line record) error {
		if line.err != nil || line.tooLong || !chat.Valid(line.text) {
			return nil
		}
		if v := memberOf(line.text, "rollout_id"); isText(v) && chat.Unquote(v) == id {
			found = true
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

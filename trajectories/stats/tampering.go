package stats

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
)

// Tampering counts the rows whose agent tampered with the verification.
type Tampering struct {
	Rows       int     `json:"rows"`        // with an active entry
	Items      int     `json:"items"`       // of these rows
	Noted      int     `json:"noted_rows"`  // with entries that are noted only
	Kinds      []Count `json:"kinds"`       // rows by kind of active entries
	NotedKinds []Count `json:"noted_kinds"` // of the rows of Noted, by kind
	// Listed are the first rows of either sort, those with an active entry first.
	Listed []TamperedRow `json:"listed"`
}

// TamperedRow is a row with the entries of its record.
type TamperedRow struct {
	Item      string                   `json:"item_id"`
	Name      string                   `json:"-"` // of the item, for people
	Attempt   int                      `json:"attempt"`
	ID        string                   `json:"rollout_id"`
	Outcome   string                   `json:"outcome"`
	Score     *float64                 `json:"score"`
	Tampering []trajectories.Tampering `json:"tampering"` // active entries first
}

// Found says whether any row has an entry.
func (t *Tampering) Found() bool { return t.Rows+t.Noted > 0 }

// tamperings gathers what rows say of tampering.
type tamperings struct {
	limit         int // of rows that are listed
	rows, noted   int
	kinds, notes  counter
	items         map[uint64]struct{}
	active, other []TamperedRow
}

func newTamperings(limit int) tamperings {
	return tamperings{limit: limit, kinds: counter{}, notes: counter{}, items: map[uint64]struct{}{}}
}

func (t *tamperings) add(r *row, name string) {
	kinds := trajectories.KindsOfTampering(r.tampering)
	if kinds == nil {
		return
	}
	list := &t.other
	if kinds.Acted {
		list = &t.active
		t.rows++
		if len(t.items) < maxTracked {
			t.items[hash(r.item)] = struct{}{}
		}
		for _, kind := range kinds.Active {
			t.kinds.add(kind)
		}
	} else {
		t.noted++
		for _, kind := range kinds.Noted {
			t.notes.add(kind)
		}
	}
	if len(*list) < t.limit {
		entries := slices.Clone(r.tampering)
		slices.SortStableFunc(entries, func(a, b trajectories.Tampering) int {
			switch {
			case a.Active == b.Active:
				return 0
			case a.Active:
				return -1
			}
			return 1
		})
		*list = append(*list, TamperedRow{Item: strings.Clone(r.item), Name: strings.Clone(name), Attempt: r.attempt, ID: strings.Clone(r.id),
			Outcome: strings.Clone(r.outcome), Score: r.score, Tampering: entries})
	}
}

func (t *tamperings) result() Tampering {
	listed := append(append([]TamperedRow{}, t.active...), t.other...)
	return Tampering{Rows: t.rows, Items: len(t.items), Noted: t.noted, Kinds: t.kinds.list(), NotedKinds: t.notes.list(), Listed: listed[:min(t.limit, len(listed))]}
}

// tamperingIn reads the entries of a row in a form other than a record: in its details
// as messages have them, or in its metadata as ShareGPT rows do.
func tamperingIn(v gjson.Result) []trajectories.Tampering {
	if details := v.Get("details"); details.Type == gjson.String {
		return trajectories.DecodeTampering([]byte(gjson.Get(details.Str, "tampering").Raw))
	}
	if list := v.Get("tampering"); list.IsArray() {
		return trajectories.DecodeTampering([]byte(list.Raw))
	}
	return trajectories.DecodeTampering([]byte(v.Get("metadata.tampering").Str))
}

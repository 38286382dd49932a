package trajectories

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Tampering is one thing that the agent did to its verification, or to what the
// verification relies on.
type Tampering struct {
	Kind   string `json:"kind"`   // short and stable, to count by: reward_write, replaced, preload, …
	Target string `json:"target"` // what it concerns: a path, a process
	Detail string `json:"detail"` // for people
	// Active says that it acted on the verification, or was in place where the tests
	// ran. Otherwise it is noted only: it had no effect, or was undone.
	Active bool `json:"active"`
}

// MaxTampering is how many entries a record holds.
const MaxTampering = 50

// TamperingMore is the kind of the last entry of a list that was longer than
// MaxTampering; its detail counts the entries it stands for. It is not counted as a kind.
const TamperingMore = "more"

// Longest texts of an entry, in bytes.
const (
	maxTamperingKind   = 40
	maxTamperingTarget = 300
	maxTamperingDetail = 500
)

// BoundTampering returns the entries as a record holds them: at most MaxTampering, with
// short texts. A longer list keeps an entry of each kind, active ones before others, and
// ends in one of kind TamperingMore.
func BoundTampering(list []Tampering) []Tampering {
	if len(list) == 0 {
		return nil
	}
	bounded := make([]Tampering, len(list))
	for i, t := range list {
		bounded[i] = Tampering{
			Kind: cmp.Or(shortText(t.Kind, maxTamperingKind), "other"), Target: shortText(t.Target, maxTamperingTarget),
			Detail: shortText(t.Detail, maxTamperingDetail), Active: t.Active,
		}
	}
	if len(bounded) <= MaxTampering {
		return bounded
	}
	keep := importantTampering(bounded, MaxTampering-1)
	var kept []Tampering
	rest := Tampering{Kind: TamperingMore}
	counts := map[string]int{}
	for i, t := range bounded {
		if keep[i] {
			kept = append(kept, t)
			continue
		}
		rest.Active = rest.Active || t.Active
		counts[t.Kind]++
	}
	var kinds []string
	for kind, n := range counts {
		kinds = append(kinds, fmt.Sprintf("%s ×%d", kind, n))
	}
	slices.Sort(kinds)
	rest.Detail = shortText(fmt.Sprintf("%d more entries: %s", len(bounded)-len(kept), strings.Join(kinds, ", ")), maxTamperingDetail)
	return append(kept, rest)
}

// importantTampering chooses n entries: the first of each kind, then active ones, then
// the others, each in their order.
func importantTampering(list []Tampering, n int) map[int]bool {
	type group struct {
		kind   string
		active bool
	}
	rank := make([]int, len(list))
	seen := map[group]bool{}
	for i, t := range list {
		g := group{t.Kind, t.Active}
		switch {
		case !seen[g] && t.Active:
		case !seen[g]:
			rank[i] = 1
		case t.Active:
			rank[i] = 2
		default:
			rank[i] = 3
		}
		seen[g] = true
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank[a] - rank[b] })
	keep := map[int]bool{}
	for _, i := range order[:n] {
		keep[i] = true
	}
	return keep
}

// shortText returns the beginning of a text, at most limit bytes with the mark of the
// cut, without half a character at its end.
func shortText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}

// Tampered says whether the agent tampered with the verification: an entry is active.
func (r *Rollout) Tampered() bool { return activeTampering(r.Tampering) }

func activeTampering(list []Tampering) bool {
	return slices.ContainsFunc(list, func(t Tampering) bool { return t.Active })
}

// String describes an entry on one line.
func (t Tampering) String() string {
	text := t.Kind
	if t.Target != "" {
		text += " " + t.Target
	}
	if t.Detail != "" {
		text += " (" + t.Detail + ")"
	}
	return text
}

// TamperingKinds are the kinds of a rollout's entries.
type TamperingKinds struct {
	Active []string // of active entries, sorted, each once
	Noted  []string // of entries that are noted only and not among Active, sorted, each once
	Acted  bool     // an entry is active
}

// KindsOfTampering sorts the entries of a rollout by kind; nil when there are none.
func KindsOfTampering(list []Tampering) *TamperingKinds {
	if len(list) == 0 {
		return nil
	}
	k := &TamperingKinds{Acted: activeTampering(list)}
	for _, t := range list {
		switch {
		case t.Kind == TamperingMore:
		case t.Active:
			k.Active = append(k.Active, t.Kind)
		default:
			k.Noted = append(k.Noted, t.Kind)
		}
	}
	slices.Sort(k.Active)
	k.Active = slices.Compact(k.Active)
	slices.Sort(k.Noted)
	k.Noted = slices.Compact(slices.DeleteFunc(k.Noted, func(kind string) bool { return slices.Contains(k.Active, kind) }))
	return k
}

// Tampered says whether the agent of the rollout tampered with the verification.
func (e *Entry) Tampered() bool { return e.Tampering != nil && e.Tampering.Acted }

// TamperedFilter says which rollouts are taken by whether their agent tampered with the
// verification.
type TamperedFilter string

// The filters.
const (
	TamperedInclude TamperedFilter = "include" // all rollouts
	TamperedExclude TamperedFilter = "exclude" // those without an active entry
	TamperedOnly    TamperedFilter = "only"    // those with an active entry
	TamperedNoted   TamperedFilter = "noted"   // those whose entries are noted only
)

// ParseTamperedFilter reads the name of a filter.
func ParseTamperedFilter(name string) (TamperedFilter, error) {
	switch f := TamperedFilter(name); f {
	case TamperedInclude, TamperedExclude, TamperedOnly, TamperedNoted:
		return f, nil
	}
	return "", fmt.Errorf("%q is not a choice of rollouts: want %s, %s, %s or %s", name, TamperedInclude, TamperedExclude, TamperedOnly, TamperedNoted)
}

// Takes says whether a rollout with these entries is taken; nil stands for none. The
// zero filter takes all.
func (f TamperedFilter) Takes(k *TamperingKinds) bool {
	switch f {
	case TamperedExclude:
		return k == nil || !k.Acted
	case TamperedOnly:
		return k != nil && k.Acted
	case TamperedNoted:
		return k != nil && !k.Acted
	}
	return true
}

// TamperingText is the JSON text of a list of entries, as records and rows have it.
func TamperingText(list []Tampering) string {
	e := encoder{}
	e.tampering(list)
	return string(e.buf)
}

func (e *encoder) tampering(list []Tampering) {
	e.raw('[')
	for i, t := range list {
		if i > 0 {
			e.raw(',')
		}
		e.raw('{')
		e.text("kind", t.Kind)
		e.text("target", t.Target)
		e.text("detail", t.Detail)
		e.boolean("active", t.Active)
		e.raw('}')
	}
	e.raw(']')
}

// DecodeTampering reads a list of entries as records have it, bounded. Elements that are
// not objects are left out.
func DecodeTampering(raw []byte) []Tampering {
	var list []Tampering
	v := gjson.ParseBytes(raw)
	if !v.IsArray() {
		return nil
	}
	v.ForEach(func(_, item gjson.Result) bool {
		if item.IsObject() {
			list = append(list, Tampering{
				Kind: item.Get("kind").String(), Target: item.Get("target").String(),
				Detail: item.Get("detail").String(), Active: item.Get("active").Bool(),
			})
		}
		return true
	})
	return BoundTampering(list)
}

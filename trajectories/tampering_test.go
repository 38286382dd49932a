package trajectories

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestBoundTampering_KeepsShortLists(t *testing.T) {
	require.Nil(t, BoundTampering(nil))
	list := []Tampering{{Kind: "patched", Target: "/usr/bin/pytest", Detail: "one byte", Active: true}, {Kind: "removed", Target: "/bin/sed"}}
	require.Equal(t, list, BoundTampering(list))
	require.Equal(t, []Tampering{{Kind: "other"}}, BoundTampering([]Tampering{{}}), "every entry can be counted")
}

func TestBoundTampering_KeepsEveryKindOfALongList(t *testing.T) {
	var list []Tampering
	for i := range 500 {
		list = append(list, Tampering{Kind: "replaced", Target: fmt.Sprintf("/usr/bin/tool%d", i)})
	}
	for i := range 80 {
		list = append(list, Tampering{Kind: "reward_write", Target: fmt.Sprint(i), Active: true})
	}
	list = append(list, Tampering{Kind: "signal", Active: true}, Tampering{Kind: "startup"})
	got := BoundTampering(list)
	require.Len(t, got, MaxTampering)
	require.Equal(t, &TamperingKinds{Active: []string{"reward_write", "signal"}, Noted: []string{"replaced", "startup"}, Acted: true}, KindsOfTampering(got))
	require.Equal(t, Tampering{Kind: TamperingMore, Detail: "533 more entries: replaced ×499, reward_write ×34", Active: true}, got[MaxTampering-1])
	require.Equal(t, got, BoundTampering(got))
	active := 0
	for _, entry := range got[:MaxTampering-1] {
		if entry.Active {
			active++
		}
	}
	require.Equal(t, 47, active, "what acted goes before what is noted")
}

func TestBoundTampering_CutsLongTexts(t *testing.T) {
	got := BoundTampering([]Tampering{{Kind: strings.Repeat("k", 100), Target: strings.Repeat("ü", 5000), Detail: strings.Repeat("日", 5000)}})
	require.Len(t, got, 1)
	for text, limit := range map[string]int{got[0].Kind: maxTamperingKind, got[0].Target: maxTamperingTarget, got[0].Detail: maxTamperingDetail} {
		require.LessOrEqual(t, len(text), limit)
		require.True(t, utf8.ValidString(text))
		require.True(t, strings.HasSuffix(text, "…"))
	}
}

func TestRollout_ReadsRecordsWithoutTampering(t *testing.T) {
	line, err := AppendRollout(nil, simple("item", 0, 1))
	require.NoError(t, err)
	require.NotContains(t, string(line), "tampering")
	r, err := DecodeRollout(line)
	require.NoError(t, err)
	require.Nil(t, r.Tampering)
	e, err := parseEntry(line)
	require.NoError(t, err)
	require.Nil(t, e.Tampering)
	require.False(t, e.Tampered())
}

func TestDecodeTampering_LeavesOutWhatIsNotAnEntry(t *testing.T) {
	require.Nil(t, DecodeTampering([]byte(`"x"`)))
	require.Nil(t, DecodeTampering([]byte(`{"kind":"x"}`)))
	require.Equal(t, []Tampering{{Kind: "x", Active: true}, {Kind: "other"}}, DecodeTampering([]byte(`[1,{"kind":"x","active":true,"new":1},null,{}]`)))
}

func TestTamperedFilter_Takes(t *testing.T) {
	none, acted, noted := (*TamperingKinds)(nil), &TamperingKinds{Active: []string{"signal"}, Acted: true}, &TamperingKinds{Noted: []string{"replaced"}}
	for filter, want := range map[TamperedFilter][3]bool{
		"":              {true, true, true},
		TamperedInclude: {true, true, true},
		TamperedExclude: {true, false, true},
		TamperedOnly:    {false, true, false},
		TamperedNoted:   {false, false, true},
	} {
		require.Equal(t, want, [3]bool{filter.Takes(none), filter.Takes(acted), filter.Takes(noted)}, filter)
	}
	_, err := ParseTamperedFilter("yes")
	require.EqualError(t, err, `"yes" is not a choice of rollouts: want include, exclude, only or noted`)
}

// tampered is a rollout whose agent tampered with its verification.
func tampered(item string, step int) *Rollout {
	r := simple(item, step, 0)
	r.Tampering = []Tampering{{Kind: "signal", Target: "pytest", Active: true}, {Kind: "replaced", Target: "/usr/bin/curl"}}
	return r
}

func TestResume_KnowsTamperingFromTheIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run, err := create(dir, testInfo(t), testSettings())
	require.NoError(t, err)
	require.NoError(t, run.Append(context.Background(), tampered("item", 0)))
	require.NoError(t, run.Append(context.Background(), simple("item", 1, 0)))
	want := run.Entries()
	require.Equal(t, &TamperingKinds{Active: []string{"signal"}, Noted: []string{"replaced"}, Acted: true}, want[0].Tampering)
	require.NoError(t, run.Close(StatusInterrupted))
	run, known := resumedFrom(t, dir)
	require.Equal(t, 2, known)
	require.Equal(t, want, run.Entries())
	require.NoError(t, run.Close(StatusInterrupted))
	require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
	run, known = resumedFrom(t, dir)
	require.Zero(t, known)
	require.Equal(t, want, run.Entries(), "parsed from the lines")
	require.NoError(t, run.Close(StatusInterrupted))
}

func TestResume_RewritesTrajectoriesWithoutTheColumnTampered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run, err := create(dir, testInfo(t), testSettings())
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, run.Append(context.Background(), simple("item", i, 0)))
	}
	require.NoError(t, run.Close(StatusInterrupted))
	path := filepath.Join(dir, trajectoriesFile)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	old := strings.NewReplacer(`"tampered":false,`, "", `"tampering":"[]",`, "").Replace(string(whole))
	require.NotContains(t, old, "tamper")
	require.NoError(t, os.WriteFile(path, []byte(old), 0o644))
	index, err := os.ReadFile(filepath.Join(dir, indexFile))
	require.NoError(t, err)
	older := "hermes-env rollouts index 1\n" + string(index[len(indexHeader):])
	require.NoError(t, os.WriteFile(filepath.Join(dir, indexFile), []byte(older), 0o644))
	run = mustResume(t, dir)
	require.Contains(t, strings.Join(run.Repairs(), "\n"), "trajectories.jsonl: kept 0 lines, wrote 3 again")
	require.NoError(t, run.Append(context.Background(), tampered("item", 3)))
	require.NoError(t, run.Close(StatusInterrupted))
	lines := readLines(t, path)
	require.Len(t, lines, 4)
	for i, line := range lines {
		require.Equal(t, 1, strings.Count(line, fmt.Sprintf(`"tampered":%t,`, i == 3)), "every line has the same columns")
	}
	checkAgreement(t, dir)
}

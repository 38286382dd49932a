package report

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteRun_ShowsLimitsOfTheTests(t *testing.T) {
	limited := rollout("a", 0, pointer(1.0), "plain")
	limited.Metadata = json.RawMessage(`{"verifier":{"loaded_by_tests":["/app/x.py"],"changed_by_program":["/app/expected"]}}`)
	again := rollout("a", 1, pointer(1.0), "plain")
	again.Metadata = limited.Metadata
	page := build(t, Config{}, Run{Title: "x"}, limited, again, rollout("c", 0, pointer(0.0), "plain"))
	requireSafe(t, page, 3)
	require.Contains(t, page, `<h2>Limits of the tests</h2>`)
	require.Regexp(t, `loaded_by_tests</th><td>[^<]*</td><td class="num">2</td><td class="num">1</td><td><div>a · /app/x.py</div>`, page)
	require.Contains(t, page, `a · /app/expected`)
	require.NotContains(t, page, "not_isolated")
	hostileOne := rollout("a", 0, pointer(1.0), "plain")
	hostileOne.Metadata, _ = json.Marshal(map[string]any{"verifier": map[string]any{"not_isolated": hostile}})
	requireSafe(t, build(t, Config{}, Run{Title: "x"}, hostileOne), 1)
	require.NotContains(t, build(t, Config{}, Run{Title: "x"}, rollout("c", 0, pointer(0.0), "plain")), "Limits of the tests")
}

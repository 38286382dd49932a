package trajectories

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestItemsKnownByTheirContentHaveShortNames(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	for name, c := range map[string]struct{ id, metadata, short, name string }{
		"a digest":                     {digest, `{"row":17,"x":1}`, "sha256:0123456789ab…", "row 18 (sha256:0123456789ab…)"},
		"one of a row that is doubled": {digest + "#2", `{"row":18}`, "sha256:0123456789ab…#2", "row 19 (sha256:0123456789ab…#2)"},
		"a digest without a row":       {digest, ``, "sha256:0123456789ab…", "sha256:0123456789ab…"},
		"a row that is no number":      {digest, `{"row":"x"}`, "sha256:0123456789ab…", "sha256:0123456789ab…"},
		"a name":                       {"fix-git", `{"row":17}`, "fix-git", "fix-git"},
		"almost a digest":              {digest + "0", `{"row":1}`, "sha256:0123456789abcdef0123456789abcdef…def0123456789abcdef0", "row 2 (sha256:0123456789abcdef0123456789abcdef…def0123456789abcdef0)"},
		"a long name":                  {strings.Repeat("ä", 70) + "/17", ``, strings.Repeat("ä", 39) + "…" + strings.Repeat("ä", 17) + "/17", strings.Repeat("ä", 39) + "…" + strings.Repeat("ä", 17) + "/17"},
		"no digits":                    {"sha256:xyz", `{"row":1}`, "sha256:xyz", "sha256:xyz"},
		"what a terminal obeys":        {"a\x1b[2Jb", ``, `"a\x1b[2Jb"`, `"a\x1b[2Jb"`},
		"letters of any language":      {"größe-名前", ``, "größe-名前", "größe-名前"},
		"nothing":                      {"", `{"row":1}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.short, ShortItemID(c.id))
			r := Rollout{ItemID: c.id, Metadata: json.RawMessage(c.metadata)}
			require.Equal(t, c.name, r.ItemName())
		})
	}
}

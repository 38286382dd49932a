package trajectories

import (
	"encoding/json"
	"slices"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// verificationMembers are the members of a rollout's metadata that say how it was verified.
// Their keys differ from rollout to rollout.
var verificationMembers = []string{"verifier", "stages", "untrusted_score", "untrusted_score_parts"}

// SplitMetadata splits the metadata of a rollout into what the environment says of the item,
// which has the same keys in every rollout, and what its verification found. Each is a compact
// JSON object, or nil if it has no members or metadata is not an object.
func SplitMetadata(metadata json.RawMessage) (item, verification json.RawMessage) {
	if len(metadata) == 0 {
		return nil, nil
	}
	object, err := chat.ParseObject(metadata)
	if err != nil {
		return nil, nil
	}
	var parts [2]chat.Object
	for _, m := range object {
		i := 0
		if slices.Contains(verificationMembers, m.Key) {
			i = 1
		}
		parts[i] = append(parts[i], m)
	}
	text := func(o chat.Object) json.RawMessage {
		if len(o) == 0 {
			return nil
		}
		return chat.Compact(o.Append(nil))
	}
	return text(parts[0]), text(parts[1])
}

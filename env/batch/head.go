package batch

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
)

// head is what a recorded rollout says of itself before its conversation.
type head struct {
	item     string
	outcome  trajectories.Outcome
	finished time.Time
	metadata json.RawMessage
}

// readHead reads a line of rollouts.jsonl up to the conversation.
func readHead(line []byte) (h head) {
	gjson.ParseBytes(line).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "item_id":
			h.item = v.String()
		case "outcome":
			h.outcome = trajectories.Outcome(v.String())
		case "finished_at":
			h.finished, _ = time.Parse(time.RFC3339, v.Str) // the store wrote it
		case "metadata":
			h.metadata = json.RawMessage(v.Raw)
			return false
		}
		return key.Str != "messages"
	})
	return h
}

func (h *head) place() (trajectories.BatchRow, error) { return placeOf(h.metadata) }

// placeOf says where a rollout's row belongs, from what the environment noted about it.
func placeOf(metadata json.RawMessage) (trajectories.BatchRow, error) {
	index, batch := gjson.GetBytes(metadata, "prompt_index"), gjson.GetBytes(metadata, "batch_num")
	if index.Type != gjson.Number || batch.Type != gjson.Number || index.Num < 0 || batch.Num < 0 {
		return trajectories.BatchRow{}, fmt.Errorf("the rollout has no prompt_index and batch_num: %w", trajectories.ErrCorrupt)
	}
	return trajectories.BatchRow{PromptIndex: int(index.Int()), BatchNum: int(batch.Int())}, nil
}

package env

import (
	"encoding/json"
	"fmt"

	"github.com/hermes-env/hermes-env/trajectories"
)

// itemName names an item in messages: by its id, or by the row it comes from where the id
// is a digest that tells people nothing.
func (r *Runner) itemName(item Item) string {
	if trajectories.ShortItemID(item.ID) == item.ID {
		return fmt.Sprintf("item %q", item.ID)
	}
	var metadata json.RawMessage
	// The item of a recorded group may be gone from the dataset, and its value with it.
	if d, ok := r.opts.Environment.(Describer); ok && item.Value != nil {
		metadata = d.Describe(item)
	}
	return trajectories.ItemName(item.ID, metadata)
}

package trajectories

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// digestDigits is how many digits of a digest people are shown: enough to tell the rows
// of any data set apart, and to find one by.
const digestDigits = 12

// maxIDRunes is how much of an id people are shown.
const maxIDRunes = 60

// ShortItemID is an item's id for people. Items that are known by their content have a
// digest for an id, which is cut; what follows it ("#2", of a row that occurs twice)
// stays. Of other ids long ones lose their middle. They are quoted where they hold what a
// terminal obeys or doesn't show.
func ShortItemID(id string) string {
	digits, found := strings.CutPrefix(id, "sha256:")
	if !found {
		if hidden := func(r rune) bool { return !unicode.IsPrint(r) }; strings.ContainsFunc(id, hidden) {
			return shortened(strconv.Quote(id))
		}
		return shortened(id)
	}
	n := 0
	for n < len(digits) && strings.IndexByte("0123456789abcdef", digits[n]) >= 0 {
		n++
	}
	if n != 64 {
		return shortened(id)
	}
	return "sha256:" + digits[:digestDigits] + "…" + digits[n:]
}

// shortened cuts the middle out of a long id: both ends may tell items apart.
func shortened(id string) string {
	runes := []rune(id)
	if len(runes) <= maxIDRunes {
		return id
	}
	const end = maxIDRunes / 3
	return string(runes[:maxIDRunes-end-1]) + "…" + string(runes[len(runes)-end:])
}

// ItemName is an item's id for people, after the number of its row where the id says
// nothing and the metadata of the rollout has one. People count rows from 1, as error
// messages do; the metadata counts from 0.
func ItemName(id string, metadata json.RawMessage) string {
	short := ShortItemID(id)
	if short == id {
		return id
	}
	if row := gjson.GetBytes(metadata, "row"); row.Type == gjson.Number {
		return fmt.Sprintf("row %d (%s)", row.Int()+1, short)
	}
	return short
}

// ItemName is the rollout's item for people.
func (r *Rollout) ItemName() string { return ItemName(r.ItemID, r.Metadata) }

package env

import (
	"encoding/json"

	"github.com/hermes-env/hermes-env/agentloop/model"
)

// GroupName is a group of items in tables, for example category "games".
type GroupName struct {
	Kind string
	Name string
}

// Grouper sorts items into groups that the summary shows apart.
type Grouper interface {
	// Groups returns the groups of an item, one of each kind, in the order of the kinds.
	Groups(itemID string) []GroupName
}

// Protocol is implemented by environments of published benchmarks, whose results are
// set beside others'.
type Protocol interface {
	// HasProtocol says whether there are published results to compare with at all.
	HasProtocol() bool
	// Deviations says, in words for people, what makes results incomparable with them.
	Deviations() []string
}

// DatasetDescriber says where an environment's items come from, once it is set up.
type DatasetDescriber interface {
	// Dataset returns a JSON object for run.json and a digest of the content.
	Dataset() (description json.RawMessage, digest string, err error)
}

// Pricer has model servers of its own, such as a judge's.
type Pricer interface {
	// Prices returns what they charge, nil for one whose prices are not known.
	Prices() []*model.Price
}

// Noter has remarks for the summary of a run, such as how many rows of the dataset
// could not be used.
type Noter interface {
	Notes() []string
}

// Closer gives up what an environment holds: processes, files. It is called once,
// when nothing runs any more, also when Setup failed.
type Closer interface {
	Close() error
}

// GroupResult is how the items of a group fared.
type GroupResult struct {
	GroupName
	Items    int
	Rollouts int // without cancelled ones
	Passed   int
	Score    Estimate // over scored rollouts
}

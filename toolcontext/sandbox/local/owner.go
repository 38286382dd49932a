package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-env/hermes-env/internal/owner"
)

// ownerFile is the content of owner.json, for people who look into a sandbox's
// directory; Reap goes by the directory's name, which a command can't forge.
type ownerFile struct {
	PID       int       `json:"pid"`
	StartTime uint64    `json:"start_time"`
	BootID    string    `json:"boot_id"`
	Run       string    `json:"run,omitempty"`
	Rollout   string    `json:"rollout,omitempty"`
	Created   time.Time `json:"created"`
}

// writeOwner writes owner.json.
func writeOwner(o owner.Owner, dir, run, rollout string) error {
	data, err := json.Marshal(ownerFile{
		PID: o.PID, StartTime: o.Start, BootID: o.Boot, Run: run, Rollout: rollout, Created: time.Now().UTC(),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "owner.json"), append(data, '\n'), 0o600)
}

package local

import (
	"errors"
	"fmt"
	"os"

	"github.com/hermes-env/hermes-env/internal/owner"
)

// Report is what local sandboxes find on this machine, for people who look for the
// reason why something does not work.
type Report struct {
	BaseDir       string // holds the sandboxes' directories
	Shell         string // runs scripts
	ControlGroups bool   // processes are told by control groups; else they are searched
	Held          int    // sandboxes of harnesses that live
	Abandoned     int    // sandboxes of dead ones
}

// Report looks at the provider's surroundings and changes nothing.
func (p *Provider) Report() (Report, error) {
	r := Report{BaseDir: p.config.BaseDir, Shell: p.config.Shell, ControlGroups: p.groups != nil}
	entries, err := os.ReadDir(p.config.BaseDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, fmt.Errorf("look for abandoned local sandboxes: %w", err)
	}
	for _, entry := range entries {
		o, err := owner.ParseName(entry.Name())
		switch {
		case err != nil || !entry.IsDir():
		case o.Alive():
			r.Held++
		default:
			r.Abandoned++
		}
	}
	return r, nil
}

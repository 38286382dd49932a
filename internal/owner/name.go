package owner

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// NewName returns a name that no other has and that carries the owner: a directory
// or an instance of that name never exists without saying whose it is. It has
// lower-case letters, digits and dashes, and no more than 72 of them.
func (o Owner) NewName() string {
	return fmt.Sprintf("%d-%d-%s-%s-%s", o.PID, o.Start, o.Boot, o.Place, strings.ToLower(rand.Text()[:10]))
}

// ParseName reads the owner out of a name made by NewName.
func ParseName(name string) (Owner, error) {
	parts := strings.Split(name, "-")
	if len(parts) != 5 || parts[4] == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return Owner{}, fmt.Errorf("%q is not the name of a sandbox", name)
	}
	return Parse(parts[0], parts[1], parts[2], parts[3])
}

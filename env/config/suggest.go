package config

import (
	"strings"

	"github.com/hermes-env/hermes-env/internal/spelling"
)

// nearest returns the candidate most like name: the one that name misspells, else the first one
// that begins with name. It returns "" if there is neither.
func nearest(name string, candidates []string) string {
	best := spelling.Nearest(name, candidates)
	if best != "" || len(name) < 4 || len(name) > 100 {
		return best
	}
	for _, c := range candidates {
		if strings.HasPrefix(spelling.Fold(c), spelling.Fold(name)) {
			return c
		}
	}
	return ""
}

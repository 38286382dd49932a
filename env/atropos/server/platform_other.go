//go:build !unix || aix || solaris

package server

import (
	"math"
	"strings"
)

// inUse says whether an address could not be listened on since another does.
func inUse(err error) bool { return strings.Contains(err.Error(), "in use") }

// freeSpace is not known here.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }

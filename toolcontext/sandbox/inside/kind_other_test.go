//go:build !linux

package inside_test

import (
	"os/exec"
	"testing"
)

// kind is a way to start a server; here there is one.
type kind struct{}

func kinds() map[string]kind { return map[string]kind{"a child": {}} }

func (kind) base(tb testing.TB) string { return tb.TempDir() }

func (kind) apply(*exec.Cmd, string) error { return nil }

func furnish() error { return nil }

// listenVariable is for tests of Linux.
const listenVariable = "TEST_LISTEN"

func listen(string) int { return 1 }

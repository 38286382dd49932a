package terminalbench

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// sharedDir holds what several tests build once.
var sharedDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hermes-env-terminalbench-test-")
	if err != nil {
		panic(err)
	}
	sharedDir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

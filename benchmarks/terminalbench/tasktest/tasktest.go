// Package tasktest gives tests the demonstration tasks: their folders, the images
// they start from, which are made from Debian packages and never pulled, and the
// same tasks as the Parquet file of a dataset.
//
// It is for tests and needs their files, so it never works from an installed binary.
package tasktest

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// Folder returns the folder with the twelve tasks that are sound.
func Folder(t testing.TB) string { return testdata(t, "tasks") }

// BrokenFolder returns the folder with the tasks that have one fault each.
func BrokenFolder(t testing.TB) string { return testdata(t, "broken") }

func testdata(t testing.TB, name string) string {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	require.True(t, ok)
	return filepath.Join(filepath.Dir(here), "..", "testdata", name)
}

// MakeImages makes the images that the tasks start from, unless they are there. Where
// no engine answers the test skips or fails, as dockertest.RequireEngine does.
func MakeImages(t testing.TB) {
	t.Helper()
	dockertest.RequireEngine(t)
	out, err := exec.CommandContext(context.Background(), testdata(t, "base-images")).CombinedOutput()
	require.NoError(t, err, "make the base images: %s", out)
}

// ReplayScript returns the file with what the embedded model answers to the tasks.
func ReplayScript(t testing.TB) string { return testdata(t, "replay.yaml") }

package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
)

func TestWallText_TellsTheSessionFromTheRun(t *testing.T) {
	require.Equal(t, "14s", wallText(&env.Summary{Wall: 14 * time.Second, Active: 14 * time.Second}))
	require.Equal(t, "15s (2s in this session)", wallText(&env.Summary{Wall: 2 * time.Second, Active: 15 * time.Second}))
}

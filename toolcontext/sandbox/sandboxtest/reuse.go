package sandboxtest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// used are the sandboxes that tests are done with and others may have. The provider's
// Close closes those nobody takes. A nil one keeps none.
type used struct {
	mu    sync.Mutex
	spare []sandbox.Sandbox
	kept  map[string]string // what was there at first, by the sandbox's id
}

// take returns a sandbox that nobody uses, or nil.
func (u *used) take(t *testing.T) *box {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.spare) == 0 {
		return nil
	}
	last := len(u.spare) - 1
	b := &box{u.spare[last], t}
	u.spare = u.spare[:last]
	t.Cleanup(func() { u.done(t, b.Sandbox) })
	return b
}

// places runs a script in each of a sandbox's directories.
const places = `for place in "$HOME_OF" "$WORK_OF" "$TEMP_OF"; do cd -- "$place" || exit 1; `

func environment(info sandbox.Info) map[string]string {
	return map[string]string{"HOME_OF": info.Home, "WORK_OF": info.Dir, "TEMP_OF": info.TempDir}
}

// note remembers what is in the directories of a new sandbox: names between slashes,
// which no name contains.
func (u *used) note(b *box) {
	if u == nil {
		return
	}
	b.t.Helper()
	r := b.exec(sandbox.Command{Script: places + `printf "/%s/" .* *; done`, Env: environment(b.Info())})
	require.Zero(b.t, r.ExitCode, "%v", r)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kept == nil {
		u.kept = map[string]string{}
	}
	u.kept[b.Info().ID] = r.Stdout.String()
}

// done closes a sandbox, or cleans it for the next test.
func (u *used) done(t *testing.T, s sandbox.Sandbox) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if u == nil || t.Failed() {
		require.NoError(t, s.Close(ctx))
		return
	}
	u.mu.Lock()
	kept := u.kept[s.Info().ID]
	u.mu.Unlock()
	err := s.KillAll(ctx)
	if errors.Is(err, sandbox.ErrClosed) {
		require.NoError(t, s.Close(ctx), "a second Close")
		return
	}
	require.NoError(t, err)
	// Sessions go on where they were, which is about to be removed.
	r, err := s.Exec(ctx, sandbox.Command{Script: "cd -- " + textutil.ShellQuote(s.Info().Dir), Session: true})
	require.NoError(t, err)
	require.Zero(t, r.ExitCode, "%v", r)
	env := environment(s.Info())
	env["KEPT"] = kept
	r, err = s.Exec(ctx, sandbox.Command{Env: env, Script: places + `for f in .* *; do case "$KEPT" in *"/$f/"*) continue ;; esac; ` +
		`[ -e "./$f" ] || [ -L "./$f" ] || continue; rm -rf -- "./$f" 2>/dev/null || { chmod -R u+rwx -- "./$f"; rm -rf -- "./$f"; } || exit 1; done; done`})
	require.NoError(t, err)
	require.Zero(t, r.ExitCode, "clean the sandbox for the next test: %v", r)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spare = append(u.spare, s)
}

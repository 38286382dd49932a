package inside

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

// reapPause is the least time between two looks for ended orphans.
const reapPause = 250 * time.Millisecond

// reapOrphans takes the exit status of adopted processes until ctx ends, so that
// none stays behind as a zombie.
func reapOrphans(ctx context.Context, p *local.Provider) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	pause := time.NewTimer(reapPause)
	defer pause.Stop()
	for {
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
		pause.Reset(reapPause)
		select { // more may end meanwhile
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		select {
		case <-ended:
		default:
		}
		p.ReapOrphans()
	}
}

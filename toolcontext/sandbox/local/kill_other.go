//go:build !linux

package local

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// eradicate kills the process groups of a scope and waits until they are empty.
// Processes that made a session of their own are out of reach here.
func eradicate(ctx context.Context, sc scope, bound time.Duration) error {
	groups := make([]int, 0, len(sc.sessions)+1)
	for id := range sc.sessions {
		groups = append(groups, id)
	}
	if sc.leader != 0 {
		groups = append(groups, sc.leader)
	}
	deadline := time.Now().Add(bound)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		left := 0
		for _, id := range groups {
			if syscall.Kill(-id, syscall.SIGKILL) == nil {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d process groups survived SIGKILL for %v", left, bound)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		time.Sleep(pause)
	}
}

package docker

import (
	"context"
	"fmt"
)

// What of its limits a sandbox has to use for that to be why its server does not answer.
const (
	fullMemory = 0.97
	fullPIDs   = 0.9
	fullCPU    = 0.5 // of the periods, while there are many processes
	manyBusy   = 50
)

// exhausted says what a container has used up, "" for nothing.
func (u use) exhausted() string {
	switch {
	case u.MemoryLimit > 0 && float64(u.Memory) >= fullMemory*float64(u.MemoryLimit):
		return fmt.Sprintf("what ran in it had used up its memory (%d of %d MiB)", u.Memory>>20, u.MemoryLimit>>20)
	case u.PIDsLimit > 0 && float64(u.Processes) >= fullPIDs*float64(u.PIDsLimit):
		return fmt.Sprintf("what ran in it had used up its processes (%d of %d)", u.Processes, u.PIDsLimit)
	}
	if u.Processes >= manyBusy && float64(u.Throttled) >= fullCPU*float64(max(u.Periods, 1)) {
		return fmt.Sprintf("what ran in it had used up its processors (%d processes; the limit was reached in %d of %d periods)", u.Processes, u.Throttled, u.Periods)
	}
	return ""
}

// examine looks why the server does not answer. Where the sandbox has used up what it may
// have, its container is ended, so that it starts again with its files: a rollout must not
// gain by holding up the harness. Otherwise nothing is done: the machine may be slow.
func (s *server) examine() {
	ctx, cancel := context.WithTimeout(context.Background(), endingLimit)
	defer cancel()
	engine := s.box.provider.engine
	st, err := engine.inspect(ctx, s.box.container)
	if err != nil || !st.Running || st.Status == "paused" {
		return
	}
	used, err := engine.use(ctx, s.box.container)
	if err != nil {
		return
	}
	why := used.exhausted()
	if why == "" {
		return
	}
	s.stopping.Lock()
	s.stopped = "its server did not answer: " + why
	s.stopping.Unlock()
	if err := engine.kill(ctx, s.box.container); err != nil {
		s.box.provider.warnOnce(fmt.Sprintf("sandbox %s does not answer (%s) and can't be ended: %v", s.box.info.ID, why, err))
	}
}

// whyStopped says why the harness has ended the container, "" when it has not.
func (s *server) whyStopped() string {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	why := s.stopped
	s.stopped = ""
	return why
}

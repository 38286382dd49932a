package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// outOfMemory returns when the engine last noted that memory ran out in a container; zero
// where it knows of no such time.
func (e *engine) outOfMemory(ctx context.Context, id string) (last time.Time, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, errs := e.api.Events(ctx, events.ListOptions{
		Since: "1", Until: fmt.Sprintf("%.9f", float64(time.Now().UnixNano())/1e9), // what it still remembers
		Filters: filters.NewArgs(filters.Arg("container", id), filters.Arg("event", string(events.ActionOOM))),
	})
	for {
		select {
		case m := <-messages:
			if at := time.Unix(0, m.TimeNano); at.After(last) {
				last = at
			}
		case err := <-errs:
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return last, err
		}
	}
}

// use is what a container takes of what it may have; a limit of 0 is none.
type use struct {
	Memory, MemoryLimit  int64
	Processes, PIDsLimit int64
	// Periods are those in which a limit on processors was looked at, Throttled those in
	// which it was reached.
	Periods, Throttled uint64
}

// use asks how much a container takes.
func (e *engine) use(ctx context.Context, id string) (use, error) {
	r, err := e.api.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return use{}, translate(err)
	}
	defer r.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&s); err != nil {
		return use{}, fmt.Errorf("read what the container uses: %w", err)
	}
	return use{
		Memory: int64(s.MemoryStats.Usage), MemoryLimit: int64(s.MemoryStats.Limit),
		Processes: int64(s.PidsStats.Current), PIDsLimit: int64(s.PidsStats.Limit),
		Periods: s.CPUStats.ThrottlingData.Periods, Throttled: s.CPUStats.ThrottlingData.ThrottledPeriods,
	}, nil
}

// kill ends all processes of a container.
func (e *engine) kill(ctx context.Context, id string) error {
	return translate(e.api.ContainerKill(ctx, id, "KILL"))
}

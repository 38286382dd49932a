package terminalbench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxTasksNamed bounds the tasks that a note names.
const maxTasksNamed = 5

// taskCount counts, by task, rollouts of this session of which the same is to be said.
type taskCount struct {
	mu       sync.Mutex
	rollouts map[string]int
	examples map[string]string // of each task
}

func (c *taskCount) add(task, example string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rollouts == nil {
		c.rollouts, c.examples = map[string]int{}, map[string]string{}
	}
	c.rollouts[task]++
	c.examples[task] = example
}

// note says for how many tasks that holds; nothing if there are none. format has room for
// both counts and the names.
func (c *taskCount) note(format string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rollouts) == 0 {
		return nil
	}
	total := 0
	var names []string
	for _, task := range slices.Sorted(maps.Keys(c.rollouts)) {
		total += c.rollouts[task]
		if len(names) < maxTasksNamed {
			names = append(names, fmt.Sprintf("%s (%s)", task, c.examples[task]))
		}
	}
	if more := len(c.rollouts) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return []string{fmt.Sprintf(format, len(c.rollouts), total, strings.Join(names, ", "))}
}

// count counts what a verification has found.
func (e *Environment) count(v *verification, score float64) {
	if score > 0 {
		return
	}
	if service := v.listened(); service != "" {
		e.stopped.add(v.task.name, service)
	}
}

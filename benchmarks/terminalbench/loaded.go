package terminalbench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxLoadedNamed bounds the tasks that a note names.
const maxLoadedNamed = 5

// loadedTasks counts, by task, the rollouts of this session whose tests loaded the
// agent's code into their own process.
type loadedTasks struct {
	mu       sync.Mutex
	rollouts map[string]int
	files    map[string]string // an example of each
}

func (l *loadedTasks) add(task string, files []string) {
	if len(files) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rollouts == nil {
		l.rollouts, l.files = map[string]int{}, map[string]string{}
	}
	l.rollouts[task]++
	l.files[task] = files[0]
}

// note says for how many tasks that holds; nothing if there are none.
func (l *loadedTasks) note() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rollouts) == 0 {
		return nil
	}
	total := 0
	var names []string
	for _, task := range slices.Sorted(maps.Keys(l.rollouts)) {
		total += l.rollouts[task]
		if len(names) < maxLoadedNamed {
			names = append(names, fmt.Sprintf("%s (%s)", task, l.files[task]))
		}
	}
	if more := len(l.rollouts) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return []string{fmt.Sprintf("the tests of %d tasks (%d rollouts of this session) load the agent's code into their own process, where no harness can detect a forged reward: %s", len(l.rollouts), total, strings.Join(names, ", "))}
}

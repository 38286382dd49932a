package tracking

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// kept notes the steps and figures of every log.
type kept struct {
	steps  []int
	values []map[string]float64
	closed int
}

func (k *kept) Log(step int, metrics []Metric, _ []Table) error {
	k.steps, k.values = append(k.steps, step), append(k.values, byName(metrics))
	return nil
}

func (k *kept) Close() error { k.closed++; return nil }

func TestARecorderLogsWhenEnoughHasHappened(t *testing.T) {
	for _, tt := range []struct {
		name      string
		minItems  int
		wantSteps []int
	}{
		{"two items", 2, []int{2, 4}},
		{"every item", 0, []int{1, 2, 3, 4, 5}},
		{"negative is every item", -3, []int{1, 2, 3, 4, 5}},
		{"more than there are", 9, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink := &kept{}
			r := NewRecorder(RecorderConfig{Window: NewWindow(WindowConfig{}), Sink: sink, MinItems: tt.minItems})
			for step := 1; step <= 5; step++ {
				if step%2 == 0 {
					r.Window().Rejected("why", time.Second)
				} else {
					r.Window().Sent(time.Second)
				}
				r.Tick(step, nil)
				r.Tick(step, nil)
			}
			require.Equal(t, tt.wantSteps, sink.steps)
		})
	}
}

func TestARecorderWaitsBetweenLogsButNotForTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &kept{}
		r := NewRecorder(RecorderConfig{Window: NewWindow(WindowConfig{}), Sink: sink, Every: 5 * time.Second})
		for step := 1; step <= 11; step++ {
			time.Sleep(time.Second)
			r.Window().Sent(time.Second)
			r.Tick(step, func() []Metric { return []Metric{{"train/score", float64(step)}} })
		}
		r.Log(11, []Metric{{"train/items_sent_to_api", 99}, {"train/done", 1}})
		r.Close()
		r.Close()
		r.Log(12, nil)
		r.Tick(12, nil)
		require.Equal(t, []int{5, 10, 11}, sink.steps)
		require.Equal(t, 5.0, sink.values[0]["train/items_sent_to_api"])
		require.Equal(t, 10.0, sink.values[1]["train/score"])
		require.Equal(t, 99.0, sink.values[2]["train/items_sent_to_api"], "further figures win")
		require.Equal(t, 1.0, sink.values[2]["train/done"])
		require.Equal(t, 1, sink.closed)
	})
}

func TestStepsNeverGoDown(t *testing.T) {
	sink := &kept{}
	r := NewRecorder(RecorderConfig{Window: NewWindow(WindowConfig{}), Sink: sink})
	for _, step := range []int{3, 1, 4} {
		r.Log(step, nil)
	}
	require.Equal(t, []int{3, 3, 4}, sink.steps)
}

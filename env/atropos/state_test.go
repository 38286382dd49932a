package atropos

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// clockless is a moment: the state is told the time and never looks.
func clockless(seconds int) time.Time { return time.Unix(1_000_000+int64(seconds), 0) }

func entry(n int64, env *int64) *Entry {
	return &Entry{Sequences: n, Tokens: n * 10, EnvID: env, Place: Place{Length: n * 100}}
}

func TestTheStateIsTheSameAfterReplayAndAfterASnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SampledFrom([]Rules{{}, OriginalRules(), {Reregister: ReregisterRefuse}}).Draw(t, "rules")
		s := NewState(rules, "g")
		first, err := s.Snapshot()
		require.NoError(t, err)
		replayed, err := RestoreState(rules, first)
		require.NoError(t, err)
		live := map[uint64]int64{}
		s.OnDrop(func(e *Entry) {
			require.Contains(t, live, e.ID, "data is let go once")
			delete(live, e.ID)
		})
		delivered := map[uint64]bool{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now := clockless(i * 10)
			var events []*Event
			record := func(e *Event) { events = append(events, e) }
			switch rapid.SampledFrom([]string{"post", "post", "post", "batch", "batch", "register", "env", "disconnect", "reset", "look", "lost"}).Draw(t, "step") {
			case "post":
				var list []*Entry
				for range rapid.IntRange(1, 3).Draw(t, "groups") {
					var env *int64
					if rapid.Bool().Draw(t, "known") {
						id := rapid.Int64Range(0, 3).Draw(t, "env")
						env = &id
					}
					list = append(list, entry(rapid.Int64Range(1, 5).Draw(t, "size"), env))
				}
				_, event := s.Add(list, true, rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(t, "key"), "p", now)
				for _, e := range list {
					live[e.ID] = e.Place.Length
				}
				record(event)
			case "batch":
				if !s.Registered {
					continue
				}
				record(s.Start())
				for _, id := range s.Misfits() {
					record(s.Dissolve(id))
				}
				acks := rapid.Bool().Draw(t, "acknowledges")
				batch := s.Next(acks)
				if batch == nil {
					record(s.Form(now))
					batch = s.Next(acks)
				}
				if batch != nil {
					require.Equal(t, s.Trainer.BatchSize, batch.Sequences())
					for _, e := range batch.Entries {
						require.False(t, delivered[e.ID], "a group is delivered in one batch")
					}
					if acks && rapid.Bool().Draw(t, "vanishes") {
						record(s.Sent(batch.ID))
					} else {
						for _, e := range batch.Entries {
							delivered[e.ID] = true
						}
						event, ok := s.Done(batch.ID)
						require.True(t, ok)
						require.True(t, s.Delivered(batch.ID))
						record(event)
					}
				}
			case "register":
				// A batch that waits for its acknowledgement keeps its size, so that size stays.
				event, err := s.Register(Registration{BatchSize: 8, NumSteps: rapid.Int64Range(1, 2).Draw(t, "steps")})
				if err != nil {
					require.ErrorIs(t, err, ErrConflict)
				}
				record(event)
			case "env":
				share := rapid.SampledFrom([]*float64{nil, nil, new(float64)}).Draw(t, "minimum")
				_, event := s.RegisterWorker(EnvRegistration{DesiredName: "w", Weight: 1, MaxTokenLength: 5, GroupSize: rapid.Int64Range(1, 4).Draw(t, "size"), MinBatchAllocation: share}, now)
				record(event)
			case "disconnect":
				event, _ := s.Disconnect(rapid.Int64Range(-2, 3).Draw(t, "env"))
				record(event)
			case "look":
				_, event, err := s.WorkerStatus(rapid.Int64Range(-2, 3).Draw(t, "env"), now)
				if err != nil {
					require.ErrorIs(t, err, ErrUnknownWorker)
				}
				record(event)
			case "lost":
				if len(live) > 0 && s.Latest != nil {
					record(s.Lost(s.Latest.ID))
				}
			case "reset":
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					record(s.Reset())
				}
			}
			for _, e := range events {
				if e == nil {
					continue
				}
				text, err := json.Marshal(e)
				require.NoError(t, err)
				var again Event
				require.NoError(t, json.Unmarshal(text, &again))
				replayed.Apply(&again)
			}
			want, err := s.Snapshot()
			require.NoError(t, err)
			got, err := replayed.Snapshot()
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "replaying the events leads to the same")
			restored, err := RestoreState(rules, want)
			require.NoError(t, err)
			again, err := restored.Snapshot()
			require.NoError(t, err)
			require.Equal(t, string(want), string(again), "a snapshot holds all")
			require.Equal(t, s.Held(), restored.Held())
			require.Equal(t, s.Held(), replayed.Held())
			needed := map[uint64]int64{}
			for e := range s.Live() {
				needed[e.ID] = e.Place.Length
			}
			require.Equal(t, needed, live, "data is let go exactly when nothing needs it")
		}
	})
}

func TestASilentWorkerHoldsNobodyUp(t *testing.T) {
	s := NewState(Rules{WorkerTimeout: time.Minute}, "g")
	_, err := s.Register(Registration{BatchSize: 2})
	require.NoError(t, err)
	s.Start()
	half := 0.5
	s.RegisterWorker(EnvRegistration{DesiredName: "a", Weight: 1, MaxTokenLength: 1, GroupSize: 1, MinBatchAllocation: &half}, clockless(0))
	s.RegisterWorker(EnvRegistration{DesiredName: "b", Weight: 1, MaxTokenLength: 1, GroupSize: 1}, clockless(0))
	one := int64(1)
	s.Add([]*Entry{entry(1, &one), entry(1, &one)}, true, "", "", clockless(1))
	require.Nil(t, s.Form(clockless(30)), "it may send its share yet")
	status, _, err := s.WorkerStatus(1, clockless(61))
	require.NoError(t, err)
	require.Equal(t, 1.0, status.EnvWeight)
	require.Equal(t, 1.0, status.UnallocatedFraction)
	require.NotNil(t, s.Form(clockless(61)))
	status, _, err = s.WorkerStatus(0, clockless(62))
	require.NoError(t, err)
	require.Equal(t, 0.5, status.UnallocatedFraction, "it counts again when it is heard of")
	require.Equal(t, 0.5, status.EnvWeight)
}

func TestAStuckMinimumIsOverWhenItsWorkerDisconnects(t *testing.T) {
	s := NewState(OriginalRules(), "g")
	_, err := s.Register(Registration{BatchSize: 1})
	require.NoError(t, err)
	s.Start()
	all := 1.0
	s.RegisterWorker(EnvRegistration{DesiredName: "a", GroupSize: 1, MinBatchAllocation: &all}, clockless(0))
	s.Add([]*Entry{entry(1, nil)}, false, "", "", clockless(0))
	require.Nil(t, s.Form(clockless(1e6)), "silence never matters by the original rules")
	_, ok := s.Disconnect(-1)
	require.True(t, ok)
	require.NotNil(t, s.Form(clockless(1e6)))
}

func TestAGroupSizeThatGrows(t *testing.T) {
	s := NewState(OriginalRules(), "g")
	_, err := s.Register(Registration{BatchSize: 16})
	require.NoError(t, err)
	s.Start()
	zero := int64(0)
	s.Add([]*Entry{entry(6, &zero)}, false, "", "", clockless(0)) // before the worker is known
	s.RegisterWorker(EnvRegistration{DesiredName: "a", GroupSize: 4}, clockless(0))
	status, event, err := s.WorkerStatus(0, clockless(0))
	require.NoError(t, err)
	require.Equal(t, int64(6), status.MaxGroupSize)
	require.Equal(t, int64(6), event.Size)
	answer, _ := s.Add([]*Entry{entry(6, &zero)}, false, "", "", clockless(0))
	require.Equal(t, StatusReceived, answer.Status)
	answer, _ = s.Add([]*Entry{entry(4, &zero)}, false, "", "", clockless(0))
	require.Equal(t, StatusBuffered, answer.Status)
}

func TestOnlyMultiplesCountForOthers(t *testing.T) {
	s := NewState(Rules{}, "g")
	_, err := s.Register(Registration{BatchSize: 16})
	require.NoError(t, err)
	s.Start()
	s.RegisterWorker(EnvRegistration{DesiredName: "a", GroupSize: 1}, clockless(0))
	other := int64(1)
	s.Add([]*Entry{entry(1, &other), entry(1, nil)}, true, "", "", clockless(0))
	status, _, err := s.WorkerStatus(0, clockless(0))
	require.NoError(t, err)
	require.Equal(t, int64(0), status.QueueSize, "others do not count while all groups have one sequence")
	s.Add([]*Entry{entry(3, nil)}, true, "", "", clockless(0))
	status, _, err = s.WorkerStatus(0, clockless(0))
	require.NoError(t, err)
	require.Equal(t, int64(6+3), status.QueueSize, "nobody's 4 count as 6 and the other's 1 as 3")
}

func TestASnapshotThatContradictsItselfIsRefused(t *testing.T) {
	_, err := RestoreState(Rules{}, []byte(`{"queue":[{"id":1,"n":1},{"id":1,"n":1}]}`))
	require.ErrorContains(t, err, "twice")
	_, err = RestoreState(Rules{}, []byte(`{`))
	var syntax *json.SyntaxError
	require.True(t, errors.As(err, &syntax))
}

func TestAQueueThatGivesNoBatchSaysSo(t *testing.T) {
	now := clockless(0)
	s := NewState(Rules{}, "g")
	_, err := s.Register(Registration{BatchSize: 8})
	require.NoError(t, err)
	s.Start()
	s.RegisterWorker(EnvRegistration{DesiredName: "e", Weight: 1, MaxTokenLength: 1, GroupSize: 4}, now)
	asked := func() (stuck bool) {
		s.Form(now)
		status, _, err := s.WorkerStatus(0, now)
		require.NoError(t, err)
		text, err := status.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, status.BatchStuck, strings.Contains(string(text), "batch_stuck"))
		require.Equal(t, status.BatchStuck, s.Overview(now).Stuck != "")
		return status.BatchStuck
	}
	add := func(size int64) { s.Add([]*Entry{entry(size, nil)}, false, "", "", now) }
	add(5)
	require.False(t, asked(), "there is not enough yet")
	add(7)
	add(5)
	require.True(t, asked())
	require.Equal(t, "no groups add up to 8 sequences: 2 of 5, 1 of 7", s.Overview(now).Stuck)
	add(3)
	require.False(t, asked(), "5 and 3 are a batch")
	add(5)
	require.True(t, asked())
	half := 0.5
	s.RegisterWorker(EnvRegistration{DesiredName: "m", Weight: 1, MaxTokenLength: 1, GroupSize: 4, MinBatchAllocation: &half}, now)
	s.Form(now)
	status, _, err := s.WorkerStatus(0, now)
	require.NoError(t, err)
	require.False(t, status.BatchStuck, "the share of another is missing")
	status, _, err = s.WorkerStatus(1, now)
	require.NoError(t, err)
	require.True(t, status.BatchStuck, "its own share is missing")
	require.Contains(t, s.Overview(now).Stuck, "minimum allocations")
	s.Reset()
	require.Empty(t, s.Overview(now).Stuck)
}

// A worker whose oldest groups fit into no batch still gets one with those that do.
func TestAnyBatch_UsesNewerGroupsOfAMinimum(t *testing.T) {
	sender := int64(0)
	groups := []queued{{3, &sender}, {3, &sender}, {5, &sender}, {5, nil}}
	chosen := anyBatch(groups, 8, []minimum{{sender, 0.5}})
	require.Equal(t, []int{0, 2}, chosen)
}

func TestState_SaysThatTheTrainerWaits(t *testing.T) {
	now := clockless(0)
	s := NewState(Rules{}, "g")
	_, err := s.Register(Registration{BatchSize: 12})
	require.NoError(t, err)
	s.Start()
	s.RegisterWorker(EnvRegistration{DesiredName: "e", Weight: 1, MaxTokenLength: 1, GroupSize: 4}, now)
	own, other := int64(0), int64(1)
	s.Add([]*Entry{entry(4, &own), entry(6, &other)}, true, "", "", now)
	waits := func() bool {
		status, _, err := s.WorkerStatus(0, now)
		require.NoError(t, err)
		text, err := status.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, status.TrainerWaiting, strings.Contains(string(text), `"trainer_waiting":true`))
		return status.TrainerWaiting
	}
	require.False(t, waits(), "it has not asked")
	s.Form(now)
	require.True(t, waits(), "10 of 12 sequences, though a third group of 4 would make 12 by the worker's numbers")
	s.Add([]*Entry{entry(4, &own)}, false, "", "", now)
	require.False(t, waits(), "there is enough for the next question")
}

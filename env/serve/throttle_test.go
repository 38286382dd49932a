package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/hermes-env/hermes-env/env/atropos"
)

func share(v float64) *float64 { return &v }

// Groups of 4, batches of 16, three batches off policy: 12 groups may be queued or under way.
func settings(change func(*Throttle)) Throttle {
	t := Throttle{GroupSize: 4, MaxGroups: 8, MaxBatches: 3}
	if change != nil {
		change(&t)
	}
	return t
}

func situation(change func(*Situation)) Situation {
	s := Situation{Registered: true, BatchSize: 16, Status: atropos.EnvStatus{UnallocatedFraction: 1, MaxGroupSize: 4, EnvWeight: 1}}
	if change != nil {
		change(&s)
	}
	return s
}

func TestHowManyGroupsMayStart(t *testing.T) {
	for name, c := range map[string]struct {
		settings  func(*Throttle)
		situation func(*Situation)
		want      Decision
	}{
		"an empty queue leaves all workers":             {nil, nil, Decision{Room: 8, Why: HoldBusy}},
		"what runs takes its place":                     {nil, func(s *Situation) { s.Running = 5 }, Decision{Room: 3, Why: HoldBusy}},
		"more running than allowed is never negative":   {nil, func(s *Situation) { s.Running = 20 }, Decision{Why: HoldBusy}},
		"a queue near its limit leaves the rest":        {nil, func(s *Situation) { s.Status.QueueSize = 10 }, Decision{Room: 2, Why: HoldQueue}},
		"what runs counts against that rest":            {nil, func(s *Situation) { s.Status.QueueSize, s.Running = 10, 2 }, Decision{Why: HoldQueue}},
		"a full queue leaves nothing":                   {nil, func(s *Situation) { s.Status.QueueSize = 12 }, Decision{Why: HoldQueue}},
		"a queue beyond its limit too":                  {nil, func(s *Situation) { s.Status.QueueSize = 40 }, Decision{Why: HoldQueue}},
		"groups on their way count as queued":           {nil, func(s *Situation) { s.Status.QueueSize, s.Waiting = 6, 4 }, Decision{Room: 2, Why: HoldQueue}},
		"before the first status there is nothing":      {nil, func(s *Situation) { s.Registered = false }, Decision{Why: HoldTrainer}},
		"nor without a server":                          {nil, func(s *Situation) { s.Registered, s.Away = false, true }, Decision{Why: HoldServer}},
		"nor without a batch size":                      {nil, func(s *Situation) { s.BatchSize = -1 }, Decision{Why: HoldTrainer}},
		"nor with batches smaller than a group":         {nil, func(s *Situation) { s.BatchSize = 3 }, Decision{Why: HoldBatch}},
		"one batch off policy is one batch":             {func(t *Throttle) { t.MaxBatches = 1 }, nil, Decision{Room: 4, Why: HoldQueue}},
		"others' minimums take their part":              {nil, func(s *Situation) { s.Status.UnallocatedFraction = 0.25 }, Decision{Room: 3, Why: HoldQueue}},
		"others' minimums may take all":                 {nil, func(s *Situation) { s.Status.UnallocatedFraction = 0 }, Decision{Why: HoldShare}},
		"the own minimum is added":                      {func(t *Throttle) { t.MinAllocation = share(0.25) }, func(s *Situation) { s.Status.UnallocatedFraction = 0.25 }, Decision{Room: 6, Why: HoldQueue}},
		"a minimum is made however much others queue":   {func(t *Throttle) { t.MinAllocation = share(0.5) }, func(s *Situation) { s.Status.QueueSize = 30 }, Decision{Room: 7, Why: HoldQueue}},
		"until it is queued":                            {func(t *Throttle) { t.MinAllocation = share(0.5) }, func(s *Situation) { s.Status.QueueSize, s.Status.SelfQueueSize = 30, 6 }, Decision{Why: HoldQueue}},
		"in whole packs of the largest group":           {func(t *Throttle) { t.MinAllocation = share(0.5) }, func(s *Situation) { s.Status = atropos.EnvStatus{QueueSize: 30, SelfQueueSize: 5, MaxGroupSize: 8} }, Decision{Room: 5, Why: HoldQueue}},
		"groups on their way count for the minimum":     {func(t *Throttle) { t.MinAllocation = share(0.5) }, func(s *Situation) { s.Status.QueueSize, s.Status.SelfQueueSize, s.Waiting = 30, 3, 3 }, Decision{Why: HoldQueue}},
		"a minimum never needs more than all workers":   {func(t *Throttle) { t.MinAllocation, t.MaxGroups = share(0.5), 3 }, func(s *Situation) { s.Status.QueueSize = 30 }, Decision{Room: 3, Why: HoldBusy}},
		"an empty queue has a largest group of one":     {func(t *Throttle) { t.MinAllocation = share(0.5) }, func(s *Situation) { s.Status.MaxGroupSize = 1 }, Decision{Room: 8, Why: HoldBusy}},
		"an evaluation stops new groups":                {nil, func(s *Situation) { s.Evaluating = true }, Decision{Why: HoldEval}},
		"or leaves a part of the workers":               {func(t *Throttle) { t.Handling, t.EvalRatio = LimitTrain, 0.5 }, func(s *Situation) { s.Evaluating, s.Running = true, 1 }, Decision{Room: 3, Why: HoldEval}},
		"or none, where that part is nothing":           {func(t *Throttle) { t.Handling = LimitTrain }, func(s *Situation) { s.Evaluating = true }, Decision{Why: HoldEval}},
		"or all":                                        {func(t *Throttle) { t.Handling = IgnoreEval }, func(s *Situation) { s.Evaluating = true }, Decision{Room: 8, Why: HoldBusy}},
		"a part of the workers is a limit to a minimum": {func(t *Throttle) { t.MinAllocation, t.Handling, t.EvalRatio = share(0.5), LimitTrain, 0.25 }, func(s *Situation) { s.Status.QueueSize, s.Evaluating = 30, true }, Decision{Room: 2, Why: HoldEval}},
		"what is queued for the last step is enough":    {func(t *Throttle) { t.LastStep = 10 }, func(s *Situation) { s.Status.CurrentStep, s.Status.QueueSize = 8, 8 }, Decision{Why: HoldEnd}},
		"what runs may be enough for it":                {func(t *Throttle) { t.LastStep = 10 }, func(s *Situation) { s.Status.CurrentStep, s.Status.QueueSize, s.Running = 8, 4, 4 }, Decision{Why: HoldEnd}},
		"one group less is not":                         {func(t *Throttle) { t.LastStep = 10 }, func(s *Situation) { s.Status.CurrentStep, s.Status.QueueSize = 8, 7 }, Decision{Room: 5, Why: HoldQueue}},
		"the last step is the end":                      {func(t *Throttle) { t.LastStep = 10 }, func(s *Situation) { s.Status.CurrentStep = 10 }, Decision{Why: HoldEnd, Done: true}},
		"and so is one behind it":                       {func(t *Throttle) { t.LastStep = 10 }, func(s *Situation) { s.Status.CurrentStep = 12 }, Decision{Why: HoldEnd, Done: true}},
		"a server that is away allows what it did":      {nil, func(s *Situation) { s.Away, s.Status.QueueSize = true, 10 }, Decision{Room: 2, Why: HoldServer}},
		"and what the spool may hold":                   {func(t *Throttle) { t.SpoolGroups = 5 }, func(s *Situation) { s.Away, s.Status.QueueSize, s.Waiting = true, 10, 2 }, Decision{Room: 5, Why: HoldServer}},
		"the spool counts for nothing else":             {func(t *Throttle) { t.SpoolGroups = 5 }, func(s *Situation) { s.Status.QueueSize, s.Waiting = 10, 2 }, Decision{Why: HoldQueue}},
		"groups that don't add up need more of them":    {nil, func(s *Situation) { s.Status.QueueSize, s.Status.BatchStuck = 20, true }, Decision{Room: 4, Why: HoldStuck}},
		"then one after the other":                      {nil, func(s *Situation) { s.Status.QueueSize, s.Status.BatchStuck = 24, true }, Decision{Room: 1, Why: HoldStuck}},
		"and no two at once":                            {nil, func(s *Situation) { s.Status.QueueSize, s.Status.BatchStuck, s.Running = 24, true, 1 }, Decision{Why: HoldStuck}},
		"but not where no number of them is a batch":    {nil, func(s *Situation) { s.BatchSize, s.Status.QueueSize, s.Status.BatchStuck = 18, 26, true }, Decision{Why: HoldStuck}},
		"nor during an evaluation":                      {nil, func(s *Situation) { s.Status.QueueSize, s.Status.BatchStuck, s.Evaluating = 24, true, true }, Decision{Why: HoldEval}},
		"a trainer that waits gets one at a time":       {nil, func(s *Situation) { s.Status.QueueSize, s.Status.TrainerWaiting = 12, true }, Decision{Room: 1, Why: HoldQueue}},
		"of what others leave":                          {nil, func(s *Situation) { s.Status.UnallocatedFraction, s.Status.TrainerWaiting = 0, true }, Decision{Why: HoldShare}},
		"once it knows of those that were sent":         {nil, func(s *Situation) { s.Status.QueueSize, s.Status.TrainerWaiting, s.Waiting = 12, true, 1 }, Decision{Why: HoldQueue}},
		"also for the last step": {func(t *Throttle) { t.LastStep = 10 }, func(s *Situation) {
			s.Status = atropos.EnvStatus{CurrentStep: 9, QueueSize: 4, UnallocatedFraction: 1, TrainerWaiting: true}
		}, Decision{Room: 1, Why: HoldEnd}},
		"what others queued for it is not the minimum": {func(t *Throttle) { t.LastStep, t.MinAllocation = 10, share(0.5) }, func(s *Situation) {
			s.Status = atropos.EnvStatus{CurrentStep: 9, QueueSize: 6, SelfQueueSize: 1, MaxGroupSize: 4}
		}, Decision{Room: 6, Why: HoldQueue}},
		"the minimum for it is enough": {func(t *Throttle) { t.LastStep, t.MinAllocation = 10, share(0.5) }, func(s *Situation) {
			s.Status, s.Running = atropos.EnvStatus{CurrentStep: 9, QueueSize: 6, SelfQueueSize: 1, MaxGroupSize: 4}, 1
		}, Decision{Why: HoldEnd}},
		"they are not enough for the last step": {func(t *Throttle) { t.LastStep = 10 }, func(s *Situation) {
			s.Status = atropos.EnvStatus{CurrentStep: 8, QueueSize: 13, UnallocatedFraction: 1, BatchStuck: true}
		}, Decision{Room: 8, Why: HoldBusy}},
		"what a server that is away said is not enough": {nil, func(s *Situation) { s.Away, s.Status.QueueSize, s.Status.BatchStuck = true, 20, true }, Decision{Why: HoldServer}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, settings(c.settings).Decide(situation(c.situation)))
		})
	}
}

func TestWithoutAMinimumNothingIsEverStartedBeyondTheOffPolicyLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := Throttle{
			GroupSize: rapid.IntRange(1, 64).Draw(t, "group"), MaxGroups: rapid.IntRange(1, 200).Draw(t, "workers"),
			MaxBatches: rapid.IntRange(1, 8).Draw(t, "batches"), LastStep: rapid.Int64Range(-1, 20).Draw(t, "last"),
			Handling: rapid.SampledFrom([]Handling{"", StopTrain, LimitTrain, IgnoreEval}).Draw(t, "handling"), EvalRatio: rapid.Float64Range(0, 1).Draw(t, "ratio"),
		}
		s := Situation{
			Registered: rapid.Bool().Draw(t, "registered"), Away: rapid.Bool().Draw(t, "away"), BatchSize: rapid.Int64Range(-1, 512).Draw(t, "batch"),
			Running: rapid.IntRange(0, 300).Draw(t, "running"), Waiting: rapid.IntRange(0, 50).Draw(t, "waiting"), Evaluating: rapid.Bool().Draw(t, "evaluating"),
			Status: atropos.EnvStatus{CurrentStep: rapid.Int64Range(0, 30).Draw(t, "step"), QueueSize: rapid.Int64Range(0, 300).Draw(t, "queue"),
				UnallocatedFraction: rapid.Float64Range(0, 1).Draw(t, "unallocated"), MaxGroupSize: rapid.Int64Range(1, 64).Draw(t, "largest")},
		}
		d := throttle.Decide(s)
		require.GreaterOrEqual(t, d.Room, 0)
		require.NotEmpty(t, d.Why)
		if d.Room == 0 {
			return
		}
		require.LessOrEqual(t, s.Running+d.Room, throttle.MaxGroups)
		all := (s.Status.QueueSize + int64(s.Waiting+s.Running+d.Room)) * int64(throttle.GroupSize)
		require.LessOrEqual(t, all, int64(throttle.MaxBatches)*s.BatchSize)
	})
}

package serve

import (
	"context"
	"fmt"
)

// noticeStep remembers the trainer's step and begins an evaluation when it is due.
func (w *Worker) noticeStep(step int64) error {
	var last *int64
	var unfinished, evaluated *int64
	w.spool.look(func(s *spoolState) { last, unfinished, evaluated = s.Step, s.Evaluates, s.Evaluated })
	w.mu.Lock()
	first := !w.link.noticed
	w.link.noticed = true
	w.mu.Unlock()
	if !first && last != nil && *last == step {
		return nil
	}
	due := last != nil && crossed(*last, step, w.config.EvalEvery)
	if first {
		due = due || unfinished != nil // a process was killed in the middle of it
		due = due || w.config.EvalAtStart && (evaluated == nil || *evaluated != step)
	}
	if last == nil || *last != step {
		if err := w.spool.record(&spoolEvent{Op: opStep, Step: step}); err != nil {
			w.fail(err)
			return err
		}
		w.config.Observer.Stepped(step)
	}
	if due && w.config.Evaluate != nil {
		w.evaluate(step)
	}
	return nil
}

// crossed says whether a multiple of every lies behind old and not behind step: also
// when the steps between were never seen.
func crossed(old, step, every int64) bool {
	return every > 0 && step > old && step/every > old/every
}

// evaluate begins an evaluation, unless one is under way.
func (w *Worker) evaluate(step int64) {
	w.mu.Lock()
	busy := w.evaluates || w.finishing || w.evalContext == nil
	if !busy {
		w.evaluates = true
		w.wake()
	}
	w.mu.Unlock()
	if busy {
		w.config.Observer.Warn(fmt.Sprintf("step %d: the evaluation before this one still runs, so that this one is left out", step))
		return
	}
	w.loops.Go(func() {
		err := w.runEvaluation(w.evalContext, step)
		if err != nil && w.evalContext.Err() == nil {
			w.config.Observer.Warn(fmt.Sprintf("the evaluation at step %d failed: %v", step, err))
		}
		w.mu.Lock()
		w.evaluates = false
		w.wake()
		w.mu.Unlock()
	})
}

func (w *Worker) runEvaluation(ctx context.Context, step int64) error {
	if err := w.spool.record(&spoolEvent{Op: opEvaluate, Step: step}); err != nil {
		w.fail(err)
		return err
	}
	w.config.Observer.Note(fmt.Sprintf("evaluating at step %d", step))
	err := w.config.Evaluate(ctx, step)
	if ctx.Err() != nil {
		return err // it is begun again at the next start
	}
	if failed := w.spool.record(&spoolEvent{Op: opEvalDone, Step: step}); failed != nil {
		w.fail(failed)
	}
	return err
}

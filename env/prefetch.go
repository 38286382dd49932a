package env

import (
	"context"
	"sync"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// prefetch gets ready what the sandboxes of the items that come next are made from,
// and has it kept until their last attempt is over. A nil prefetch does nothing.
type prefetch struct {
	provider sandbox.Preparer
	spec     func(Item) (sandbox.Spec, error)
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu   sync.Mutex
	kept map[*group][]func() // to be called as attempts end
}

// newPrefetch returns nil where there is nothing to get ready.
func (r *Runner) newPrefetch(ctx context.Context) *prefetch {
	provider, ok := r.opts.Provider.(sandbox.Preparer)
	if _, specifies := r.opts.Environment.(SandboxSpecifier); !ok || !specifies || r.opts.Config.Prefetch == 0 {
		return nil
	}
	p := &prefetch{provider: provider, kept: map[*group][]func(){}, spec: func(item Item) (sandbox.Spec, error) { return r.sandboxSpec(item, "") }}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// announce says that attempts of a group are going to run.
func (p *prefetch) announce(g *group, attempts int) {
	if p == nil {
		return
	}
	spec, err := p.spec(g.item)
	if err != nil {
		return // the rollout says so
	}
	p.mu.Lock()
	for range attempts {
		p.kept[g] = append(p.kept[g], p.provider.Retain(spec))
	}
	p.mu.Unlock()
	p.work.Go(func() {
		// What fails here fails again when the sandbox is made, where it is recorded.
		_ = p.provider.Prepare(p.ctx, spec)
	})
}

// over says that an attempt of a group has ended.
func (p *prefetch) over(g *group) {
	if p == nil {
		return
	}
	p.mu.Lock()
	list := p.kept[g]
	if len(list) == 0 {
		p.mu.Unlock()
		return
	}
	release := list[len(list)-1]
	if p.kept[g] = list[:len(list)-1]; len(list) == 1 {
		delete(p.kept, g)
	}
	p.mu.Unlock()
	release()
}

// stop ends what is under way and gives up what is kept.
func (p *prefetch) stop() {
	if p == nil {
		return
	}
	p.cancel()
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.kept {
		for _, release := range list {
			release()
		}
	}
	clear(p.kept)
}

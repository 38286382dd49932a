package ssh

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

func (m machine) tree(name string) string { return path.Join(m.cache, boxes, name) }

// removeScript removes trees and prints the names of those that are gone. Processes
// are told by the tree's name in their environment, the server by its note: with "kill" they are killed
// first, with "spare" a tree that still has some stays, with "trust" nobody looks.
const removeScript = `echo "$1"; cd -- "$2/` + boxes + `" || exit 0; how=$3; shift 3; ` +
	`users() { grep -lsF -e "$1" /proc/[0-9]*/environ; }; ` +
	`for n in "$@"; do ` +
	`if [ "$how" = spare ] && [ -n "$(users "$n")" ]; then continue; fi; ` +
	`if [ "$how" = kill ]; then read -r p 2>/dev/null <"./$n/server.pid" && grep -qsF ` + inside.Word + ` "/proc/$p/cmdline" && kill -9 "$p" 2>/dev/null; i=0; while [ $i -lt 50 ]; do ` +
	`l=$(users "$n"); [ -n "$l" ] || break; ` +
	`for e in $l; do e=${e#/proc/}; kill -9 "${e%/environ}" 2>/dev/null; done; ` +
	`i=$((i+1)); sleep 0.05 2>/dev/null || sleep 1; done; fi; ` +
	`rm -rf -- "./$n" 2>/dev/null || { chmod -R u+rwx -- "./$n" 2>/dev/null; rm -rf -- "./$n"; } && echo "$n"; ` +
	`done; :`

// remove removes a tree within CloseLimit, also when ctx has ended.
func (p *Provider) remove(ctx context.Context, m machine, name string, kill bool) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), p.config.CloseLimit, fmt.Errorf("no answer within %v", p.config.CloseLimit))
	defer cancel()
	how := "trust"
	if kill {
		how = "kill"
	}
	gone, err := p.removeAll(ctx, m, how, []string{name})
	if err == nil && gone == 0 {
		err = errors.New("some of its files can't be removed by its account")
	}
	if err != nil {
		return fmt.Errorf("%s is still on %s: %w; the next run on that machine removes it once this process has ended", m.tree(name), p.config.target(), err)
	}
	return nil
}

// removeAll removes trees and returns how many are gone.
func (p *Provider) removeAll(ctx context.Context, m machine, how string, names []string) (int, error) {
	answer, err := p.script(ctx, nil, removeScript, append([]string{m.cache, how}, names...)...)
	return len(strings.Fields(answer)), err
}

// listScript prints the names of the trees, and removes uploads nobody finished.
const listScript = `echo "$1"; cd -- "$2/` + boxes + `" || exit 0; ls; find .. -maxdepth 1 -name ".upload-*" -mtime +0 -exec rm -f {} \; 2>/dev/null; :`

// reapBatch is how many trees one script removes.
const reapBatch = 100

// Reap removes the trees on the machine whose owner on this machine is dead. It
// makes and uploads nothing.
func (p *Provider) Reap(ctx context.Context) (int, error) {
	leave, err := p.sandboxes.Enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	m, there, err := p.find(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for abandoned trees: %w", err)
	}
	if !there {
		return 0, nil
	}
	list, err := p.script(ctx, nil, listScript, m.cache)
	if err != nil {
		return 0, fmt.Errorf("look for abandoned trees on %s: %w", p.config.target(), err)
	}
	dead, earlier := p.abandoned(strings.Fields(list))
	total := 0
	for _, part := range []struct {
		how   string
		names []string
	}{{"kill", dead}, {"spare", earlier}} {
		for names := part.names; len(names) > 0; {
			batch := names[:min(reapBatch, len(names))]
			names = names[len(batch):]
			n, err := p.removeAll(ctx, m, part.how, batch)
			total += n
			if err != nil {
				return total, fmt.Errorf("remove abandoned trees on %s: %w", p.config.target(), err)
			}
		}
	}
	return total, nil
}

// abandoned picks the names of trees whose owner is surely dead, and apart from them
// those noted before this machine's last start: another machine of the same name and
// id may have made them.
func (p *Provider) abandoned(names []string) (dead, earlier []string) {
	for _, name := range names {
		o, err := owner.ParseName(name)
		switch {
		case err != nil || o.Alive():
		case o.Boot == p.owner.Boot:
			dead = append(dead, name)
		default:
			earlier = append(earlier, name)
		}
	}
	return dead, earlier
}

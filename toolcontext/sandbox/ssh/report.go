package ssh

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// Report is what ssh sandboxes find on their machine, for people who look for the
// reason why something does not work.
type Report struct {
	Target     string // account and address
	Kernel     string // system and release
	Arch       string // as Go names it; as the machine does where Go does not know it
	CacheDir   string // absolute; made when it is needed
	CacheError error  // why the directory can't be used; nil where it can
	ServerNone error  // why no program here can serve there; nil where one can
	Uploaded   bool   // the server is there already
	Old        int    // servers of other versions
	Sessions   int    // sessions a connection had at once, when asked for Asked
	Asked      int
	FreeBytes  uint64 // on the cache's disk; 0 with SpaceKnown false where it can't be told
	SpaceKnown bool
	RunsCache  bool // programs can be run from the cache's disk
	RunsTemp   bool // and from /tmp, where commands may put some
	Held       int  // trees of live processes on this machine
	Abandoned  int  // of dead ones
	Foreign    int  // of other machines' processes, which can't be seen from here
}

// reportScript prints a line for each thing that is asked, and leaves nothing. It
// looks at the nearest directory above where the cache is to be.
const reportScript = `echo "$1"; c=$2; [ -n "$c" ] || c=${XDG_CACHE_HOME:-$HOME/.cache}/hermes-env; case $c in /*) ;; *) c=$PWD/$c;; esac; ` +
	`echo "kernel $(uname -s) $(uname -r)"; echo "machine $(uname -m)"; echo "cache $c"; d=$c; until [ -z "$d" ] || [ -d "$d" ]; do d=${d%/*}; done; d=${d:-/}; ` +
	`echo "space $(df -Pk "$d" 2>/dev/null | tail -n 1)"; ` +
	`try() { (umask 077; f=$1/.hermes-env-try-$2; printf "%b" "#\\0041/bin/sh\\nexit 7\\n" >"$f" && chmod 0700 "$f" && "$f"; e=$?; rm -f -- "$f"; [ $e -eq 7 ]) >/dev/null 2>&1; }; ` +
	`try "$d" "$1" && echo "runs cache"; try /tmp "$1" && echo "runs temp"; ` +
	`if [ -d "$c" ]; then (cd -- "$c" || exit 11; ` + ownScript + `:); echo "state $?"; cd -- "$c" && { for f in server-*; do [ -f "$f" ] && echo "server $f"; done; ls -A ` + boxes + ` 2>/dev/null | while read -r n; do echo "tree $n"; done; }; ` +
	`elif [ -w "$d" ]; then echo "state 0"; else echo "state 11"; fi; :`

// sessionsAsked is how many sessions Inspect opens at once.
const sessionsAsked = 10

// Inspect logs in and looks at the machine. It changes nothing there. An error wraps
// ErrHostKey or ErrLogin where these are the reason that nothing could be looked at.
func Inspect(ctx context.Context, c Config) (r Report, err error) {
	p, err := New(c)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	answer, err := p.script(ctx, nil, reportScript, p.config.CacheDir)
	if err != nil {
		return Report{}, fmt.Errorf("look at %s: %w", p.config.target(), p.explain(err))
	}
	r = p.readReport(answer)
	r.Asked = sessionsAsked
	r.Sessions, err = p.pool.countSessions(ctx, sessionsAsked)
	return r, err
}

// readReport reads what reportScript printed. Lines that make no sense are passed over.
func (p *Provider) readReport(answer string) Report {
	r := Report{Target: p.config.target(), ServerNone: p.noServer}
	server := ""
	if p.noServer == nil {
		if digest, err := p.program.Digest(); err == nil {
			server = serverName(digest)
		} else {
			r.ServerNone = err
		}
	}
	for line := range strings.SplitSeq(answer, "\n") {
		what, value, _ := strings.Cut(strings.Map(printable, line), " ")
		switch what {
		case "kernel":
			r.Kernel = value
		case "machine":
			if r.Arch = program.ArchOf(value); r.Arch == "" {
				r.Arch = value
			}
		case "cache":
			r.CacheDir = value
		case "space": // device, blocks, used, free, …
			if f := strings.Fields(value); len(f) >= 4 {
				if free, err := strconv.ParseUint(f[3], 10, 54); err == nil {
					r.FreeBytes, r.SpaceKnown = free<<10, true
				}
			}
		case "runs":
			r.RunsCache, r.RunsTemp = r.RunsCache || value == "cache", r.RunsTemp || value == "temp"
		case "state":
			if code, err := strconv.Atoi(value); err == nil && code != 0 {
				r.CacheError = p.explain(&scriptError{code: code})
			}
		case "server":
			if value == server {
				r.Uploaded = true
			} else {
				r.Old++
			}
		case "tree":
			r.count(value)
		}
	}
	if r.ServerNone == nil && r.Arch != p.program.Arch {
		r.ServerNone = fmt.Errorf("the machine is linux/%s, and %s is for linux/%s", r.Arch, p.program.Path, p.program.Arch)
	}
	return r
}

// printable takes out what could play tricks on a terminal.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return -1
}

// count notes a tree by its name.
func (r *Report) count(tree string) {
	switch o, err := owner.ParseName(tree); {
	case err != nil: // somebody's own
	case !o.Here():
		r.Foreign++
	case o.Alive():
		r.Held++
	default:
		r.Abandoned++
	}
}

// countSessions opens sessions on a connection of their own until the server refuses
// one, and returns how many there were.
func (p *pool) countSessions(ctx context.Context, most int) (n int, err error) {
	client, err := p.dialer(ctx)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer func() {
		stop()
		_ = client.Close() // ends its sessions with it
		_ = client.Wait()  // says only that it was closed
	}()
	for n < most {
		_, err := client.NewSession()
		var refused *ssh.OpenChannelError
		switch {
		case err == nil:
			n++
		case errors.As(err, &refused):
			return n, nil
		case context.Cause(ctx) != nil:
			return n, context.Cause(ctx)
		default:
			return n, fmt.Errorf("open a session on %s: %w", p.config.target(), err)
		}
	}
	return n, nil
}

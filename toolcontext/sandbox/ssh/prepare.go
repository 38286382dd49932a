package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// boxes is the directory below the cache where the trees are.
const boxes = "boxes"

// serverName is what a program with this digest is called in the cache.
func serverName(digest string) string { return "server-" + digest[:24] }

// machine is what is known of a machine that is ready.
type machine struct {
	cache  string // absolute
	server string // the binary's name in it
}

// prepared returns the machine, which it looks at and gives the binary when that
// was not done yet. A failure is not kept.
func (p *Provider) prepared(ctx context.Context) (machine, error) {
	select {
	case p.preparing <- struct{}{}:
		defer func() { <-p.preparing }()
	case <-ctx.Done():
		return machine{}, context.Cause(ctx)
	}
	if p.machine != nil {
		return *p.machine, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.UploadLimit, fmt.Errorf("the machine was not ready within %v", p.config.UploadLimit))
	defer cancel()
	m, err := p.prepare(ctx)
	if err != nil {
		return machine{}, err
	}
	p.machine = &m
	return m, nil
}

// ownScript checks that the cache's directory and that of the trees, if it is there,
// are directories of the account that nobody else can write: whoever could, could
// put another program in the place of the server or links in that of trees.
const ownScript = `for d in . ` + boxes + `; do [ -e "$d" ] || [ -L "$d" ] || continue; k=$(ls -ld -- "$d") || exit 11; ` +
	`case $k in d????w*|d???????w*) exit 15;; d*) ;; *) exit 12;; esac; [ -O "$d" ] || exit 12; done; `

// lookScript prints the system, the machine's kind, the cache's directory and the
// digest or size of the binary in it. It needs no more than a POSIX shell.
const lookScript = `echo "$1"; c=$2; [ -n "$c" ] || c=${XDG_CACHE_HOME:-$HOME/.cache}/hermes-env; ` +
	`uname -s && uname -m || exit 10; umask 077; mkdir -p -- "$c/` + boxes + `" && cd -- "$c" || exit 11; ` + ownScript + `pwd -P; ` +
	`if [ -f "$3" ] && [ -x "$3" ]; then if command -v sha256sum >/dev/null 2>&1; then sha256sum <"$3"; else wc -c <"$3"; fi; else echo none; fi`

// findScript prints the cache's directory, or nothing where there is none. It makes none.
const findScript = `echo "$1"; c=$2; [ -n "$c" ] || c=${XDG_CACHE_HOME:-$HOME/.cache}/hermes-env; [ -d "$c" ] || exit 0; cd -- "$c" || exit 11; ` +
	ownScript + `pwd -P`

// find returns the machine as it is, and whether it has a cache at all.
func (p *Provider) find(ctx context.Context) (m machine, there bool, err error) {
	answer, err := p.script(ctx, nil, findScript, p.config.CacheDir)
	if err != nil {
		return machine{}, false, fmt.Errorf("look at %s: %w", p.config.target(), p.explain(err))
	}
	dir := strings.TrimSuffix(answer, "\n")
	if dir == "" {
		return machine{}, false, nil
	}
	if !path.IsAbs(dir) || strings.Contains(dir, "\n") {
		return machine{}, false, fmt.Errorf("look at %s: its answer makes no sense: %.200q", p.config.target(), answer)
	}
	return machine{cache: dir}, true, nil
}

func (p *Provider) prepare(ctx context.Context) (machine, error) {
	if p.noServer != nil {
		return machine{}, p.noServer
	}
	digest, err := p.program.Digest()
	if err != nil {
		return machine{}, fmt.Errorf("read the server to upload: %w", err)
	}
	name := serverName(digest)
	answer, err := p.script(ctx, nil, lookScript, p.config.CacheDir, name)
	if err != nil {
		return machine{}, fmt.Errorf("look at %s: %w", p.config.target(), p.explain(err))
	}
	m, there, err := p.read(answer, digest)
	if err != nil {
		return machine{}, fmt.Errorf("look at %s: %w", p.config.target(), err)
	}
	m.server = name
	if there {
		return m, nil
	}
	if err := p.upload(ctx, m); err != nil {
		return machine{}, fmt.Errorf("upload the server (%d bytes) to %s on %s: %w", p.program.Size, m.cache, p.config.target(), p.explain(err))
	}
	return m, nil
}

// read checks what lookScript printed.
func (p *Provider) read(answer, digest string) (m machine, there bool, err error) {
	lines := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	if len(lines) != 4 || !path.IsAbs(lines[2]) {
		return machine{}, false, fmt.Errorf("its answer makes no sense: %.200q", answer)
	}
	if lines[0] != "Linux" {
		return machine{}, false, fmt.Errorf("it runs %s; the server inside sandboxes needs Linux", lines[0])
	}
	if arch := program.ArchOf(lines[1]); arch != p.program.Arch {
		want := arch
		if want == "" {
			want = "its kind of processor"
		}
		return machine{}, false, fmt.Errorf("it is a %s, and %s is for linux/%s; build hermes-env with CGO_ENABLED=0 for linux/%s and set %s to its path",
			lines[1], p.program.Path, p.program.Arch, want, program.Variable)
	}
	found, _, _ := strings.Cut(strings.TrimSpace(lines[3]), " ")
	return machine{cache: lines[2]}, found == digest || found == strconv.FormatInt(p.program.Size, 10), nil
}

// uploadScript stores its standard input under a name that nobody uses, checks it
// and renames it, so that a binary that is there is whole. At last it is run, to see
// whether it can be: with an argument too many it ends with exit code 2.
const uploadScript = `echo "$1"; umask 077; cd -- "$2" || exit 11; t=.upload-$1; ` +
	`if cat >"$t" && [ "$(wc -c <"$t")" -eq "$4" ] && chmod 0700 "$t" && mv -f -- "$t" "$3"; then :; else rm -f -- "$t"; exit 13; fi; ` +
	`"./$3" ` + inside.Word + ` x </dev/null >/dev/null; e=$?; [ $e -eq 2 ] || { echo "exit code $e" >&2; exit 14; }`

func (p *Provider) upload(ctx context.Context, m machine) error {
	f, err := os.Open(p.program.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = p.script(ctx, f, uploadScript, m.cache, m.server, strconv.FormatInt(p.program.Size, 10))
	return err
}

// explain gives the exit codes of the scripts their meaning.
func (p *Provider) explain(err error) error {
	var e *scriptError
	if !errors.As(err, &e) {
		return err
	}
	hint := ""
	switch e.code {
	case 10:
		hint = "it has no uname command"
	case 11:
		hint = "the cache directory can't be made or entered; name another as CacheDir"
	case 12:
		hint = "the cache directory, or boxes in it, is no directory of the account's own; remove it, or name another as CacheDir"
	case 13:
		hint = "the file could not be stored whole; is the disk full?"
	case 14:
		hint = "it was stored but can't be run there (a directory mounted noexec, or the wrong processor)"
	case 15:
		hint = "others may write to the cache directory, so they could replace what is run from it; chmod go-w it and boxes in it, or remove them"
	case 126, 127:
		hint = "the account has no /bin/sh, or may run no commands"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", hint, err)
}

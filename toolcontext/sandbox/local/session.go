package local

import (
	"bytes"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Limits of what a session keeps: no program could be started with more.
const (
	maxStateSize    = 4 << 20
	maxVariable     = 128<<10 - 1 // the kernel's limit on one string, its NUL included
	maxVariables    = 1 << 20
	maxDefinitions  = 1 << 20
	stateTerminator = "end"
)

// session is what one Session script hands to the next. The lock is held while a
// script runs; the rest belongs to its holder.
type session struct {
	lock        chan struct{}
	started     bool
	dir         string            // physical working directory
	variables   map[string]string // all exported variables
	definitions string            // bash: functions and aliases, for bash to read
}

// environment is what the next script starts from.
func (ss *session) environment(base map[string]string) map[string]string {
	if !ss.started {
		return maps.Clone(base)
	}
	return maps.Clone(ss.variables)
}

// start returns the directory the last script left.
func (ss *session) start(initial string) string {
	if !ss.started {
		return initial
	}
	return ss.dir
}

// unkept are variables that belong to one shell, not to the session; SHELLOPTS and
// BASHOPTS would carry options like -e over.
var unkept = [...]string{"_", "PWD", "SHLVL", "SHELLOPTS", "BASHOPTS", "BASH_EXECUTION_STRING", MarkerVariable}

// keep takes over the state a script left. When there is none, or none that can be
// read (the script was killed, replaced itself by exec, filled the disk or scribbled
// over the file), the session stays as it was. before is the environment the script
// started with, dir its directory.
func (ss *session) keep(path string, c sandbox.Command, before map[string]string, dir string) {
	data, ok := readStateFile(path)
	if !ok {
		return
	}
	st, ok := parseState(data)
	if !ok {
		return
	}
	if st.dir == "" && strings.HasPrefix(st.variables["PWD"], "/") {
		st.dir = st.variables["PWD"] // removed under the script: the next one is told that it is gone
	}
	for _, name := range unkept {
		delete(st.variables, name)
	}
	for name, value := range before {
		// Shells drop names that are no identifiers; the session does not.
		if _, ok := st.variables[name]; !ok && !isIdentifier(name) {
			st.variables[name] = value
		}
	}
	for name, value := range c.Env {
		// Meant for this command only, unless the script itself changed it.
		if now, ok := st.variables[name]; ok && now == value {
			delete(st.variables, name)
			if old, had := ss.variables[name]; had {
				st.variables[name] = old
			}
		}
	}
	dropOversized(st.variables)
	// A directory for this command only does not move the session, unless the
	// script went on from there.
	if st.dir != "" && (c.Dir == "" || st.dir != physical(dir)) {
		ss.dir = st.dir
	} else if ss.dir == "" {
		ss.dir = dir
	}
	ss.variables, ss.started = st.variables, true
	if len(st.definitions) <= maxDefinitions {
		ss.definitions = st.definitions
	}
}

// dropOversized drops variables no program could be started with.
func dropOversized(env map[string]string) {
	total := 0
	names := slices.Sorted(maps.Keys(env))
	for _, name := range names {
		size := len(name) + len(env[name]) + 2
		if size > maxVariable || total+size > maxVariables {
			delete(env, name)
			continue
		}
		total += size
	}
}

// readStateFile reads what the shell left. A rollout can put anything in its place:
// only a regular file of moderate size counts.
func readStateFile(path string) ([]byte, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxStateSize+1))
	return data, err == nil && len(data) <= maxStateSize
}

// state is the content of a state file.
type state struct {
	dir         string
	variables   map[string]string
	definitions string
}

// parseState reads "directory NUL exports NUL definitions NUL end". The exports
// are what "export -p" prints; nothing in them is ever run.
func parseState(data []byte) (state, bool) {
	parts := bytes.Split(data, []byte{0})
	if len(parts) != 4 || string(parts[3]) != stateTerminator {
		return state{}, false
	}
	variables, ok := parseExports(string(parts[1]))
	if !ok {
		return state{}, false
	}
	st := state{
		dir:         strings.TrimSuffix(string(parts[0]), "\n"),
		variables:   variables,
		definitions: string(parts[2]),
	}
	if st.dir != "" && !strings.HasPrefix(st.dir, "/") {
		return state{}, false
	}
	return st, true
}

func isIdentifier(name string) bool {
	for i, r := range []byte(name) {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

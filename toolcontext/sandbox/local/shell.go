package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// script is a Command.Script made ready for the shell. The text goes through a
// file: an argument may not be longer than 128 KiB, and "pkill -f" with a word of
// the script would find the shell itself.
type script struct {
	argv  []string
	files []string
	state string // where the shell leaves its state; "" without a session
}

// remove removes the script's files.
func (sc script) remove() {
	for _, f := range sc.files {
		_ = os.Remove(f) // the sandbox's Close removes what is left
	}
}

// held are variables that change how the shell itself starts. They are set inside
// it, so that its children see them and it does not.
var held = [...]string{"BASH_ENV", "ENV"}

// prepareScript writes the files a script needs and composes the shell's command
// line. It takes the held variables out of env.
func (s *Sandbox) prepareScript(c sandbox.Command, sh shell, number int64, env map[string]string) (script, error) {
	name := "c" + strconv.FormatInt(number, 10)
	base := filepath.Join(s.stateDir(), name)
	err := s.writeState(base, c.Script)
	if place := s.provider.config.Place; full(err) && place != nil && place.Spare != "" {
		_ = os.Remove(base) // it may be there in part
		base = filepath.Join(place.Spare, filepath.Base(s.root)+"-"+name)
		err = s.writeState(base, c.Script)
	}
	sc := script{files: []string{base}}
	if err != nil {
		sc.remove()
		return sc, err
	}
	bash := sh.bash
	var restore strings.Builder
	for _, name := range held {
		if value, ok := env[name]; ok {
			restore.WriteString("export " + name + "=" + textutil.ShellQuote(value) + "; ")
			delete(env, name)
		}
	}
	if c.Session {
		sc.state = base + ".state"
		sc.files = append(sc.files, sc.state)
		// Made here, so that no umask of the script's makes it unreadable.
		if err := s.writeState(sc.state, ""); err != nil {
			sc.remove()
			return sc, err
		}
		if bash && s.session.definitions != "" {
			defs := base + ".definitions"
			sc.files = append(sc.files, defs)
			if err := s.writeState(defs, s.session.definitions); err != nil {
				sc.remove()
				return sc, err
			}
			restore.WriteString("builtin . " + textutil.ShellQuote(defs) + " >/dev/null 2>&1; ")
		}
	}
	if bash {
		sc.argv = []string{"bash", "--noprofile", "--norc", "-c", bashWrapper(base, sc.state, restore.String()), "bash"}
	} else {
		sc.argv = append(sh.args[:len(sh.args):len(sh.args)], "sh", "-c", shWrapper(base, sc.state, restore.String()), "sh")
	}
	return sc, nil
}

// full reports whether a file could not be written for want of space.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// writeState writes a file for the shell, and makes its directory again when the
// rollout removed it.
func (s *Sandbox) writeState(path, text string) error {
	err := os.WriteFile(path, []byte(text), 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("hand the script to the shell: %w; check the free space (df -h, df -i)", err)
	}
	return nil
}

// bashWrapper is the text bash runs around a script. It is one line, so that the
// script's own line numbers are right in error messages. The state is written after
// the script and, for scripts that exit, by a trap; a script that sets an EXIT trap
// of its own and then exits leaves none, and the session stays as it was.
func bashWrapper(path, state, restore string) string {
	// Restoring comes before eval: aliases count from the next text that is parsed.
	run := restore + `builtin eval "unset -v REPLY; $REPLY"`
	read := "IFS= builtin read -r -d '' <" + textutil.ShellQuote(path) + "; "
	if state == "" {
		return read + run
	}
	dump := "{ builtin set +exu; } 2>/dev/null; [[ -s " + textutil.ShellQuote(state) + " ]] || " +
		`{ builtin pwd -P; builtin printf '\0'; builtin export -p; builtin printf '\0'; ` +
		`builtin declare -pf; builtin alias -p; builtin printf '\0end'; } 2>/dev/null >|` + textutil.ShellQuote(state)
	return "builtin trap " + textutil.ShellQuote(dump) + " EXIT; builtin shopt -s expand_aliases; " + read + run +
		`; { builtin set -- "$?"; builtin set +exu; } 2>/dev/null; ` + dump + `; builtin exit "$1"`
}

// shWrapper is bashWrapper for any other shell: no functions or aliases are kept.
func shWrapper(path, state, restore string) string {
	run := restore + ". " + textutil.ShellQuote(path)
	if state == "" {
		return run
	}
	dump := "{ set +exu; } 2>/dev/null; [ -s " + textutil.ShellQuote(state) + " ] || " +
		`{ pwd -P; printf '\000'; export -p; printf '\000\000end'; } 2>/dev/null >|` + textutil.ShellQuote(state)
	return "trap " + textutil.ShellQuote(dump) + " EXIT; " + run +
		`; { set -- "$?"; set +exu; } 2>/dev/null; ` + dump + `; exit "$1"`
}

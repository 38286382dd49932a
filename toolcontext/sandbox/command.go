package sandbox

import (
	"fmt"
	"strings"
)

// Validate checks what every backend has to refuse; its errors wrap ErrInvalidCommand.
func (c Command) Validate() error {
	switch {
	case len(c.Args) > 0 && c.Script != "":
		return fmt.Errorf("%w: both Args and Script are set; set one", ErrInvalidCommand)
	case c.Args != nil && (len(c.Args) == 0 || c.Args[0] == ""):
		return fmt.Errorf("%w: Args names no program", ErrInvalidCommand)
	case c.Session && c.Args != nil:
		return fmt.Errorf("%w: Session is only for Script, not for Args", ErrInvalidCommand)
	case c.Timeout < 0:
		return fmt.Errorf("%w: the timeout %v is negative; 0 means none", ErrInvalidCommand, c.Timeout)
	case c.MaxOutput < 0:
		return fmt.Errorf("%w: MaxOutput %d is negative; 0 means %d", ErrInvalidCommand, c.MaxOutput, DefaultMaxOutput)
	case strings.IndexByte(c.Script, 0) >= 0:
		return fmt.Errorf("%w: the script contains a NUL byte, which no shell can read", ErrInvalidCommand)
	case strings.IndexByte(c.Dir, 0) >= 0:
		return fmt.Errorf("%w: the directory %q contains a NUL byte", ErrInvalidCommand, c.Dir)
	}
	for i, a := range c.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return fmt.Errorf("%w: argument %d contains a NUL byte", ErrInvalidCommand, i)
		}
	}
	if err := ValidateEnv(c.Env); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidCommand, err)
	}
	return nil
}

// ValidateEnv checks that every name and value can be passed to a process.
func ValidateEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("%q can't be the name of an environment variable", name)
		}
		if strings.IndexByte(value, 0) >= 0 {
			return fmt.Errorf("the value of the environment variable %s contains a NUL byte", name)
		}
	}
	return nil
}

package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// BuildOptions says how the folder Spec.Build is made into an image. The zero value
// builds the last stage of the file Dockerfile.
type BuildOptions struct {
	Dockerfile string            // path of the Dockerfile below the folder; "" means Dockerfile
	Args       map[string]string // values of its ARG lines
	Target     string            // the stage to build; "" means the last
	Timeout    time.Duration     // of the build alone; 0 means the backend's limit
	// Force builds although the image is there already, once for each provider.
	Force bool
}

func (o BuildOptions) isZero() bool {
	return o.Dockerfile == "" && len(o.Args) == 0 && o.Target == "" && o.Timeout == 0 && !o.Force
}

func (o BuildOptions) validate(folder string) error {
	if o.isZero() {
		return nil
	}
	if folder == "" {
		return errors.New("the spec says how to build an image and names no folder to build it from")
	}
	if o.Dockerfile != "" && !filepath.IsLocal(o.Dockerfile) {
		return fmt.Errorf("the Dockerfile %q does not lie in the folder that is built", o.Dockerfile)
	}
	if strings.ContainsAny(o.Dockerfile+o.Target, "\x00\n") {
		return fmt.Errorf("the Dockerfile %q or the stage %q contains a NUL byte or a line break", o.Dockerfile, o.Target)
	}
	if o.Timeout < 0 {
		return fmt.Errorf("the build's time limit %v is negative", o.Timeout)
	}
	return ValidateEnv(o.Args)
}

// Compose is a project of several containers, as a compose file describes it.
type Compose struct {
	// File is the compose file, or the folder it lies in under one of its usual names.
	// Everything it refers to has to lie in that folder.
	File string
	// Service is the container that commands run in; "" means main. Where it names
	// neither an image nor a build, the Spec's are used.
	Service string
	// Variables are what ${NAME} in the file stands for. Nothing of the harness's
	// environment ever does.
	Variables map[string]string
	// Timeout bounds the wait until all its containers run and are healthy; 0 means the
	// backend's limit.
	Timeout time.Duration
}

func (c *Compose) validate() error {
	switch {
	case c == nil:
		return nil
	case c.File == "":
		return errors.New("the spec asks for a compose project and names no file")
	case strings.ContainsAny(c.File+c.Service, "\x00\n"):
		return fmt.Errorf("the compose file %q or its service %q contains a NUL byte or a line break", c.File, c.Service)
	case c.Timeout < 0:
		return fmt.Errorf("the compose project's time limit %v is negative", c.Timeout)
	}
	return ValidateEnv(c.Variables)
}

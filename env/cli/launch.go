package cli

import (
	"path/filepath"
	"strconv"
)

// launchFlag is a flag of a command that isn't part of the configuration.
type launchFlag struct {
	name, value string
	recorded    string // what the run records for later sessions; "" records nothing
}

// word is the flag as it is typed.
func (f launchFlag) word() string {
	if f.value == "true" {
		return "--" + f.name
	}
	return "--" + f.name + "=" + shellWord(f.value)
}

func recordedFlags(flags []launchFlag) map[string]string {
	var recorded map[string]string
	for _, f := range flags {
		if f.recorded == "" {
			continue
		}
		if recorded == nil {
			recorded = map[string]string{}
		}
		recorded[f.name] = f.recorded
	}
	return recorded
}

// takeRecordedFlags takes up the flags that a run recorded beside the configuration that is
// taken from it, unless they are given.
func (c *serveCommand) takeRecordedFlags() {
	recorded := c.recordedFlags
	if on, err := strconv.ParseBool(recorded["embedded-api"]); err == nil && c.EmbeddedAPI == nil {
		c.EmbeddedAPI = &on
	}
	if c.APIStateDir == "" && c.embedsAPI() {
		c.APIStateDir = recorded["api-state-dir"]
	}
	if c.TokenEnv == "" {
		c.TokenEnv = recorded["token-env"]
	}
	if c.MetricsListen == "" {
		c.MetricsListen = recorded["metrics-listen"]
	}
}

// launchFlags are the command's flags that later sessions need.
func (c *serveCommand) launchFlags() (flags []launchFlag) {
	if c.embedsAPI() {
		flags = append(flags, launchFlag{"embedded-api", "true", "true"})
	}
	if c.APIStateDir != "" {
		path := c.APIStateDir
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute // the next session may start elsewhere
		}
		flags = append(flags, launchFlag{"api-state-dir", c.APIStateDir, path})
	}
	if c.TokenEnv != "" {
		flags = append(flags, launchFlag{"token-env", c.TokenEnv, c.TokenEnv})
	}
	if c.MetricsListen != "" {
		flags = append(flags, launchFlag{"metrics-listen", c.MetricsListen, c.MetricsListen})
	}
	return flags
}

func (c *serveCommand) embedsAPI() bool { return c.EmbeddedAPI != nil && *c.EmbeddedAPI }

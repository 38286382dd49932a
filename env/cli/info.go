package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

type configCommand struct {
	Mode string `name:"for" enum:"evaluate,process,serve" default:"evaluate" help:"Command to resolve for: evaluate, process or serve."`
	JSON bool   `name:"json" help:"Print JSON instead of YAML with comments."`
	configFlagSet
}

// Run prints the resolved configuration.
func (c *configCommand) Run(s *session) error {
	cfg, err := c.load(s, config.Mode(c.Mode), true)
	if err != nil {
		return fail(ExitUsage, err)
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(s.app.Stderr, "warning: "+w)
	}
	if c.JSON {
		_, err := fmt.Fprintf(s.app.Stdout, "%s\n", cfg.CanonicalJSON())
		return err
	}
	return cfg.WriteYAML(s.app.Stdout)
}

type envsCommand struct {
	Name string `arg:"" optional:"" help:"Show one environment with all of its fields."`
}

// Run lists the environments, or one with its fields.
func (c *envsCommand) Run(s *session) error {
	if c.Name == "" {
		for _, d := range s.app.Environments {
			fmt.Fprintf(s.app.Stdout, "%s\n    %s\n", d.Name, d.Description)
		}
		fmt.Fprintf(s.app.Stdout, "\n%s envs NAME shows the configuration fields of one.\n", s.name)
		return nil
	}
	d, err := s.app.definition(c.Name)
	if err != nil {
		return fail(ExitUsage, err)
	}
	fmt.Fprintf(s.app.Stdout, "%s: %s\n", d.Name, d.Description)
	for _, e := range s.app.configEnvironments() {
		if e.Name != d.Name {
			continue
		}
		fields, err := e.Fields()
		if err != nil {
			return err
		}
		s.printFields("its own fields of the env section", fields, true)
		s.printFields("fields of the env section that every environment has, with this environment's defaults", fields, false)
	}
	servers, err := config.ServerFields()
	if err != nil {
		return err
	}
	s.printFields("fields of the openai section", servers, false)
	return nil
}

func (s *session) printFields(title string, fields []config.Field, own bool) {
	w := tabwriter.NewWriter(s.app.Stdout, 2, 4, 2, ' ', 0)
	shown := false
	for _, f := range fields {
		if f.Own != own {
			continue
		}
		if !shown {
			fmt.Fprintf(w, "\n%s\n", title)
			shown = true
		}
		help := f.Help
		if len(f.Choices) > 0 {
			help += " (" + strings.Join(f.Choices, ", ") + ")"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", f.Name, f.Type, f.Default, help)
	}
	_ = w.Flush() // the terminal went away: nothing left to tell it
}

type toolsCommand struct {
	JSON bool `name:"json" help:"Print the definitions as they are sent to a model."`
}

// Run lists the built-in tools and those of the environments.
func (c *toolsCommand) Run(s *session) error {
	registry, err := tools.NewRegistry(append(tools.Builtin(), s.app.ownTools()...)...)
	if err != nil {
		return err
	}
	if c.JSON {
		definitions, err := registry.Definitions(registry.Names()...)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.app.Stdout, "%s\n", definitions.JSON())
		return err
	}
	w := tabwriter.NewWriter(s.app.Stdout, 2, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tTOOLSET\tDESCRIPTION")
	for _, name := range registry.Names() {
		t, _ := registry.Lookup(name)
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.Name, t.Toolset, oneLine(t.Description, 90))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.app.Stdout, "\ntoolsets for env.enabled_toolsets: %s\ndistributions for env.distribution: %s\n",
		strings.Join(registry.Toolsets(), ", "), strings.Join(tools.Distributions(), ", "))
	return nil
}

// ownTools returns the tools that the environments have with their default settings. An
// environment that needs settings to be built shows none.
func (a *App) ownTools() []tools.Tool {
	var list []tools.Tool
	for _, d := range a.Environments {
		cfg, err := config.Load(config.Options{Environments: a.configEnvironments(), Backends: backends(), WithoutKeys: true,
			Flags: []config.Flag{{Name: "environment", Value: d.Name}, {Name: "agent", Value: config.AgentNop}}})
		if err != nil {
			continue
		}
		e, err := d.New(cfg.Env, cfg.Own)
		if err != nil {
			continue
		}
		if p, ok := e.(env.ToolProvider); ok {
			list = append(list, p.Tools()...)
		}
		if c, ok := e.(env.Closer); ok {
			_ = c.Close() // nothing was set up
		}
	}
	return list
}

type versionCommand struct{}

// Run prints the version.
func (c *versionCommand) Run(s *session) error {
	fmt.Fprintf(s.app.Stdout, "%s %s (%s %s/%s)\n", s.name, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// Version returns the version of hermes-env that the program was built with: a
// module version, or the commit for a build from a checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const module = "github.com/hermes-env/hermes-env"
	if info.Main.Path != module {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return dep.Version
			}
		}
	}
	version, revision, modified := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	switch {
	case version != "" && version != "(devel)":
		return version
	case revision != "":
		return "dev-" + revision[:min(12, len(revision))] + modified
	}
	return "dev"
}

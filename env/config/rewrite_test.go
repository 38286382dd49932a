package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewritten is an own struct whose field restore was written as on_tampering once.
type rewritten struct {
	Restore string `yaml:"restore" default:"core" choices:"core,none" help:"what is undone"`
	Strict  bool   `yaml:"strict" default:"false" help:"whether any change counts"`
}

func (*rewritten) RewriteSetting(s Setting) []Setting {
	switch {
	case s.Name != "on_tampering":
		return nil
	case s.Value == "note":
		return []Setting{{"restore", "none"}}
	case s.Value == "fail":
		return []Setting{{"on_tampering", TamperingUnscored}, {"strict", "true"}}
	}
	return nil
}

func rewrittenOptions() Options {
	o := options()
	o.Environments = []Environment{{Name: "old", Own: func() any { return &rewritten{} }}}
	return o
}

func TestLoad_ReadsOlderSpellings(t *testing.T) {
	r, err := loadText(t, rewrittenOptions(), "env:\n  on_tampering: note\n"+server)
	require.NoError(t, err)
	require.Equal(t, "none", r.Own.(*rewritten).Restore)
	require.Equal(t, TamperingKeep, r.Env.OnTampering, "as nothing was said about scores")
	require.Len(t, r.Warnings, 1)
	require.True(t, strings.HasSuffix(r.Warnings[0], `x.yaml:2:17: env.on_tampering: note is an older spelling, now written restore: none`), r.Warnings[0])
	require.Equal(t, FromFile, r.Origin("env.restore").Kind)
	require.Equal(t, 2, r.Origin("env.restore").Line)

	r, err = loadText(t, rewrittenOptions(), server, "env.on_tampering=fail")
	require.NoError(t, err)
	require.Equal(t, TamperingUnscored, r.Env.OnTampering)
	require.True(t, r.Own.(*rewritten).Strict)
	require.Len(t, r.Warnings, 1)
	require.Contains(t, r.Warnings[0], "fail is an older spelling, now written on_tampering: unscored and strict: true")

	r, err = loadText(t, rewrittenOptions(), "env: {on_tampering: note, restore: core}\n"+server)
	require.NoError(t, err)
	require.Equal(t, "core", r.Own.(*rewritten).Restore, "what is written in the new form counts")

	r, err = loadText(t, rewrittenOptions(), "env: {on_tampering: fail}\n"+server, "env.on_tampering=fail", "env.on_tampering=note")
	require.NoError(t, err)
	require.Equal(t, rewritten{Restore: "none"}, *r.Own.(*rewritten), "the last flag of a name counts, for all that the older spellings said")
	require.Equal(t, TamperingKeep, r.Env.OnTampering)
	require.Len(t, r.Warnings, 1)

	r, err = loadText(t, rewrittenOptions(), "env: {on_tampering: zero}\n"+server)
	require.NoError(t, err)
	require.Equal(t, TamperingZero, r.Env.OnTampering)
	require.Empty(t, r.Warnings)
}

func TestLoad_RefusesOlderSpellingsElsewhere(t *testing.T) {
	_, err := loadText(t, options(), "environment: demo\nenv: {on_tampering: note}\n"+server)
	require.ErrorContains(t, err, "want one of keep, zero, unscored")
	_, err = loadText(t, rewrittenOptions(), "env: {on_tampering: core}\n"+server)
	require.ErrorContains(t, err, "want one of keep, zero, unscored")
}

func TestResolvedUpgrade_RewritesARecordedConfiguration(t *testing.T) {
	r, err := loadText(t, rewrittenOptions(), server)
	require.NoError(t, err)
	for recorded, want := range map[string]string{
		`{"mode":"evaluate","env":{"turns":1,"on_tampering":"note","x":null},"openai":[]}`: `{"mode":"evaluate","env":{"turns":1,"restore":"none","x":null},"openai":[]}`,
		`{"env":{"on_tampering":"fail"}}`:                                                  `{"env":{"on_tampering":"unscored","strict":true}}`,
		`{"env":{"on_tampering":"keep"}}`:                                                  `{"env":{"on_tampering":"keep"}}`,
		`{"env":null}`:                                                                     `{"env":null}`,
		`[]`:                                                                               `[]`,
	} {
		require.JSONEq(t, want, string(r.Upgrade([]byte(recorded))))
	}
	plain, err := loadText(t, options(), "environment: demo\n"+server)
	require.NoError(t, err)
	require.Equal(t, `{"env":{"on_tampering":"note"}}`, string(plain.Upgrade([]byte(`{"env":{"on_tampering":"note"}}`))))
}

func TestLoad_DefaultOfOnTamperingDependsOnTheCommand(t *testing.T) {
	for mode, want := range map[Mode]string{Evaluate: TamperingKeep, Process: TamperingUnscored, Serve: TamperingZero} {
		o := options()
		o.Mode = mode
		r, err := loadText(t, o, "environment: demo\n"+server)
		require.NoError(t, err)
		require.Equal(t, want, r.Env.OnTampering, mode)
		r, err = loadText(t, o, "environment: demo\nenv: {on_tampering: keep}\n"+server)
		require.NoError(t, err)
		require.Equal(t, TamperingKeep, r.Env.OnTampering, mode)
	}
	o := options()
	o.Mode = Serve
	o.Environments = []Environment{{Name: "own", Defaults: func(c *Config) { c.Env.OnTampering = TamperingUnscored }}}
	r, err := loadText(t, o, server)
	require.NoError(t, err)
	require.Equal(t, TamperingUnscored, r.Env.OnTampering, "an environment's own default stays")
}

package trajectories

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// affectedBy is a run's info with the settings that can affect results apart.
func affectedBy(t *testing.T, affecting, config, defaults string) Info {
	t.Helper()
	info := testInfo(t)
	info.Config, info.ConfigDigest = json.RawMessage(config), ConfigDigest(json.RawMessage(affecting))
	info.Affecting, info.Defaults = json.RawMessage(affecting), json.RawMessage(defaults)
	return info
}

func TestOnlySettingsThatCanAffectResultsKeepARunFromGoingOn(t *testing.T) {
	const (
		affecting = `{"mode":"evaluate","env":{"turns":30,"judge":{"votes":3}},"openai":[{"model_name":"m"}]}`
		config    = `{"mode":"evaluate","env":{"turns":30,"workers":4,"judge":{"votes":3,"key":"****"}},"openai":[{"model_name":"m"}]}`
		defaults  = `{"env":{"turns":20,"judge":{"votes":1,"strict":false},"fresh":{"a":0}}}`
	)
	for name, c := range map[string]struct {
		affecting, config string
		want              []string
	}{
		"the same":                      {affecting, config, nil},
		"what can't affect results":     {affecting, strings.Replace(config, `"workers":4`, `"workers":9`, 1), nil},
		"one that can":                  {strings.Replace(affecting, `30`, `40`, 1), strings.Replace(strings.Replace(config, `30`, `40`, 1), `"workers":4`, `"workers":9`, 1), []string{"env.turns: 30 -> 40"}},
		"one inside another":            {strings.Replace(affecting, `"votes":3`, `"votes":5`, 1), config, []string{"env.judge.votes: 3 -> 5"}},
		"a model":                       {strings.Replace(affecting, `"m"`, `"n"`, 1), config, []string{`openai.0.model_name: "m" -> "n"`}},
		"a new setting at its default":  {strings.Replace(affecting, `"votes":3`, `"votes":3,"strict":false`, 1), config, nil},
		"a new setting at another":      {strings.Replace(affecting, `"votes":3`, `"votes":3,"strict":true`, 1), config, []string{"env.judge.strict: false -> true"}},
		"a new group of settings":       {strings.Replace(affecting, `"turns"`, `"fresh":{"a":0},"turns"`, 1), config, nil},
		"a new setting without default": {strings.Replace(affecting, `"turns"`, `"other":1,"turns"`, 1), config, []string{"env.other: (not set) -> 1"}},
		"a setting that is gone":        {strings.Replace(affecting, `"turns":30,`, ``, 1), config, []string{"env.turns: 30 -> (not set)"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run, err := Create(dir, affectedBy(t, affecting, config, defaults))
			require.NoError(t, err)
			require.NoError(t, run.Close(StatusInterrupted))
			run, err = Resume(dir, affectedBy(t, c.affecting, c.config, defaultsOf(t, c.affecting, defaults)))
			if c.want == nil {
				require.NoError(t, err)
				require.Empty(t, run.Manifest().ConfigHistory)
				require.NoError(t, run.Close(StatusDone))
				return
			}
			var changed *ConfigChangedError
			require.ErrorAs(t, err, &changed)
			require.ErrorIs(t, err, ErrConfigChanged)
			require.Equal(t, c.want, changed.Differences)
			require.ErrorContains(t, err, "--allow-config-change")
			require.NotContains(t, err.Error(), "workers")
		})
	}
}

// defaultsOf leaves of the defaults what a configuration has, as that of a program does.
func defaultsOf(t *testing.T, affecting, defaults string) string {
	t.Helper()
	var keep func(d, a json.RawMessage) json.RawMessage
	keep = func(d, a json.RawMessage) json.RawMessage {
		from, err := chat.ParseObject(d)
		require.NoError(t, err)
		have, err := chat.ParseObject(a)
		require.NoError(t, err)
		var out chat.Object
		for _, f := range from {
			value := have.Get(f.Key)
			switch {
			case value == nil:
			case value[0] == '{':
				out.Set(f.Key, keep(f.Value, value))
			default:
				out.Set(f.Key, f.Value)
			}
		}
		return out.Append(nil)
	}
	return string(keep(json.RawMessage(defaults), json.RawMessage(affecting)))
}

func TestARunThatGoesOnWithOtherSettingsRemembersThemAll(t *testing.T) {
	dir := t.TempDir()
	settings := func(turns string) Info {
		info := affectedBy(t, `{"env":{"turns":`+turns+`}}`, `{"env":{"turns":`+turns+`,"workers":1}}`, `{"env":{"turns":1}}`)
		info.AllowConfigChange = true
		info.Comparable, info.Seeds = pointer(true), map[string]int64{"run": int64(len(turns))}
		return info
	}
	run, err := Create(dir, settings("30"))
	require.NoError(t, err)
	require.NoError(t, run.Append(t.Context(), simple("a", 0, 0)))
	require.NoError(t, run.Close(StatusInterrupted))

	run, err = Resume(dir, settings("400"))
	require.NoError(t, err)
	require.NoError(t, run.Append(t.Context(), simple("b", 0, 0)))
	require.NoError(t, run.Close(StatusInterrupted))

	// The new settings are the run's from here on.
	again := settings("400")
	again.AllowConfigChange = false
	run, err = Resume(dir, again)
	require.NoError(t, err)
	require.NoError(t, run.Close(StatusInterrupted))
	back := settings("30")
	back.AllowConfigChange = false
	_, err = Resume(dir, back)
	require.ErrorIs(t, err, ErrConfigChanged)
	require.ErrorContains(t, err, "env.turns: 400 -> 30")
	back.AllowConfigChange = true
	run, err = Resume(dir, back)
	require.NoError(t, err)
	require.NoError(t, run.Close(StatusDone))

	reader, err := OpenReadOnly(dir)
	require.NoError(t, err)
	m := reader.Manifest()
	require.Len(t, m.ConfigHistory, 2)
	require.Equal(t, []string{"env.turns: 30 -> 400"}, m.ConfigHistory[0].Changes)
	require.Equal(t, 1, m.ConfigHistory[0].Rollouts)
	require.JSONEq(t, `{"env":{"turns":30,"workers":1}}`, string(m.ConfigHistory[0].Config))
	require.Equal(t, 2, m.ConfigHistory[1].Rollouts)
	require.Equal(t, "2 rollouts were recorded before the configuration changed (env.turns: 400 -> 30)", m.ConfigHistory[1].Sentence())
	require.Equal(t, "1 rollout was recorded before the configuration changed (env.turns: 30 -> 400)", m.ConfigHistory[0].Sentence())
	require.JSONEq(t, `{"env":{"turns":30,"workers":1}}`, string(m.Config))
	require.EqualValues(t, 2, m.Seeds["run"])
	require.Len(t, m.Deviations, 2)
	require.False(t, *m.Comparable, "a mixture is no result of the protocol")
}

func TestAnotherCommandOrEnvironmentIsAnotherRunWhateverIsAllowed(t *testing.T) {
	dir := t.TempDir()
	config := `{"mode":"evaluate","environment":"x","env":{"turns":1}}`
	run, err := Create(dir, affectedBy(t, config, config, `{}`))
	require.NoError(t, err)
	require.NoError(t, run.Close(StatusInterrupted))
	other := `{"mode":"process","environment":"y","env":{"turns":2}}`
	info := affectedBy(t, other, other, `{}`)
	info.Command, info.Environment, info.AllowConfigChange = "process", "y", true
	_, err = Resume(dir, info)
	var changed *ConfigChangedError
	require.ErrorAs(t, err, &changed)
	require.True(t, changed.Fixed)
	require.Equal(t, []string{"command: evaluate -> process", "environment: " + testInfo(t).Environment + " -> y", "env.turns: 1 -> 2"}, changed.Differences)
	require.NotContains(t, err.Error(), "--allow-config-change")
}

func TestARunOfAVersionThatKeptNoPartsIsComparedByItsDigest(t *testing.T) {
	dir := t.TempDir()
	config := `{"env":{"turns":30,"workers":4}}`
	info := affectedBy(t, `{"env":{"turns":30}}`, config, `{}`)
	old := info
	old.Affecting, old.Defaults = nil, nil
	run, err := Create(dir, old)
	require.NoError(t, err)
	require.Nil(t, run.Manifest().Affecting)
	require.NoError(t, run.Close(StatusInterrupted))

	other := affectedBy(t, `{"env":{"turns":31}}`, `{"env":{"turns":31,"workers":5}}`, `{}`)
	_, err = Resume(dir, other)
	var changed *ConfigChangedError
	require.ErrorAs(t, err, &changed)
	require.Equal(t, []string{"env.turns: 30 -> 31", "env.workers: 4 -> 5"}, changed.Differences, "which of them matters is not known")

	run, err = Resume(dir, info)
	require.NoError(t, err)
	require.JSONEq(t, `{"env":{"turns":30}}`, string(run.Manifest().Affecting), "known from now on")
	require.NoError(t, run.Close(StatusInterrupted))
	_, err = Resume(dir, other)
	require.ErrorAs(t, err, &changed)
	require.Equal(t, []string{"env.turns: 30 -> 31"}, changed.Differences)
}

func TestToolsThatAreGoneStayThoseOfEarlierRollouts(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	require.NoError(t, run.Append(t.Context(), simple("a", 0, 0)))
	before := run.Manifest().ToolNames
	require.NoError(t, run.Close(StatusInterrupted))
	info := testInfo(t)
	fewer, err := chat.NewToolset(append([]chat.ToolDefinition{{Name: "added", Description: "new"}}, info.Tools.Definitions()[1:]...)...)
	require.NoError(t, err)
	gone := info.Tools.Definitions()[0].Name
	info.Tools = fewer
	_, err = Resume(dir, info)
	require.ErrorIs(t, err, ErrConfigChanged)
	info.AllowConfigChange = true
	for range 2 { // the second time there is nothing to allow
		run, err = Resume(dir, info)
		require.NoError(t, err)
		require.True(t, run.Tools().Has(gone))
		require.True(t, run.Tools().Has("added"))
		require.ElementsMatch(t, append([]string{"added"}, before...), run.Manifest().ToolNames)
		require.NoError(t, run.Close(StatusInterrupted))
		info.AllowConfigChange = false
	}
	back := testInfo(t)
	back.AllowConfigChange = true
	run, err = Resume(dir, back)
	require.NoError(t, err)
	m := run.Manifest()
	require.ElementsMatch(t, append([]string{"added"}, before...), m.ToolNames)
	require.NoError(t, run.Close(StatusDone))
	require.Len(t, m.ConfigHistory, 2)
}

func TestResume_UpgradesTheRecordedSettings(t *testing.T) {
	dir := t.TempDir()
	run, err := Create(dir, affectedBy(t, `{"env":{"mode":"note"}}`, `{"env":{"mode":"note"}}`, `{}`))
	require.NoError(t, err)
	require.NoError(t, run.Close(StatusInterrupted))
	now := affectedBy(t, `{"env":{"restore":"none"}}`, `{"env":{"restore":"none"}}`, `{}`)
	_, err = Resume(dir, now)
	require.ErrorIs(t, err, ErrConfigChanged)
	now.Upgrade = func(config json.RawMessage) json.RawMessage {
		return json.RawMessage(strings.Replace(string(config), `"mode": "note"`, `"restore": "none"`, 1)) // run.json is indented
	}
	run, err = Resume(dir, now)
	require.NoError(t, err)
	require.Empty(t, run.Manifest().ConfigHistory)
	require.NoError(t, run.Close(StatusInterrupted))
}

package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type shared struct {
	DatasetSplit string `yaml:"dataset_split" default:"train" help:"split to read"`
}

type level string

// everything has a field of every kind.
type everything struct {
	shared
	Level     level               `yaml:"level" choices:"low,high" default:"low" help:"h"`
	Words     *string             `yaml:"words" help:"h"`
	Share     *float64            `yaml:"share" min:"0" max:"1" help:"h"`
	Flag      *bool               `yaml:"flag" help:"h"`
	Small     int32               `yaml:"small" help:"h"`
	Any       json.RawMessage     `yaml:"any" default:"[1, x]" help:"h"`
	Objects   []json.RawMessage   `yaml:"objects" type:"object" help:"h"`
	Anys      []json.RawMessage   `yaml:"anys" help:"h"`
	Grid      [][]int             `yaml:"grid" min:"1" help:"h"`
	Rates     map[string]float64  `yaml:"rates" min:"0.5" help:"h"`
	Levels    []level             `yaml:"levels" choices:"low,high" help:"h"`
	ByName    map[string]player   `yaml:"by_name" help:"h"`
	Maps      []map[string]bool   `yaml:"maps" help:"h"`
	Limits    struct{ Deep deep } `yaml:"-"`
	Deep      deep                `yaml:"deep"`
	hidden    int                 // not exported, so no field
	Untouched chan int            `yaml:"-"`
}

type deep struct {
	Deeper struct {
		N int `yaml:"n" default:"7" help:"h"`
	} `yaml:"deeper"`
}

func loadEverything(t *testing.T, text string, flags ...string) (*everything, error) {
	t.Helper()
	o := options()
	o.Environments = []Environment{{Name: "e", Own: func() any { return &everything{hidden: 1} }}}
	r, err := loadText(t, o, server+"env:\n"+text, flags...)
	if err != nil {
		return nil, err
	}
	require.True(t, json.Valid(r.CanonicalJSON()))
	var out strings.Builder
	require.NoError(t, r.WriteYAML(&out))
	o.File = filepath.Join(t.TempDir(), "again.yaml")
	o.Flags = nil
	require.NoError(t, os.WriteFile(o.File, []byte(out.String()), 0o600))
	again, err := Load(o)
	require.NoError(t, err, out.String())
	require.Equal(t, r.Own, again.Own)
	return r.Own.(*everything), nil
}

func TestEveryKindOfFieldIsReadPrintedAndReadAgain(t *testing.T) {
	e, err := loadEverything(t, "  {}\n")
	require.NoError(t, err)
	require.Equal(t, "train", e.DatasetSplit)
	require.Equal(t, 7, e.Deep.Deeper.N)
	require.Equal(t, `[1,"x"]`, string(e.Any))
	require.Nil(t, e.Words)

	e, err = loadEverything(t, `
  dataset_split: test
  level: high
  words: ""
  share: 1
  flag: false
  small: -2147483648
  any: {b: 1, a: 2}
  objects: [{x: 1}, {}]
  anys: [1, null, text]
  grid: [[1, 2], []]
  rates: {a: 0.5, b: 3}
  levels: [low, high]
  by_name: {z: {name: q}, a: {skill: 1}}
  maps: [{a: true}]
  deep: {deeper: {n: 1}}
`, "env.deep.deeper.n=9", "env.share=0.25")
	require.NoError(t, err)
	require.Equal(t, "test", e.DatasetSplit)
	require.Equal(t, level("high"), e.Level)
	require.Empty(t, *e.Words)
	require.Equal(t, 0.25, *e.Share)
	require.False(t, *e.Flag)
	require.Equal(t, `{"b":1,"a":2}`, string(e.Any))
	require.Equal(t, `{"x":1}`, string(e.Objects[0]))
	require.Nil(t, e.Anys[1])
	require.Equal(t, [][]int{{1, 2}, {}}, e.Grid)
	require.Equal(t, map[string]float64{"a": 0.5, "b": 3}, e.Rates)
	require.Equal(t, player{"", 1}, e.ByName["a"])
	require.Equal(t, player{"q", 5}, e.ByName["z"])
	require.Equal(t, 9, e.Deep.Deeper.N)
}

func TestEveryKindOfFieldIsChecked(t *testing.T) {
	_, err := loadEverything(t, `
  level: mid
  share: 2
  small: 2147483648
  objects: [1]
  grid: [[0], 1]
  rates: {a: 0.1}
  levels: [hihg]
  by_name: {z: {name: 1}, y: 2}
  maps: [{a: 2}]
  deep: null
  words: [`+strings.Repeat("x", 100)+`]
  flag: `+strings.Repeat("y", 100)+`
`)
	require.EqualError(t, err, strings.Join([]string{
		`x.yaml:4:10: env.level: want one of low, high, got "mid"`,
		`x.yaml:5:10: env.share: want 0 to 1, got 2`,
		`x.yaml:6:10: env.small: 2147483648 is too large`,
		`x.yaml:7:13: env.objects[0]: want an object such as {"name": "value"}, got 1`,
		`x.yaml:8:11: env.grid[0][0]: want at least 1, got 0`,
		`x.yaml:8:15: env.grid[1]: want a list of integers such as [1], got 1`,
		`x.yaml:9:14: env.rates.a: want at least 0.5, got 0.1`,
		`x.yaml:10:12: env.levels[0]: want one of low, high, got "hihg"; did you mean "high"?`,
		`x.yaml:11:23: env.by_name.z.name: want text, got 1; put it in quotes if that is meant`,
		`x.yaml:11:30: env.by_name.y: want an object, got 2`,
		`x.yaml:12:14: env.maps[0].a: want true or false, got 2`,
		`x.yaml:13:9: env.deep: want an object, got null; remove the key to keep the defaults`,
		`x.yaml:14:10: env.words: want text, got a list`,
		`x.yaml:15:9: env.flag: want true or false, got "` + strings.Repeat("y", 60) + `…"`,
	}, "\n"))
}

func TestTypesAreDescribedInWords(t *testing.T) {
	fields, err := Fields(&everything{})
	require.NoError(t, err)
	types := map[string]string{}
	for _, f := range fields {
		types[f.Name] = f.Type
	}
	for name, want := range map[string]string{"level": "text", "share": "number", "flag": "true or false", "any": "any value", "objects": "list of objects",
		"anys": "list of any values", "grid": "list of lists", "rates": "object of numbers", "by_name": "object of objects", "maps": "list of objects",
		"deep.deeper.n": "integer", "terminal_timeout": "number", "extra_body": "object"} {
		require.Equal(t, want, types[name], name)
	}
}

func TestDefaultsOfGoCodeAreCheckedLikeTheUsers(t *testing.T) {
	half := 2.0
	for name, change := range map[string]struct {
		apply func(*everything)
		want  string
	}{
		"a pointer":       {func(e *everything) { e.Share = &half }, "env.share: want 0 to 1, got 2"},
		"a word":          {func(e *everything) { e.Level = "x" }, `env.level: want one of low, high, got "x"`},
		"a list":          {func(e *everything) { e.Grid = [][]int{{1}, {0}} }, "env.grid: [1]: [0]: want at least 1, got 0"},
		"a map":           {func(e *everything) { e.Rates = map[string]float64{"a": 0} }, "env.rates: a: want at least 0.5, got 0"},
		"no object":       {func(e *everything) { e.Objects = []json.RawMessage{[]byte("1")} }, "env.objects: [0]: want an object"},
		"an inner object": {func(e *everything) { e.ByName = map[string]player{"p": {Skill: 11}} }, "env.by_name: p: skill: want 0 to 10, got 11"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Environments = []Environment{{Name: "e", Own: func() any { return &everything{} }, Defaults: func(c *Config) { change.apply(c.Own.(*everything)) }}}
			o.Flags = flagsOf("agent=nop")
			_, err := Load(o)
			require.EqualError(t, err, "environment e: "+change.want)
		})
	}
}

func TestStructsThatCannotBeConfigsAreRefused(t *testing.T) {
	type loop struct {
		Inner []struct {
			Again []loop `yaml:"again"`
		} `yaml:"inner"`
	}
	for name, c := range map[string]struct {
		own  any
		want string
	}{
		"a struct in itself": {&loop{}, "contains itself"},
		"a name twice": {&struct {
			A int `yaml:"a"`
			B int `yaml:"a"`
		}{}, `two fields named "a"`},
		"an embedded name twice": {&struct {
			A string `yaml:"dataset_split"`
			shared
		}{}, `two fields named "dataset_split"`},
		"a name with a dot": {&struct {
			A int `yaml:"a.b"`
		}{}, `"a.b" can't be the name of a field`},
		"a bound that is no number": {&struct {
			A int `yaml:"a" min:"x"`
		}{}, "tag min"},
		"two pointers": {&struct {
			A **int `yaml:"a"`
		}{}, "one pointer is enough"},
		"a pointer to a list": {&struct {
			A *[]int `yaml:"a"`
		}{}, "only numbers, booleans and text may be pointers"},
		"keys that are no text": {&struct {
			A map[int]int `yaml:"a"`
		}{}, "the keys of a map must be text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Fields(c.own)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestADotenvThatCannotBeReadIsAWarning(t *testing.T) {
	o := options()
	o.WorkDir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(o.WorkDir, ".env"), []byte(strings.Repeat("#\n", maxDotenvBytes)), 0o600))
	r, err := loadText(t, o, "environment: terminal-test\n"+server)
	require.NoError(t, err)
	require.Len(t, r.Warnings, 1)
	require.Contains(t, r.Warnings[0], ".env: not read: larger than 1048576 bytes")

	o.WorkDir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(o.WorkDir, ".env"), 0o700))
	r, err = loadText(t, o, "environment: terminal-test\n"+server)
	require.NoError(t, err)
	require.Empty(t, r.Warnings, "a directory of that name is a Python environment, not a mistake")
}

package terminalbench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSources_FindsWhatScriptsRunAsPartOfThemselves(t *testing.T) {
	const script = `#!/bin/bash
source /app/env.sh
. "venv/bin/activate" && pytest
if true; then . /app/other.sh; fi
echo source /app/no.sh
cat ./file . /app/none
./run.sh
`
	var names []string
	for _, found := range sources.FindAllStringSubmatch(script, -1) {
		names = append(names, found[1])
	}
	require.Equal(t, []string{"/app/env.sh", "venv/bin/activate", "/app/other.sh"}, names)
}

func TestModuleName_IsThatOfAnImport(t *testing.T) {
	for file, want := range map[string][2]string{
		"/app/json.py":              {"/app", "json"},
		"/app/json/__init__.py":     {"/app", "json"},
		"/app/_json.cpython-312.so": {"/app", "_json"},
		"/app/pkg/types.py":         {"/app/pkg", "types"},
		"/app/data.json":            {"/app", ""},
		"/app/__pycache__/json.pyc": {"/app/__pycache__", "json"},
	} {
		require.Equal(t, want, [2]string{moduleDir(file), moduleName(file)}, file)
	}
}

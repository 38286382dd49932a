package hub_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/dataset/hub"
)

func TestOptionsComeFromTheVariablesOfTheHubsOwnClients(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{".cache/huggingface", "hf"} {
		require.NoError(t, os.MkdirAll(filepath.Join(home, dir), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(home, dir, "token"), []byte("hf_of_"+filepath.Base(dir)+"\n"), 0o600))
	}
	for name, c := range map[string]struct {
		variables map[string]string
		endpoint  string
		token     string
		cache     string // below home
		offline   bool
	}{
		"none":                   {nil, "", "hf_of_huggingface", ".cache/huggingface/hub", false},
		"XDG":                    {map[string]string{"XDG_CACHE_HOME": "$HOME/xdg"}, "", "", "xdg/huggingface/hub", false},
		"HF_HOME":                {map[string]string{"HF_HOME": "~/hf"}, "", "hf_of_hf", "hf/hub", false},
		"old cache variable":     {map[string]string{"HUGGINGFACE_HUB_CACHE": "$HOME/old"}, "", "hf_of_huggingface", "old", false},
		"new cache variable":     {map[string]string{"HUGGINGFACE_HUB_CACHE": "/old", "HF_HUB_CACHE": "${HOME}/new"}, "", "hf_of_huggingface", "new", false},
		"token":                  {map[string]string{"HF_TOKEN": " hf_x\n", "HUGGING_FACE_HUB_TOKEN": "hf_y"}, "", "hf_x", ".cache/huggingface/hub", false},
		"old token":              {map[string]string{"HUGGING_FACE_HUB_TOKEN": "hf_y"}, "", "hf_y", ".cache/huggingface/hub", false},
		"no token":               {map[string]string{"HF_TOKEN": "hf_x", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, "", "", ".cache/huggingface/hub", false},
		"another token file":     {map[string]string{"HF_TOKEN_PATH": "~/hf/token"}, "", "hf_of_hf", ".cache/huggingface/hub", false},
		"mirror":                 {map[string]string{"HF_ENDPOINT": "https://mirror.example"}, "https://mirror.example", "hf_of_huggingface", ".cache/huggingface/hub", false},
		"offline":                {map[string]string{"HF_HUB_OFFLINE": "yes"}, "", "hf_of_huggingface", ".cache/huggingface/hub", true},
		"offline for data sets":  {map[string]string{"HF_DATASETS_OFFLINE": "1"}, "", "hf_of_huggingface", ".cache/huggingface/hub", true},
		"not offline with a 0":   {map[string]string{"HF_HUB_OFFLINE": "0"}, "", "hf_of_huggingface", ".cache/huggingface/hub", false},
		"an unknown variable":    {map[string]string{"HF_HUB_CACHE": "~/$NOPE"}, "", "hf_of_huggingface", "${NOPE}", false},
		"offline for the models": {map[string]string{"TRANSFORMERS_OFFLINE": "ON"}, "", "hf_of_huggingface", ".cache/huggingface/hub", true},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := hub.FromEnvironment(func(key string) string {
				if key == "HOME" {
					return home
				}
				return c.variables[key]
			})
			require.NoError(t, err)
			require.Equal(t, c.endpoint, o.Endpoint)
			require.Equal(t, c.token, string(o.Token))
			require.Equal(t, filepath.Join(home, c.cache), o.CacheDir)
			require.Equal(t, c.offline, o.Offline)
		})
	}
}

func TestATokenFileThatCannotBeReadIsAnError(t *testing.T) {
	dir := t.TempDir()
	_, err := hub.FromEnvironment(func(key string) string {
		return map[string]string{"HOME": dir, "HF_TOKEN_PATH": dir}[key] // a folder
	})
	require.ErrorContains(t, err, "HF_TOKEN")
}

func TestATokenIsNeverPrinted(t *testing.T) {
	o := hub.Options{Token: "hf_secret"}
	encoded, err := json.Marshal(o.Token)
	require.NoError(t, err)
	for _, s := range []string{fmt.Sprint(o.Token), fmt.Sprintf("%+v", o), fmt.Sprintf("%#v", o), fmt.Sprintf("%s %q %v", o.Token, o.Token, &o), string(encoded)} {
		require.NotContains(t, s, "hf_secret")
	}
	require.Empty(t, fmt.Sprint(hub.Token("")))
}

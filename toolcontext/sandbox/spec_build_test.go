package sandbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestBuildsAndProjectsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, spec := range map[string]sandbox.Spec{
		"":                     {Build: "/x", BuildOptions: sandbox.BuildOptions{Dockerfile: "sub/Dockerfile", Args: map[string]string{"A": "1"}, Target: "last", Timeout: time.Minute, Force: true}},
		"names no folder":      {BuildOptions: sandbox.BuildOptions{Force: true}},
		"does not lie in":      {Build: "/x", BuildOptions: sandbox.BuildOptions{Dockerfile: "../Dockerfile"}},
		"line break":           {Build: "/x", BuildOptions: sandbox.BuildOptions{Target: "a\nb"}},
		"build's time limit":   {Build: "/x", BuildOptions: sandbox.BuildOptions{Timeout: -1}},
		"can't be the name":    {Build: "/x", BuildOptions: sandbox.BuildOptions{Args: map[string]string{"A=B": ""}}},
		"names no file":        {Compose: &sandbox.Compose{}},
		"compose file":         {Compose: &sandbox.Compose{File: "a\x00"}},
		"project's time limit": {Compose: &sandbox.Compose{File: "/x", Timeout: -1}},
		"environment variable": {Compose: &sandbox.Compose{File: "/x", Variables: map[string]string{"": "x"}}},
		"both the image":       {Image: "a", Build: "/x", Compose: &sandbox.Compose{File: "/x"}},
	} {
		err := spec.Validate()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, "the compose project /x", sandbox.Spec{Compose: &sandbox.Compose{File: "/x"}}.ForContainers())
}

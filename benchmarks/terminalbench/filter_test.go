package terminalbench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/config"
)

func someTasks() []*task {
	return []*task{
		{name: "fix-git", category: "software-engineering", difficulty: "easy"},
		{name: "git-multibranch", category: "system-administration", difficulty: "medium"},
		{name: "chess-best-move", category: "games", difficulty: "medium"},
		{name: "extra/qemu-startup", category: "system-administration", difficulty: "hard"},
	}
}

func TestTasksAreChosenByPatterns(t *testing.T) {
	for name, test := range map[string]struct {
		s    selection
		want string
		err  string
	}{
		"all":                     {want: "fix-git git-multibranch chess-best-move extra/qemu-startup"},
		"names":                   {s: selection{only: config.Words{"fix-git", "chess-best-move"}}, want: "fix-git chess-best-move"},
		"patterns":                {s: selection{only: config.Words{"*git*"}}, want: "fix-git git-multibranch"},
		"the last part of a name": {s: selection{only: config.Words{"qemu-*"}}, want: "extra/qemu-startup"},
		"left out":                {s: selection{skip: config.Words{"*git*", "chess-best-move"}}, want: "extra/qemu-startup"},
		"categories":              {s: selection{categories: config.Words{"system-*"}}, want: "git-multibranch extra/qemu-startup"},
		"difficulties":            {s: selection{difficulties: config.Words{"medium"}, skip: config.Words{"chess*"}}, want: "git-multibranch"},
		"a name nobody has":       {s: selection{only: config.Words{"fix-gti"}}, err: `env.task_filter: nothing is named "fix-gti"; did you mean fix-git?`},
		"a part of a name":        {s: selection{skip: config.Words{"chess"}}, err: `env.skip_tasks: nothing is named "chess"; did you mean chess-best-move?`},
		"two wrong names":         {s: selection{only: config.Words{"fix-git", "zzz"}, categories: config.Words{"gmaes"}}, err: "games"},
		"nothing is left":         {s: selection{only: config.Words{"fix-git"}, categories: config.Words{"games"}}, err: "none of the 4 tasks is left"},
		"nothing near":            {s: selection{only: config.Words{"zzz"}}, err: "there are fix-git, git-multibranch"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := test.s.choose(someTasks())
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			var names []string
			for _, c := range chosen {
				names = append(names, c.name)
			}
			require.Equal(t, test.want, strings.Join(names, " "))
		})
	}
}

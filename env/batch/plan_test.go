package batch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rowsOf makes rows with the given texts.
func rowsOf(texts ...string) []row {
	count := map[string]uint32{}
	rows := make([]row, len(texts))
	for i, text := range texts {
		p := prompt{text: text}
		rows[i] = row{digest: p.digest(), text: hashText(text), occurrence: count[text]}
		count[text]++
	}
	return rows
}

func foreign(index int, text string) place { return place{index: index, text: hashText(text)} }

func TestWhatIsLeftIsDecidedByContent(t *testing.T) {
	rows := rowsOf("a", "b", "a", "c")
	tests := []struct {
		name        string
		items       []int // rows with a recorded rollout
		foreign     []place
		completed   []int
		want        []todo
		discarded   int
		distrusted  int
		usedIndices []int
	}{
		{name: "nothing was run", want: []todo{{0, 0}, {1, 1}, {2, 2}, {3, 3}}},
		{name: "recorded rollouts are done", items: []int{1, 2}, usedIndices: []int{1, 2}, want: []todo{{0, 0}, {3, 3}}},
		{name: "a row of the original stands for one row, duplicates stay", foreign: []place{foreign(0, "a")}, want: []todo{{1, 1}, {2, 2}, {3, 3}}},
		{name: "and for the one at its number where there are several", foreign: []place{foreign(2, "a")}, want: []todo{{0, 0}, {1, 1}, {3, 3}}},
		{name: "both duplicates were run", foreign: []place{foreign(0, "a"), foreign(2, "a")}, want: []todo{{1, 1}, {3, 3}}},
		{name: "a moved row is found by its text, and its number is not given twice", foreign: []place{foreign(0, "c")}, want: []todo{{0, 4}, {1, 1}, {2, 2}}},
		{name: "a row that left the dataset keeps its number", foreign: []place{foreign(1, "gone")}, want: []todo{{0, 0}, {1, 4}, {2, 2}, {3, 3}}},
		{name: "numbers without a row are discards of the original", foreign: []place{foreign(0, "a")}, completed: []int{0, 1}, want: []todo{{2, 2}, {3, 3}}, discarded: 1},
		{name: "unless the dataset is another one", foreign: []place{foreign(0, "c")}, completed: []int{0, 1, 2}, want: []todo{{0, 4}, {1, 1}, {2, 2}}, distrusted: 2},
		{name: "or too short for them", completed: []int{9}, want: []todo{{0, 0}, {1, 1}, {2, 2}, {3, 3}}, distrusted: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := &past{items: map[string]bool{}, indices: map[int]bool{}, foreign: test.foreign, completed: test.completed}
			for _, i := range test.items {
				p.items[rows[i].itemID()] = true
			}
			for _, i := range test.usedIndices {
				p.indices[i] = true
			}
			for _, f := range test.foreign {
				p.indices[f.index] = true
			}
			got := makePlan(rows, p)
			require.Equal(t, test.want, got.pending)
			require.Len(t, got.discarded, test.discarded)
			require.Equal(t, test.distrusted, got.distrusted)
			require.Equal(t, len(rows)-len(test.want), got.done)
		})
	}
}

func TestNumbersAreUniqueAndNothingIsForgottenWhateverHappenedToTheDataset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letter := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		before := rapid.SliceOfN(letter, 0, 12).Draw(t, "before")
		after := rapid.SliceOfN(letter, 1, 12).Draw(t, "after")
		p := &past{items: map[string]bool{}, indices: map[int]bool{}}
		ran := map[string]int{}
		for i, text := range before {
			if rapid.Bool().Draw(t, fmt.Sprint("ran", i)) {
				p.foreign = append(p.foreign, foreign(i, text))
				p.indices[i] = true
				ran[text]++
			}
		}
		used := map[int]bool{}
		for i := range p.indices {
			used[i] = true
		}
		got := makePlan(rowsOf(after...), p)
		left := map[string]int{}
		for _, d := range got.pending {
			require.False(t, used[d.index], "index %d is given twice", d.index)
			used[d.index] = true
			left[after[d.position]]++
		}
		total := map[string]int{}
		for _, text := range after {
			total[text]++
		}
		for text, n := range total {
			require.Equal(t, max(0, n-ran[text]), left[text], "%q stands %d times in the dataset and was run %d times", text, n, ran[text])
		}
	})
}

func TestRowsAreReadAsTheOriginalReadsThem(t *testing.T) {
	tests := map[string]struct {
		line string
		want prompt
		err  string
	}{
		"a prompt":                           {line: `{"prompt": "hi", "x": 1}`, want: prompt{text: "hi"}},
		"image wins over docker_image":       {line: `{"prompt": "hi", "docker_image": "b", "image": "a", "cwd": "/w"}`, want: prompt{text: "hi", image: "a", dir: "/w"}},
		"docker_image alone":                 {line: `{"prompt": "hi", "image": null, "docker_image": "b"}`, want: prompt{text: "hi", image: "b"}},
		"a number":                           {line: `{"prompt": 42.0}`, want: prompt{text: "42.0", odd: true}},
		"a list":                             {line: `{"prompt": ["a"]}`, want: prompt{text: `["a"]`, odd: true}},
		"no prompt":                          {line: `{"text": "hi"}`, err: `no "prompt"`},
		"null":                               {line: `{"prompt": null}`, err: `no "prompt"`},
		"blank":                              {line: `{"prompt": " \n"}`, err: "blank"},
		"an image that is no text":           {line: `{"prompt": "hi", "image": 5}`, err: `"image" is 5, want text`},
		"a working directory that is a list": {line: `{"prompt": "hi", "cwd": []}`, err: `"cwd" is []`},
		"a list instead of an object":        {line: `["prompt"]`, err: "not a JSON object"},
		"broken JSON":                        {line: `{"prompt": `, err: "not valid JSON"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseLine([]byte(test.line))
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	require.NotEqual(t, (&prompt{text: "1"}).digest(), (&prompt{text: "1", odd: true}).digest())
	require.NotEqual(t, (&prompt{text: "1", image: "a"}).digest(), (&prompt{text: "1", dir: "a"}).digest())
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"prompt": "hi", "image": "a"}`))
	f.Add([]byte(`{"prompt": {"a": [1]}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) == 0 {
			return
		}
		if p, err := parseLine(line); err == nil {
			require.False(t, isBlank(p.text))
			require.Equal(t, p.digest(), p.digest())
		}
	})
}

func FuzzReadPlace(f *testing.F) {
	f.Add([]byte(`{"prompt_index": 3, "conversations": [{"from": "human", "value": "x"}], "metadata": {"timestamp": "t"}}`))
	f.Add([]byte(`{"prompt_index": -1e99, "discarded": null, "conversations": {"a": 5}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		p := newToolNames().readPlace(line)
		require.GreaterOrEqual(t, p.index, -1)
	})
}

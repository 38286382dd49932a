package atropos

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func number(n int64) *int64 { return &n }

func TestAGroupIsReadAsItWasWritten(t *testing.T) {
	g := &Group{
		Tokens: [][]int64{{1, 2}, {3}}, Masks: [][]int64{{Masked, 2}, {3}}, Scores: []float64{1, -0.5}, Advantages: [][]float64{{0.1, 1e-7}, {2}},
		Messages:         [][]json.RawMessage{{json.RawMessage(`{"role":"user","content":"<é>"}`)}, {}},
		GenerationParams: json.RawMessage(`{"temperature":0.8}`), InferenceLogprobs: [][]float64{{1, -0.25}, {-3}},
		Overrides: []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"set_advantage_to_zero":true}`)}, EnvID: number(3),
		DistillTokenIDs: [][][]int64{{{1}, {2, 3}}, {{}}}, DistillLogprobs: [][][]float64{{{-1}, {-2, -3}}, {{}}},
	}
	text, err := AppendGroup(nil, g)
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	in, err := Rules{}.DecodeGroup(text)
	require.NoError(t, err)
	require.Equal(t, string(text), string(bytes.Join(in.Parts, nil)))
	require.NoError(t, in.Check())
	require.Equal(t, []int64{2, 3, 2, 3, int64(len(text))}, []int64{in.Sequences, in.Tokens, in.Longest, *in.EnvID, in.Size()})
	var again Group
	require.NoError(t, json.Unmarshal(text, &again))
	second, err := AppendGroup(nil, &again)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(second))
}

func TestAGroupThatJSONCantHoldIsRefused(t *testing.T) {
	zero := 0.0
	_, err := AppendGroup(nil, &Group{Scores: []float64{zero / zero}})
	require.ErrorContains(t, err, "scores holds NaN")
	_, err = AppendGroup(nil, &Group{Images: json.RawMessage(`{`)})
	require.ErrorContains(t, err, "images holds a value that is not JSON")
}

func TestDeepNestingIsRefused(t *testing.T) {
	_, err := Rules{}.DecodeGroup([]byte(`{"images":` + strings.Repeat("[", 100_000)))
	require.ErrorContains(t, err, "Nested too deep")
}

func FuzzDecodeGroup(f *testing.F) {
	for _, seed := range []string{
		`{"tokens":[[1,2]],"masks":[[1,2]],"scores":[1]}`,
		` { "tokens" : [ [ 1 , "2" , 3.0 , true ] ] , "masks":[[-100,2,-0,1e2]], "scores": [ NaN , -Infinity, "1_0" , 1e5 ] } `,
		`{"tokens":[[1]],"masks":[[1]],"scores":[0.5],"messages":[[{"role":"a","content":"\u00e9\ud800 é","x":[null,{"y":NaN}]}]],"env_id":-1,"distill_token_ids":[[[1],[]]],"images":[1,"a"]}`,
		`{"tokens":[[01]]}`, `[{}]`, `{"tokens":[[1]]`, "\ufeff{}", `{"a":"\`, `{"scores":["` + "\x00" + `"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g, err := Rules{}.DecodeGroup(body)
		var wrong *InvalidError
		if errors.As(err, &wrong) {
			require.NotEmpty(t, wrong.Problems)
			require.True(t, json.Valid(wrong.AppendJSON(nil)))
			return
		}
		if err != nil {
			require.ErrorIs(t, err, ErrNotUTF8)
			require.False(t, utf8.Valid(body))
			return
		}
		text := bytes.Join(g.Parts, nil)
		require.True(t, json.Valid(text), "%q", text)
		var decoded Group
		require.NoError(t, decodeNumbers(text), "%q", text)
		again, err := Rules{}.DecodeGroup(text)
		require.NoError(t, err)
		require.Equal(t, string(text), string(bytes.Join(again.Parts, nil)), "reading it again changes nothing")
		require.Equal(t, g.Check() == nil, again.Check() == nil)
		if g.Check() == nil && json.Unmarshal(text, &decoded) == nil {
			require.Equal(t, int(g.Sequences), len(decoded.Tokens))
		}
		list, err := Rules{}.DecodeGroups(append(append([]byte("["), body...), ']'))
		if err == nil && len(list) == 1 {
			require.Equal(t, string(text), string(bytes.Join(list[0].Parts, nil)))
		}
	})
}

// decodeNumbers reads the numeric fields with another decoder.
func decodeNumbers(text []byte) error {
	var g struct {
		Tokens     [][]json.Number `json:"tokens"`
		Masks      [][]json.Number `json:"masks"`
		Scores     []float64       `json:"scores"`
		Advantages [][]float64     `json:"advantages"`
		Messages   [][]struct {
			Role    *json.RawMessage `json:"role"`
			Content *json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	return json.Unmarshal(text, &g)
}

func FuzzDecodeRequests(f *testing.F) {
	f.Add([]byte(`{"wandb_group":"g","wandb_project":"p","batch_size":16,"max_token_len":512,"checkpoint_dir":"/ckpt","save_checkpoint_interval":2,"starting_step":0,"num_steps":100}`))
	f.Add([]byte(`{"max_token_length":"2048","desired_name":"toy","weight":1,"min_batch_allocation":null,"group_size":4.0}`))
	f.Add([]byte(`{"env_id":99999999999999999999}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, first := Rules{}.DecodeRegistration(body)
		_, second := Rules{}.DecodeEnvRegistration(body)
		_, third := Rules{}.DecodeEnvID(body)
		for _, err := range []error{first, second, third} {
			var wrong *InvalidError
			if err != nil && !errors.As(err, &wrong) {
				require.ErrorIs(t, err, ErrNotUTF8)
			}
			if wrong != nil {
				require.True(t, json.Valid(wrong.AppendJSON(nil)))
			}
		}
	})
}

func BenchmarkDecodeGroup(b *testing.B) {
	row := "[" + strings.TrimSuffix(strings.Repeat("15043,", 4096), ",") + "]"
	logprobs := "[" + strings.TrimSuffix(strings.Repeat("-0.12345678901234567,", 4096), ",") + "]"
	rows := "[" + strings.TrimSuffix(strings.Repeat(row+",", 16), ",") + "]"
	body := []byte(`{"tokens":` + rows + `,"masks":` + rows + `,"scores":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"inference_logprobs":[` + strings.TrimSuffix(strings.Repeat(logprobs+",", 16), ",") + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (Rules{}).DecodeGroup(body); err != nil {
			b.Fatal(err)
		}
	}
}

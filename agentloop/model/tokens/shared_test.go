package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/agentloop/model/tokens"
)

// patient answers late and says which prompt it read, as it was at the end. Some of its
// requests fail.
type patient struct {
	mu    sync.Mutex
	calls int
	ids   []int
}

func (p *patient) Complete(_ context.Context, req *model.Request) (*model.Response, error) {
	p.mu.Lock()
	p.calls++
	fails := p.calls%7 == 0
	p.mu.Unlock()
	before := slices.Clone(req.Prompt)
	for range 20 {
		runtime.Gosched()
	}
	if !slices.Equal(before, req.Prompt) {
		return nil, errors.New("the prompt changed while it was read")
	}
	if fails {
		return nil, &model.Error{Kind: model.KindServerError, Message: "try again"}
	}
	return &model.Response{FinishReason: "stop", Capture: &model.Capture{
		Prompt: before, Tokens: p.ids, Logprobs: make([]float64, len(p.ids)), StopToken: -1, PromptTokens: -1, SampledTokens: -1,
	}}, nil
}

func TestSessionsThatShareARendererDontShareTheirPrompts(t *testing.T) {
	s := newSetup(t, "sglang", modeltest.ChatML, nil)
	ids, err := s.tokenizer.Encode("An answer."+modeltest.EndOfText, false)
	require.NoError(t, err)
	client := &patient{ids: ids}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			session, err := tokens.New(tokens.Config{Client: client, Renderer: s.config.Renderer, Parser: s.config.Parser})
			if err != nil {
				t.Error(err)
				return
			}
			messages := []chat.Message{chat.User(fmt.Sprintf("rollout %d", i))}
			for turn := range 15 {
				req := &model.Request{Messages: messages}
				resp, err := session.Complete(t.Context(), req)
				if model.KindOf(err) == model.KindServerError {
					resp, err = session.Complete(t.Context(), req)
				}
				if model.KindOf(err) == model.KindServerError {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				messages = append(messages, resp.Message, chat.User(fmt.Sprintf("rollout %d, turn %d", i, turn)))
			}
			if err := session.Trainable(); err != nil {
				t.Error(err)
			}
			sequences := session.Sequences()
			if len(sequences) != 1 {
				t.Errorf("%d sequences", len(sequences))
				return
			}
			text := s.tokenizer.Decode(sequences[0].Tokens, false)
			want, _, err := s.config.Renderer.Render(t.Context(), &model.Request{Messages: messages[:len(messages)-1]})
			if err != nil || len(want) < len(text) || want[:len(text)] != text {
				t.Errorf("rollout %d: the tokens say %q, the conversation is %q", i, text, want)
			}
		})
	}
	wg.Wait()
}

package tokens_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/agentloop/model/tokens"
	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
	"github.com/hermes-env/hermes-env/parsers"
)

// kinds are the ways to get at exact tokens.
var kinds = []string{"vllm, rendered by the server", "vllm, rendered here", "sglang", "generate"}

// setup is a server and what a session over it needs.
type setup struct {
	server    *modeltest.TokenServer
	tokenizer *tokenizer.Tokenizer
	config    tokens.Config
}

func folder(t testing.TB, template string) string {
	dir := t.TempDir()
	require.NoError(t, modeltest.WriteFolder(dir, template))
	return dir
}

func newSetup(t testing.TB, kind, template string, script modeltest.TokenScript, change ...func(*modeltest.TokenConfig)) *setup {
	dir := folder(t, template)
	cfg := modeltest.TokenConfig{Dir: dir, Script: script}
	switch kind {
	case "sglang":
		cfg.API = modeltest.SGLang
	case "generate":
		cfg.API = modeltest.Generate
	}
	for _, f := range change {
		f(&cfg)
	}
	server := modeltest.NewTokenServer(t, cfg)
	described := model.Server{BaseURL: server.URL, Model: "mock", Timeout: 30 * time.Second}
	var client model.Client
	var err error
	switch kind {
	case "sglang":
		client, err = model.NewSGLang(described)
	case "generate":
		client, err = model.NewGenerate(described)
	default:
		client, err = model.NewVLLM(described)
	}
	require.NoError(t, err)
	parser, err := parsers.Lookup("hermes")
	require.NoError(t, err)
	s := &setup{server: server, config: tokens.Config{Client: client, Parser: parser}}
	if s.tokenizer, err = tokenizer.Load(dir); err != nil {
		t.Fatal(err)
	}
	switch kind {
	case "vllm, rendered by the server":
		remote, err := model.NewServerTokenizer([]model.Server{described}, model.RetryPolicy{MaxAttempts: 1})
		require.NoError(t, err)
		t.Cleanup(remote.CloseIdleConnections)
		s.config.Renderer = tokens.NewRemote(remote)
	case "vllm, chat":
	default:
		local, err := tokens.Open(dir, "")
		require.NoError(t, err)
		s.config.Renderer = local
	}
	t.Cleanup(func() {
		if c, ok := client.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	})
	return s
}

func (s *setup) session(t testing.TB) *tokens.Session {
	session, err := tokens.New(s.config)
	require.NoError(t, err)
	return session
}

func terminal(t testing.TB) *chat.Toolset {
	set, err := chat.NewToolset(chat.ToolDefinition{Name: "terminal", Description: "run a command", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`)})
	require.NoError(t, err)
	return set
}

func call(command string) string {
	return "<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": " + string(chat.AppendString(nil, command)) + "}}\n</tool_call>"
}

// converse plays a conversation: after each answer its calls are answered, or the user
// says something more.
func converse(t testing.TB, session *tokens.Session, tools *chat.Toolset, turns int) []chat.Message {
	messages := []chat.Message{chat.System("You are careful."), chat.User("Say hello to the world: Grüße, 世界 🌍!")}
	for i := range turns {
		resp, err := session.Complete(context.Background(), &model.Request{Messages: messages, Tools: tools, MaxTokens: 4096})
		require.NoError(t, err)
		messages = append(messages, resp.Message)
		if i == turns-1 {
			break
		}
		if calls := resp.Message.ToolCalls(); len(calls) > 0 {
			for _, c := range calls {
				messages = append(messages, chat.Tool(c.ID, fmt.Sprintf("output of %d: é漢\n", i)))
			}
		} else {
			messages = append(messages, chat.User(fmt.Sprintf("And %d? ", i)))
		}
	}
	return messages
}

// check holds what is true of every sequence whatever was said.
func check(t testing.TB, s *setup, all []model.Sequence) {
	trained := map[string]int{}
	for _, sequence := range all {
		require.Len(t, sequence.Masks, len(sequence.Tokens))
		require.Len(t, sequence.Logprobs, len(sequence.Tokens))
		inside := make([]bool, len(sequence.Tokens))
		for _, turn := range sequence.Turns {
			require.Less(t, turn.Start, turn.End)
			for i := turn.Start; i < turn.End; i++ {
				require.False(t, inside[i], "two answers share a token")
				inside[i] = !turn.Repeated
			}
		}
		for i, id := range sequence.Tokens {
			if !inside[i] {
				require.Equal(t, model.Masked, sequence.Masks[i])
				require.Equal(t, model.UnknownLogprob, sequence.Logprobs[i])
				continue
			}
			require.Equal(t, id, sequence.Masks[i])
			require.Equal(t, modeltest.LogprobOf(id, i), sequence.Logprobs[i], "the log-probability of another token or place")
			trained[fmt.Sprint(sequence.Tokens[:i+1])]++
			if len(sequence.Tokens) > 3000 { // the key of a long prefix is long itself
				delete(trained, fmt.Sprint(sequence.Tokens[:i+1]))
			}
		}
	}
	for _, n := range trained {
		require.Equal(t, 1, n, "a token is trained on twice")
	}
}

func TestASessionExtendsTheTokensItSampled(t *testing.T) {
	answers := []string{"Hello world", "I look.\n" + call("ls -la"), call("cat ä.txt") + "\n" + call("echo 世界"), "Done 🌍."}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var s *setup
			var prompts [][]int
			script := func(r *modeltest.TokenRequest) modeltest.TokenReply {
				prompts = append(prompts, append([]int(nil), r.Prompt...))
				return modeltest.SampleIDs(modeltest.Scatter(s.tokenizer, answers[r.Number%len(answers)], random.IntN)...)
			}
			s = newSetup(t, kind, modeltest.ChatML, script)
			session := s.session(t)
			tools := terminal(t)
			messages := converse(t, session, tools, 8)
			require.NoError(t, session.Trainable())
			all := session.Sequences()
			require.Len(t, all, 1, "nothing was rewritten")
			check(t, s, all)
			got := all[0]
			require.Len(t, got.Turns, 8)
			for i, p := range prompts {
				require.Equal(t, p, got.Tokens[:got.Turns[i].Start], "prompt %d is not the beginning of the sequence", i)
			}
			// The text is that of the template, although no token list is what the tokenizer makes of it.
			local, err := tokens.Open(folder(t, modeltest.ChatML), "")
			require.NoError(t, err)
			last := len(messages) - 1
			text, _, err := local.Render(t.Context(), &model.Request{Messages: messages[:last], Tools: tools})
			require.NoError(t, err)
			require.Equal(t, text+answers[7%len(answers)]+modeltest.EndOfText, s.tokenizer.Decode(got.Tokens, false))
			canonical, err := s.tokenizer.Encode(text, false)
			require.NoError(t, err)
			require.NotEqual(t, canonical, prompts[7], "the scattered tokens would show drift")
			require.Equal(t, "I look.", messages[4].Text())
			require.Equal(t, `{"command": "ls -la"}`, messages[4].ToolCalls()[0].Arguments)
			require.Len(t, messages[6].ToolCalls(), 2)
		})
	}
}

func TestNothingIsRenderedHereWhereTheServerDoesIt(t *testing.T) {
	s := newSetup(t, kinds[0], modeltest.ChatML, modeltest.SampleInOrder(modeltest.Sample("Hello")))
	converse(t, s.session(t), nil, 3)
	paths := map[string]int{}
	for _, r := range s.server.Requests() {
		paths[r.Path]++
		if r.Path == "/v1/completions" {
			require.NotContains(t, string(r.Body), `"messages"`)
			require.Contains(t, string(r.Body), `"prompt":[`)
		}
	}
	require.Equal(t, 3, paths["/v1/completions"])
	require.NotZero(t, paths["/tokenize"])
	require.NotZero(t, paths["/detokenize"])
}

func TestAnswersWrittenOtherwiseByTheTemplateKeepTheirTokens(t *testing.T) {
	spaced := "<tool_call>\n{\"name\":\"terminal\",   \"arguments\":{\"command\":\"ls\"}}\n</tool_call>"
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := newSetup(t, kind, modeltest.ChatML, modeltest.SampleInOrder(modeltest.Sample(spaced), modeltest.Sample("It is empty.\n\n"), modeltest.Sample("Bye")))
			session := s.session(t)
			converse(t, session, terminal(t), 3)
			all := session.Sequences()
			require.Len(t, all, 1)
			check(t, s, all)
			require.True(t, all[0].Turns[0].Drift)
			require.False(t, all[0].Turns[1].Drift)
			text := s.tokenizer.Decode(all[0].Tokens, false)
			require.Contains(t, text, spaced+modeltest.EndOfText+"\n<|im_start|>user\n<tool_response>", "what was sampled stays, and what follows is the template's")
		})
	}
}

// Published templates search the content of an answer, add to it, or print it whatever it
// is; an answer that is nothing but a call has null there.
func TestSession_ContinuesAfterCallOnlyAnswers(t *testing.T) {
	for name, show := range map[string]string{
		"searched": `{% if '</think>' in m.content %}{% set content = m.content.split('</think>')[-1] %}{% else %}{% set content = m.content %}{% endif %}{{ content }}`,
		"added":    `{{ '' + m.content }}`,
		"printed":  `{{ m.content }}`,
		"parts":    `{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}`,
	} {
		template := strings.Replace(modeltest.Thinking, "{{ m.content or '' }}", show, 1)
		require.NotEqual(t, modeltest.Thinking, template)
		for _, kind := range kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				s := newSetup(t, kind, template, modeltest.SampleInOrder(
					modeltest.Sample(call("ls")), modeltest.Sample(call("cat a")+"\n"+call("cat b")), modeltest.Sample("Done."), modeltest.Sample(call("rm a"))))
				session := s.session(t)
				messages := converse(t, session, terminal(t), 5)
				require.Equal(t, "null", string(messages[2].Get("content")))
				require.NoError(t, session.Trainable())
				all := session.Sequences()
				require.Len(t, all, 1)
				check(t, s, all)
				require.Len(t, all[0].Turns, 5)
				for i, turn := range all[0].Turns {
					require.False(t, turn.Drift, "answer %d is written as it was sampled", i+1)
				}
				require.NotContains(t, s.tokenizer.Decode(all[0].Tokens, false), "None")
			})
		}
	}
}

func TestSession_KeepsTheSampledSpellingOfArguments(t *testing.T) {
	spellings := []string{
		`{"command": "ls", "n": 1e3}`,
		`{"command": "ls", "n": [0.10, 1.500]}`,
		`{"command": "ls", "n": -0}`,
		`{"command": "ls", "n": 1.0E-7}`,
		`{"command": "ls", "n": 100000000000000000000000000.0}`,
		`{"command": "\u006cs \u00e9 \ud83d\ude00 \/"}`,
		`{"command": "rm", "n": 1, "command": "ls"}`,
		`{ "command" : "ls","n":[ 1,2 ] }`,
		`null`,
	}
	var script []modeltest.TokenReply
	var sampled []string
	for _, arguments := range spellings {
		sampled = append(sampled, "<tool_call>\n{\"name\": \"terminal\", \"arguments\": "+arguments+"}\n</tool_call>")
		script = append(script, modeltest.Sample(sampled[len(sampled)-1]))
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := newSetup(t, kind, modeltest.ChatML, modeltest.SampleInOrder(append(script, modeltest.Sample("Done."))...))
			session := s.session(t)
			converse(t, session, terminal(t), len(script)+1)
			require.NoError(t, session.Trainable())
			all := session.Sequences()
			require.Len(t, all, 1, "%s", all[len(all)-1].Fork)
			check(t, s, all)
			text := s.tokenizer.Decode(all[0].Tokens, false)
			for i, answer := range sampled {
				require.True(t, all[0].Turns[i].Drift, answer)
				require.Contains(t, text, answer)
			}
			require.False(t, all[0].Turns[len(sampled)].Drift)
		})
	}
}

func TestSession_ForksWhereATemplateWritesOtherValues(t *testing.T) {
	template := strings.ReplaceAll(modeltest.ChatML, "call.function.arguments | tojson", "call.function.arguments | tojson | replace('1.5', '1')")
	require.NotEqual(t, modeltest.ChatML, template)
	s := newSetup(t, "sglang", template, modeltest.SampleInOrder(modeltest.Sample("<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": \"ls\", \"n\": 1.5}}\n</tool_call>"), modeltest.Sample("Done.")))
	session := s.session(t)
	converse(t, session, terminal(t), 2)
	all := session.Sequences()
	require.Len(t, all, 2)
	require.Contains(t, all[1].Fork, "it writes other tool calls")
}

func TestATemplateThatRewritesHistoryForksTheSession(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := newSetup(t, kind, modeltest.Thinking, modeltest.SampleInOrder(
				modeltest.Sample("<think>\nI should look.\n</think>\n\n"+call("ls")),
				modeltest.Sample("<think>\nNow I know.\n</think>\n\nTwo files."),
				modeltest.Sample("<think>\nEasy.\n</think>\n\nStill two."),
			))
			session := s.session(t)
			messages := converse(t, session, terminal(t), 3)
			require.Equal(t, "I should look.", messages[2].NativeReasoning())
			require.NoError(t, session.Trainable())
			all := session.Sequences()
			require.Len(t, all, 2)
			check(t, s, all)
			require.Empty(t, all[0].Fork)
			require.Len(t, all[0].Turns, 2, "the call and its result keep the reasoning")
			require.Contains(t, all[1].Fork, "rewr")
			require.Len(t, all[1].Turns, 1)
			text := s.tokenizer.Decode(all[1].Tokens, false)
			require.NotContains(t, text, "I should look.")
			require.Contains(t, text, "Two files.<|im_end|>\n<|im_start|>user")
		})
	}
}

// Engines join the parts of a content differently, and leave different fields to templates.
func TestLocal_PreparesMessagesAsTheEngine(t *testing.T) {
	dir := folder(t, `{% for m in messages %}{{ m | tojson }}{% endfor %}`)
	user, err := chat.Decode([]byte(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"bob"}`))
	require.NoError(t, err)
	for engine, want := range map[chattemplate.Engine]string{
		"":                  `{"role": "user", "content": "a\nb", "name": "bob"}`,
		chattemplate.VLLM:   `{"role": "user", "content": "a\nb", "name": "bob"}`,
		chattemplate.SGLang: `{"role": "user", "content": "a b"}`,
	} {
		local, err := tokens.Open(dir, engine)
		require.NoError(t, err)
		text, _, err := local.Render(t.Context(), &model.Request{Messages: []chat.Message{user}})
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
}

func TestAForkKeepsTheAnswersBeforeIt(t *testing.T) {
	s := newSetup(t, "sglang", modeltest.Thinking, modeltest.SampleInOrder(
		modeltest.Sample("One."), modeltest.Sample("<think>\nHm.\n</think>\n\nTwo."), modeltest.Sample("Three."),
	))
	session := s.session(t)
	converse(t, session, nil, 3)
	all := session.Sequences()
	require.Len(t, all, 2)
	check(t, s, all)
	require.Contains(t, all[1].Fork, "answer 2: it leaves the reasoning out")
	require.Len(t, all[1].Turns, 2)
	require.True(t, all[1].Turns[0].Repeated, "the first answer is trained on once, in the first sequence")
	require.False(t, all[1].Turns[1].Repeated)
}

func TestTheEndOfAnAnswerIsKeptAsItWasSampled(t *testing.T) {
	for _, kind := range kinds {
		for name, c := range map[string]struct {
			first  modeltest.TokenReply
			follow string // what the text says after the answer
			finish string
			forks  int
		}{
			"by the end token":       {modeltest.Sample("Hello"), "Hello<|im_end|>\n<|im_start|>user", "stop", 0},
			"by its length":          {modeltest.Sample("Hello wor").Cut(), "Hello wor<|im_end|>\n<|im_start|>user", "length", 0},
			"by a stop sequence":     {modeltest.Sample("Hello").StoppedBy("END"), "HelloEND<|im_end|>\n<|im_start|>user", "stop", 0},
			"within a character":     {modeltest.SampleIDs(idsOfBytes(t, "ok \xe4\xb8")...).Cut(), "ok \ufffd<|im_end|>\n<|im_start|>user", "length", 0},
			"by another end of text": {modeltest.Sample("Hello<|endoftext|>").Cut().As("stop"), "Hello", "stop", 1},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				s := newSetup(t, kind, modeltest.ChatML, modeltest.SampleInOrder(c.first, modeltest.Sample("Bye")))
				session := s.session(t)
				messages := []chat.Message{chat.User("Hi")}
				req := &model.Request{Messages: messages, MaxTokens: 100}
				if strings.Contains(name, "sequence") {
					req.Stop = []string{"END"}
				}
				resp, err := session.Complete(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, c.finish, resp.FinishReason)
				messages = append(messages, resp.Message, chat.User("More"))
				_, err = session.Complete(t.Context(), &model.Request{Messages: messages, MaxTokens: 100})
				require.NoError(t, err)
				require.NoError(t, session.Trainable())
				all := session.Sequences()
				require.Len(t, all, 1+c.forks)
				check(t, s, all)
				require.Contains(t, s.tokenizer.Decode(all[0].Tokens, false), c.follow)
			})
		}
	}
}

// idsOfBytes are the ids of the single bytes of a text in the synthetic vocabulary.
func idsOfBytes(t testing.TB, text string) []int {
	tok, err := tokenizer.Load(folder(t, modeltest.ChatML))
	require.NoError(t, err)
	alphabet := modeltest.ByteCharacters()
	var ids []int
	for i := range len(text) {
		id, ok := tok.ID(alphabet[text[i]])
		require.True(t, ok)
		ids = append(ids, id)
	}
	return ids
}

func TestIncompleteCaptureMakesARolloutUntrainableAndSaysWhy(t *testing.T) {
	answer := modeltest.Sample("Hello world")
	for name, c := range map[string]struct {
		reply modeltest.TokenReply
		why   string
		kinds []string
	}{
		"ids are missing":                {answer.WithoutIDs(), "no ids", []string{kinds[0], kinds[1], "sglang"}},
		"an id is missing":               {answer.ShortIDs(), "ids", kinds},
		"log-probabilities are missing":  {answer.WithoutLogprobs(), "no log-probabilities", []string{kinds[0], kinds[1], "generate"}},
		"a log-probability is missing":   {answer.ShortLogprobs(), "log-probabilities", kinds[:2]},
		"a log-probability is no number": {answer.BadLogprob(), "log-probability of sampled token 0 is 0.5", kinds},
		"the prompt is cut":              {answer.CutPrompt(), "prompt", kinds},
		"the prompt is another":          {answer.OtherPrompt(), "another prompt", []string{kinds[0], kinds[1], "generate"}},
	} {
		for _, kind := range c.kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				s := newSetup(t, kind, modeltest.ChatML, modeltest.SampleInOrder(answer, c.reply, answer))
				session := s.session(t)
				messages := converse(t, session, nil, 3)
				require.Equal(t, "Hello world", messages[4].Text(), "the conversation goes on")
				require.ErrorContains(t, session.Trainable(), "answer 2: ")
				require.ErrorContains(t, session.Trainable(), c.why)
				check(t, s, session.Sequences())
			})
		}
	}
}

func TestRetriesAreKeptOnce(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := newSetup(t, kind, modeltest.ChatML, modeltest.SampleInOrder(
				modeltest.Fails(modeltest.Status(503)), modeltest.Sample("lost").Aborted(), modeltest.Fails(modeltest.Reset()),
				modeltest.Sample("Hello"), modeltest.Fails(modeltest.Raw(200, "application/json", `{"id"`)), modeltest.Sample("Bye")))
			s.config.Client = model.Retry(s.config.Client, model.RetryPolicy{BaseDelay: time.Microsecond, MaxDelay: time.Microsecond})
			session := s.session(t)
			converse(t, session, nil, 2)
			all := session.Sequences()
			require.Len(t, all, 1)
			require.Len(t, all[0].Turns, 2)
			check(t, s, all)
			require.NotContains(t, s.tokenizer.Decode(all[0].Tokens, false), "lost")
			require.Equal(t, 6, s.server.RequestCount())
		})
	}
}

func TestAPromptThatIsSentAgainReplacesItsAnswer(t *testing.T) {
	for _, kind := range append([]string{"vllm, chat"}, kinds...) {
		t.Run(kind, func(t *testing.T) { sentAgain(t, kind) })
	}
}

func sentAgain(t *testing.T, kind string) {
	s := newSetup(t, kind, modeltest.ChatML, modeltest.SampleInOrder(modeltest.Sample("One"), modeltest.Sample("Two"), modeltest.Sample("Three")))
	session := s.session(t)
	messages := []chat.Message{chat.User("Hi")}
	_, err := session.Complete(t.Context(), &model.Request{Messages: messages, MaxTokens: 50})
	require.NoError(t, err)
	resp, err := session.Complete(t.Context(), &model.Request{Messages: messages, MaxTokens: 50})
	require.NoError(t, err)
	_, err = session.Complete(t.Context(), &model.Request{Messages: append(messages, resp.Message, chat.User("More")), MaxTokens: 50})
	require.NoError(t, err)
	all := session.Sequences()
	require.Len(t, all, 1)
	text := s.tokenizer.Decode(all[0].Tokens, false)
	require.NotContains(t, text, "One")
	require.Contains(t, text, "Two<|im_end|>")
}

func TestAnotherConversationIsABranchOfItsOwn(t *testing.T) {
	for _, kind := range append([]string{"vllm, chat"}, kinds...) {
		t.Run(kind, func(t *testing.T) {
			s := newSetup(t, kind, modeltest.ChatML, modeltest.SampleInOrder(modeltest.Sample("One"), modeltest.Sample("Two"), modeltest.Sample("Three"), modeltest.Sample("Four")))
			session := s.session(t)
			ask := func(messages ...chat.Message) chat.Message {
				resp, err := session.Complete(t.Context(), &model.Request{Messages: messages, MaxTokens: 100})
				require.NoError(t, err)
				return resp.Message
			}
			first := ask(chat.User("Hi"))
			ask(chat.User("Hi"), first, chat.User("More"))
			ask(chat.User("Ho"))                           // a new one
			ask(chat.User("Hi"), first, chat.User("Else")) // back to the first
			all := session.Sequences()
			require.Len(t, all, 3)
			check(t, s, all)
			for i, want := range []string{"Two", "Three", "Four"} {
				require.Contains(t, s.tokenizer.Decode(all[i].Tokens, false), want+modeltest.EndOfText)
			}
			require.Empty(t, all[0].Fork)
			require.NotEmpty(t, all[1].Fork)
			require.NotEmpty(t, all[2].Fork)
		})
	}
}

func TestNewWeightsUnderARolloutAreRecorded(t *testing.T) {
	var s *setup
	started := make(chan struct{}, 1)
	s = newSetup(t, "sglang", modeltest.ChatML, func(r *modeltest.TokenRequest) modeltest.TokenReply {
		if r.Number == 1 {
			started <- struct{}{}
			return modeltest.Sample("cut off by the restart").After(time.Minute)
		}
		return modeltest.Sample("Hello")
	})
	s.config.Client = model.Retry(s.config.Client, model.RetryPolicy{BaseDelay: time.Microsecond, MaxDelay: time.Microsecond})
	session := s.session(t)
	var wait sync.WaitGroup
	wait.Go(func() {
		<-started
		s.server.Restart("step-2")
	})
	converse(t, session, nil, 3)
	wait.Wait()
	turns := session.Sequences()[0].Turns
	require.Equal(t, []string{"default", "step-2", "step-2"}, []string{turns[0].WeightVersion, turns[1].WeightVersion, turns[2].WeightVersion})
	require.NotContains(t, s.tokenizer.Decode(session.Sequences()[0].Tokens, false), "cut off")
}

func TestAPromptThatIsTooLongIsToldApart(t *testing.T) {
	for _, kind := range kinds[:3] {
		t.Run(kind, func(t *testing.T) {
			s := newSetup(t, kind, modeltest.ChatML, nil, func(c *modeltest.TokenConfig) { c.MaxModelLen = 50 })
			_, err := s.session(t).Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User(strings.Repeat("word ", 50))}, MaxTokens: 10})
			require.Equal(t, model.KindContextLength, model.KindOf(err), "%v", err)
		})
	}
}

func TestAServerThatRendersByItselfForksWhereItTokenizesAnew(t *testing.T) {
	for name, c := range map[string]struct {
		scatter   bool
		sequences int
	}{"never when the ids are the tokenizer's own": {false, 1}, "when they are not": {true, 3}} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, "vllm, chat", modeltest.ChatML, func(*modeltest.TokenRequest) modeltest.TokenReply {
				if !c.scatter {
					return modeltest.Sample("Hello world and all")
				}
				return modeltest.SampleIDs(idsOfBytes(t, "Hello world")...)
			})
			session := s.session(t)
			converse(t, session, nil, 3)
			require.NoError(t, session.Trainable())
			all := session.Sequences()
			require.Len(t, all, c.sequences)
			check(t, s, all)
			if c.scatter {
				require.Contains(t, all[1].Fork, "tokenized")
			}
		})
	}
}

func TestMessagesThatAreNotTextAreRefused(t *testing.T) {
	s := newSetup(t, "sglang", modeltest.ChatML, nil)
	picture, err := chat.Decode([]byte(`{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:,"}}]}`))
	require.NoError(t, err)
	_, err = s.session(t).Complete(t.Context(), &model.Request{Messages: []chat.Message{picture}})
	require.ErrorContains(t, err, `message 0 holds a part of type "image_url"`)
	require.Zero(t, s.server.RequestCount())
}

func TestATokenizerOfAnotherModelIsNoticed(t *testing.T) {
	s := newSetup(t, "sglang", modeltest.ChatML, modeltest.SampleInOrder(modeltest.SampleIDs(999_999)))
	session := s.session(t)
	_, err := session.Complete(t.Context(), &model.Request{Messages: []chat.Message{chat.User("Hi")}})
	require.NoError(t, err)
	require.ErrorContains(t, session.Trainable(), "the tokenizer has no token 999999")
}

// TestLongConversations plays random conversations: calls and texts of any characters,
// in tokens that the tokenizer would not have chosen, with answers cut off now and then.
func TestLongConversationsStayOneSequenceOfWhatTheTemplateWrites(t *testing.T) {
	s := newSetup(t, "sglang", modeltest.ChatML, nil, func(c *modeltest.TokenConfig) { c.MaxModelLen = 1 << 30 })
	local := s.config.Renderer
	tools := terminal(t)
	turns := 200
	if testing.Short() {
		turns = 20
	}
	limit := 0
	rapid.Check(t, func(rt *rapid.T) {
		if limit++; limit > 5 {
			return // five long ones say as much as a hundred
		}
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abc the file äß世🌍\n\"\\{}<>é́ ")), 0, 40, -1)
		seed := rapid.Uint64().Draw(rt, "seed")
		random := rand.New(rand.NewPCG(seed, 7))
		client := scripted(func(prompt []int) []int {
			said := strings.TrimSpace(text.Draw(rt, "said"))
			if random.IntN(2) == 0 {
				return modeltest.Scatter(s.tokenizer, call(text.Draw(rt, "command")), random.IntN)
			}
			return modeltest.Scatter(s.tokenizer, "x"+said, random.IntN)
		})
		end, _ := s.tokenizer.ID(modeltest.EndOfText)
		client.end = end
		session, err := tokens.New(tokens.Config{Client: client, Renderer: local, Parser: s.config.Parser})
		require.NoError(rt, err)
		messages := []chat.Message{chat.System("s " + text.Draw(rt, "system")), chat.User("u")}
		for range turns {
			resp, err := session.Complete(context.Background(), &model.Request{Messages: messages, Tools: tools})
			require.NoError(rt, err)
			messages = append(messages, resp.Message)
			for _, c := range resp.Message.ToolCalls() {
				messages = append(messages, chat.Tool(c.ID, text.Draw(rt, "result")))
			}
			if len(resp.Message.ToolCalls()) == 0 {
				messages = append(messages, chat.User(text.Draw(rt, "more")))
			}
		}
		require.NoError(rt, session.Trainable())
		all := session.Sequences()
		require.Len(rt, all, 1)
		require.Len(rt, all[0].Turns, turns)
		for i, p := range client.prompts {
			require.Equal(rt, all[0].Turns[i].Start, p)
		}
		rendered, _, err := local.Render(context.Background(), &model.Request{Messages: messages, Tools: tools})
		require.NoError(rt, err)
		require.True(rt, strings.HasPrefix(rendered, s.tokenizer.Decode(all[0].Tokens, false)), "the tokens say something else than the template")
		trained := 0
		for i, m := range all[0].Masks {
			if m != model.Masked {
				require.Equal(rt, all[0].Tokens[i], m)
				trained++
			}
		}
		require.Equal(rt, client.sampled, trained)
	})
}

// scriptedClient samples without a server.
type scriptedClient struct {
	sample  func(prompt []int) []int
	end     int
	last    []int
	prompts []int // lengths
	sampled int
}

func scripted(sample func([]int) []int) *scriptedClient { return &scriptedClient{sample: sample} }

func (c *scriptedClient) Complete(_ context.Context, req *model.Request) (*model.Response, error) {
	for i, id := range c.last {
		if i >= len(req.Prompt) || req.Prompt[i] != id {
			return nil, fmt.Errorf("id %d of the prompt is no longer what it was", i)
		}
	}
	c.prompts = append(c.prompts, len(req.Prompt))
	ids := append(c.sample(req.Prompt), c.end)
	c.sampled += len(ids)
	c.last = append(append([]int(nil), req.Prompt...), ids...)
	return &model.Response{FinishReason: "stop", Capture: &model.Capture{
		Tokens: ids, Logprobs: make([]float64, len(ids)), StopToken: -1, PromptTokens: -1, SampledTokens: len(ids),
	}}, nil
}

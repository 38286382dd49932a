//go:build !race

package agentloop_test

import (
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
)

// deepEnvironment notes where on its rollout's stack FormatPrompt is called.
type deepEnvironment struct {
	noopEnvironment
	at uintptr
}

func (e *deepEnvironment) FormatPrompt(item env.Item) ([]chat.Message, error) {
	growStack(64)
	var here byte
	e.at = uintptr(unsafe.Pointer(&here)) //nolint:gosec // only compared
	return e.noopEnvironment.FormatPrompt(item)
}

// growStack has the stack grow, so that it is not moved afterwards.
//
//go:noinline
func growStack(kilobytes int) byte {
	var frame [1 << 10]byte
	if kilobytes == 0 {
		return frame[0]
	}
	return growStack(kilobytes-1) + frame[kilobytes]
}

// deepTransport notes where on its rollout's stack it sends a request, and answers.
type deepTransport struct{ at uintptr }

func (t *deepTransport) RoundTrip(*http.Request) (*http.Response, error) {
	var here byte
	t.at = uintptr(unsafe.Pointer(&here)) //nolint:gosec // only compared
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1,
		Body: io.NopCloser(strings.NewReader(`{"choices":[{"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}]}`))}, nil
}

// A rollout whose model thinks waits on a stack of 8 KB, of which sending and reading an
// answer need some 3 KB. Larger frames on the way there make it 16 KB, for as many
// goroutines as rollouts run. The race detector has larger ones.
func TestRunner_NeedsLittleStackWhileModelsThink(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection may shrink the stack
	transport := &deepTransport{}
	environment := &deepEnvironment{noopEnvironment: noopEnvironment{n: 1, instant: true}}
	recordedRun(t, model.Server{BaseURL: "http://host/v1", Model: "mock", Transport: transport}, environment, 1)
	require.NotZero(t, environment.at)
	depth := int(environment.at) - int(transport.at) // stacks grow downwards
	t.Logf("%d bytes from prompt to request", depth)
	require.Less(t, depth, 3<<10)
}

package model_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
)

func TestRequestsShareAnHTTP2ConnectionOverTLS(t *testing.T) {
	var mu sync.Mutex
	protocols, remotes := make(map[string]int), make(map[string]bool)
	handler := modeltest.New(modeltest.Config{Record: true})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		protocols[r.Proto]++
		remotes[r.RemoteAddr] = true
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := model.NewTransport(model.Limits{})
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	client := newChat(t, model.Server{BaseURL: server.URL + "/v1", Transport: transport})
	long := &model.Request{Messages: []chat.Message{chat.User(strings.Repeat("a long conversation ", 10000))}}
	_, err := client.Complete(t.Context(), long)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { _, err := client.Complete(t.Context(), long); require.NoError(t, err) })
	}
	wg.Wait()
	require.Equal(t, map[string]int{"HTTP/2.0": 21}, protocols)
	require.Len(t, remotes, 1)
}

func TestACertificateThatIsNotTrustedIsFatal(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	_, err := newChat(t, model.Server{BaseURL: server.URL + "/v1", APIKey: testKey}).Complete(t.Context(), hello())
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, model.KindNetwork, failure.Kind)
	require.True(t, failure.Fatal())
	require.False(t, failure.Retryable())
	require.ErrorContains(t, err, "certificate is not trusted")
}

func TestTransportFailuresSayWhatToCheck(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		says []string
	}{
		"DNS":          {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "modle.example"}}, []string{`"modle.example" can't be resolved`, "no such host", "check the host"}},
		"broken pipe":  {&net.OpError{Op: "write", Err: syscall.EPIPE}, []string{"reset the connection"}},
		"descriptors":  {&net.OpError{Op: "dial", Err: syscall.EMFILE}, []string{"too many open files", "ulimit -n"}},
		"foreign":      {errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0-OpenSSH"`), []string{"does not speak HTTP", "SSH-2.0"}},
		"dial timeout": {&net.OpError{Op: "dial", Err: timeoutError{}}, []string{"is test:80 reachable"}},
		"no answer":    {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), []string{"closed the connection without an answer"}},
		"anything":     {errors.New("something " + testKey + " odd"), []string{"something [redacted] odd"}},
	} {
		t.Run(name, func(t *testing.T) {
			transport := roundTrip(func(*http.Request) (*http.Response, error) { return nil, test.err })
			client := newChat(t, model.Server{BaseURL: "http://test:80/v1", APIKey: testKey, Transport: transport})
			_, err := client.Complete(t.Context(), hello())
			require.Equal(t, model.KindNetwork, model.KindOf(err))
			for _, words := range test.says {
				require.ErrorContains(t, err, words)
			}
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			require.True(t, failure.Retryable())
		})
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func TestProxiesOfTheEnvironmentAreNotUsedUnasked(t *testing.T) {
	require.Nil(t, model.NewTransport(model.Limits{}).Proxy)
	require.NotNil(t, model.NewTransport(model.Limits{Proxy: http.ProxyFromEnvironment}).Proxy)
}

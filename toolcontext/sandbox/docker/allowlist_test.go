package docker_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/egress"
)

// viaProxy asks the proxy that the environment names, as programs do.
func viaProxy(request string) string {
	return `p=${http_proxy#http://}; printf '` + request + `\r\nHost: x\r\n\r\n' | nc -w 20 "${p%:*}" "${p#*:}"`
}

func TestASandboxWithAllowedHostsReachesThemAndNothingElse(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "hello %s", r.Host)
	}))
	t.Cleanup(upstream.Close)
	where, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	p := newProvider(t, docker.Config{Egress: egress.Config{AnyAddress: true, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}}})
	s := open(t, p, sandbox.Spec{Network: sandbox.NetworkAllowlist, AllowedHosts: []string{"pypi.test", "*.hosted.test"}})
	port := where.Port()
	require.Equal(t, "lo\n", sh(t, s, "ls /sys/class/net"), "there is no way around the proxy")
	require.Contains(t, sh(t, s, viaProxy("GET http://pypi.test:"+port+"/simple HTTP/1.1")), "hello pypi.test:"+port)
	require.Contains(t, sh(t, s, viaProxy("GET http://files.hosted.test:"+port+"/ HTTP/1.1")), "hello files.hosted.test")
	require.Contains(t, sh(t, s, viaProxy("CONNECT pypi.test:"+port+` HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.0`)), "hello x")
	for _, refused := range []string{"GET http://evil.test:" + port + "/ HTTP/1.1", "CONNECT evil.test:443 HTTP/1.1", "CONNECT 127.0.0.1:" + port + " HTTP/1.1", "CONNECT 169.254.169.254:80 HTTP/1.1"} {
		got := sh(t, s, viaProxy(refused))
		require.Contains(t, got, "403 Forbidden", refused)
		require.Contains(t, got, "not among its allowed hosts", refused)
	}
	require.Equal(t, "http://127.0.0.1:3129 http://127.0.0.1:3129 localhost,127.0.0.1,::1\n",
		run(t, s, sandbox.Command{Script: `echo "$HTTP_PROXY $https_proxy $no_proxy"`, Session: true}).Stdout.String())

	// Connections that hang hold up neither commands nor the removal.
	sh(t, s, `p=${http_proxy##*:}; for i in $(seq 200); do (sleep 600 | nc 127.0.0.1 $p >/dev/null 2>&1 &) ; done`)
	r := run(t, s, sandbox.Command{Script: "echo well", Timeout: 20 * time.Second})
	require.Equal(t, "well\n", r.Stdout.String())
	require.NoError(t, s.KillAll(t.Context()))
	require.Contains(t, sh(t, s, viaProxy("GET http://pypi.test:"+port+"/ HTTP/1.1")), "hello pypi.test")
}

func TestAllowedHostsOfPrivateNetworksAreRefusedUnlessToldOtherwise(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{Network: sandbox.NetworkAllowlist, AllowedHosts: []string{"127.0.0.1", "10.0.0.1"}})
	for _, request := range []string{"GET http://127.0.0.1:22/ HTTP/1.1", "CONNECT 127.0.0.1:22 HTTP/1.1", "CONNECT 10.0.0.1:22 HTTP/1.1"} {
		require.Contains(t, sh(t, s, viaProxy(request)), "none of the public Internet", request)
	}
}

func TestAllowedHostsNeedTheServerInTheContainer(t *testing.T) {
	p := newProvider(t, docker.Config{PlainExec: true})
	_, err := p.Create(t.Context(), sandbox.Spec{Network: sandbox.NetworkAllowlist})
	require.ErrorIs(t, err, sandbox.ErrUnsupported)
	_, err = p.Create(t.Context(), sandbox.Spec{Network: sandbox.NetworkBridge, AllowedHosts: []string{"pypi.org"}})
	require.ErrorContains(t, err, "allowlist")
}

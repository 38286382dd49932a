package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// profileFlags are the flags of commands that run long enough to be profiled.
type profileFlags struct {
	PprofListen string `name:"pprof-listen" placeholder:"ADDRESS" help:"Serve profiles of this process at /debug/pprof of this address while it runs, such as 127.0.0.1:6060; a port alone is on the loopback interface."`
}

func (f *profileFlags) profileAddress() string { return f.PprofListen }

// profileAddress returns where the chosen command is to serve profiles, or "".
func profileAddress(parsed *kong.Context) string {
	node := parsed.Selected()
	if node == nil || !node.Target.CanAddr() {
		return ""
	}
	if command, ok := node.Target.Addr().Interface().(interface{ profileAddress() string }); ok {
		return command.profileAddress()
	}
	return ""
}

// longestProfile is how long a profile may record.
const longestProfile = 15 * time.Minute

// serveProfiles serves profiles at an address until end is called.
func serveProfiles(ctx context.Context, address string) (listens string, end func() error, err error) {
	l, err := listenAt(ctx, "--pprof-listen", address)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: longestProfile, IdleTimeout: 2 * time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return l.Addr().String(), func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		if err != nil {
			return fmt.Errorf("end the server of --pprof-listen: %w", err)
		}
		return nil
	}, nil
}

// listenAt listens at the address that a flag names. One without a host, such as 9464
// or :9464, is on the loopback interface.
func listenAt(ctx context.Context, flag, address string) (net.Listener, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s %q: want an address such as 127.0.0.1:9464", flag, address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w (name another address, or port 0 for any that is free)", flag, address, err)
	}
	return l, nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hermes-env/hermes-env/trajectories/tracking"
)

// metricsServer answers Prometheus while a run goes on.
type metricsServer struct {
	figures *tracking.Prometheus
	address string // it listens on
	server  *http.Server
	ended   chan error
}

// listenMetrics begins to serve the job's figures where --metrics-listen asks for it.
func (j *job) listenMetrics(ctx context.Context) (*metricsServer, error) {
	if j.flags.MetricsListen == "" {
		return nil, nil
	}
	s, err := listenMetrics(ctx, j.flags.MetricsListen)
	if err == nil {
		j.out.Note("figures for Prometheus: http://" + s.address + "/metrics")
	}
	return s, err
}

// sink takes the figures; nil when nobody listens.
func (s *metricsServer) sink() *tracking.Prometheus {
	if s == nil {
		return nil
	}
	return s.figures
}

// listenMetrics serves figures at /metrics of an address.
func listenMetrics(ctx context.Context, address string) (*metricsServer, error) {
	l, err := listenAt(ctx, "--metrics-listen", address)
	if err != nil {
		return nil, err
	}
	s := &metricsServer{figures: tracking.NewPrometheus("hermes_env"), address: l.Addr().String(), ended: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.figures)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("the figures are at /metrics\n")) // a client that went away asks again
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

// close ends the server at once: what is asked for then can be asked of the files.
func (s *metricsServer) close() error {
	if s == nil {
		return nil
	}
	err := s.server.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return fmt.Errorf("end the server of --metrics-listen: %w", err)
	}
	return nil
}

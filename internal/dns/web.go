package dns

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// web serves /health (the process lives), /ready (the cluster's names are known) and CoreDNS's metrics.
func (s *Server) web(ctx context.Context) error {
	if s.o.Web == nil {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	say := func(ok func() bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if !ok() {
				http.Error(w, "kubernetes", http.StatusServiceUnavailable) // CoreDNS names the plugin that is not ready
				return
			}
			_, _ = fmt.Fprint(w, "OK")
		}
	}
	mux.Handle("/health", say(func() bool { return true }))
	mux.Handle("/ready", say(s.names.Ready))
	mux.Handle("/metrics", promhttp.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.o.Web) }()
	select {
	case <-ctx.Done():
		_ = server.Close()
		_ = <-ended // that it was closed
		return nil
	case err := <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("dns: health and metrics: %w", err)
	}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// healthz serves /healthz on healthzBindAddress:healthzPort until ctx ends; port 0 serves nothing.
func healthz(ctx context.Context, c *kubeletconfig.KubeletConfiguration, checks http.Handler) error {
	if *c.HealthzPort == 0 {
		<-ctx.Done()
		return nil
	}
	address := net.JoinHostPort(c.HealthzBindAddress, strconv.Itoa(int(*c.HealthzPort)))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return withFix(fmt.Errorf("kubelet's health on %s: %w", address, err), "set another healthzPort, or 0 for none")
	}
	srv := &http.Server{Handler: checks, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

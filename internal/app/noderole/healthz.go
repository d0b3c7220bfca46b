package noderole

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/cli"
)

// healthz serves /healthz on healthzBindAddress:healthzPort until ctx ends; port 0 serves nothing.
func healthz(ctx context.Context, c *kubeletconfig.KubeletConfiguration, checks http.Handler) error {
	if *c.HealthzPort == 0 {
		<-ctx.Done()
		return nil
	}
	address := net.JoinHostPort(c.HealthzBindAddress, strconv.Itoa(int(*c.HealthzPort)))
	return insecureListener{address, "kubelet's health", "healthzPort"}.serve(ctx, checks)
}

// readOnly serves what reads on readOnlyPort, to everybody and without TLS, until ctx ends; port 0
// serves nothing.
func readOnly(ctx context.Context, c *kubeletconfig.KubeletConfiguration, pages http.Handler) error {
	if c.ReadOnlyPort == 0 || !*c.EnableServer {
		<-ctx.Done()
		return nil
	}
	return insecureListener{net.JoinHostPort(c.Address, strconv.Itoa(int(c.ReadOnlyPort))), "kubelet's read-only port",
		"readOnlyPort"}.serve(ctx, pages)
}

// insecureListener is a port without TLS.
type insecureListener struct {
	address, what string
	field         string // of the configuration, that names the port
}

// serve serves pages until ctx ends.
func (p insecureListener) serve(ctx context.Context, pages http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
	if err != nil {
		return cli.WithFix(fmt.Errorf("%s on %s: %w", p.what, p.address, err), "set another %s, or 0 for none", p.field)
	}
	srv := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

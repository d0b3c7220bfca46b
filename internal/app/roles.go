package app

import (
	"context"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/gcpacer"
	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/options"
)

// RunServer is `gantry server`: the API server over its own etcd, without a node, until ctx ends.
// It holds the lock of p.DataDir meanwhile, and fails where another instance has that or the port.
func RunServer(ctx context.Context, p *options.Instance, l *cli.Logging, out *cli.Progress) error {
	if err := cli.RequirePort(p.BindAddress, p.SecurePort, "--secure-port"); err != nil {
		return err
	}
	lock, err := options.LockDataDir(p.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	closeLog, err := l.Open(p.DataDir)
	if err != nil {
		return err
	}
	defer closeLog()
	gcpacer.Run(ctx)
	log, err := ring.Open(ring.Options{Dir: filepath.Join(p.DataDir, "journal")})
	if err != nil {
		return err
	}
	defer log.Close()
	files, err := p.EnsureCertificates()
	if err != nil {
		return err
	}
	if err := p.WriteKubeconfigs(files); err != nil {
		return err
	}
	server, err := newAPIServer(ctx, p, files, log)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-server.Ready():
			out.Step("API server ready at %s", p.ServerURL())
			out.Step("kubeconfigs for administrator, scheduler, controllers and node in %s", p.DataDir)
		case <-ctx.Done():
		}
	}()
	go maintain(ctx, p, server, out)
	return server.Run(ctx)
}

func unthrottled(cfg *rest.Config, agent string) *rest.Config {
	own := rest.CopyConfig(cfg)
	own.QPS, own.UserAgent = -1, agent
	return own
}

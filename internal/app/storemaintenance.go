package app

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
)

// storeCheckPeriod is how often the store is asked for its health, and certificateRenewPeriod how
// often certificates are looked at: each lives a year and is renewed when a third of that is left;
// the server reads the files again by itself.
const (
	storeCheckPeriod       = 10 * time.Second
	certificateRenewPeriod = 12 * time.Hour
)

// maintain tells when the store stops taking writes and when it does again, and renews
// certificates, until ctx ends.
func maintain(ctx context.Context, p *options.Instance, server *apiserver.Server, out *cli.Progress) {
	look, renew := time.NewTicker(storeCheckPeriod), time.NewTicker(certificateRenewPeriod)
	defer look.Stop()
	defer renew.Stop()
	well := true
	for {
		if err := pingStore(ctx, server.Store()); (err == nil) != well && ctx.Err() == nil {
			well = err == nil
			out.Step("%s", storeErrorText(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		case <-renew.C:
			files, err := p.EnsureCertificates()
			if err == nil {
				err = p.WriteKubeconfigs(files)
			}
			if err != nil {
				klog.FromContext(ctx).Error(err, "Certificates could not be renewed; the next try is in 12 hours")
			}
		}
	}
}

func pingStore(ctx context.Context, s *store.Store) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return s.Ping(ctx)
}

// storeErrorText is what a person at the terminal is told of the store's health.
func storeErrorText(err error) string {
	var full *store.NoSpaceError
	switch {
	case err == nil:
		return "the store takes writes again"
	case errors.As(err, &full):
		return "the store is full: " + full.Error()
	}
	return "the store is not well: " + err.Error()
}

package app

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// lookAtStore is how often the store is asked for its health, and renewAfter how often certificates are looked at: each lives a year and is renewed when a
// third of that is left; the server reads the files again by itself.
const (
	lookAtStore = 10 * time.Second
	renewAfter  = 12 * time.Hour
)

// tend tells when the store stops taking writes and when it does again, and renews certificates, until ctx ends.
func (p *place) tend(ctx context.Context, server *apiserver.Server, out *progress) {
	look, renew := time.NewTicker(lookAtStore), time.NewTicker(renewAfter)
	defer look.Stop()
	defer renew.Stop()
	well := true
	for {
		if err := ask(ctx, server.Store()); (err == nil) != well && ctx.Err() == nil {
			well = err == nil
			out.step("%s", storeNews(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		case <-renew.C:
			files, err := p.certificates()
			if err == nil {
				err = p.kubeconfigs(files)
			}
			if err != nil {
				klog.FromContext(ctx).Error(err, "Certificates could not be renewed; the next try is in 12 hours")
			}
		}
	}
}

func ask(ctx context.Context, s *store.Store) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return s.Ping(ctx)
}

// storeNews is what a person at the terminal is told of the store's health.
func storeNews(err error) string {
	var full *store.Full
	switch {
	case err == nil:
		return "the store takes writes again"
	case errors.As(err, &full):
		return "the store is full: " + full.Error()
	}
	return "the store is not well: " + err.Error()
}

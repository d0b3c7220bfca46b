package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// Missing is Attach's error for a directory without a store.
type Missing struct{ Dir string }

func (e *Missing) Error() string {
	return fmt.Sprintf("there is no store in %s: name the data directory of an instance that ran once, or the etcd "+
		"servers", e.Dir)
}

// Attach opens a store for maintenance (`gantry etcd`): the external servers, the embedded etcd of
// a running process by its socket, or, if none runs, the files in o.Dir, which this process then
// serves to itself until Close. It never creates a store. Errors are those of Open, and *Missing.
func Attach(ctx context.Context, o Options) (*Store, error) {
	if len(o.Servers) > 0 {
		return openExternal(ctx, o)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("store: directory %q: %w", o.Dir, err)
	}
	if !fileExists(filepath.Join(dir, "member")) {
		return nil, &Missing{Dir: dir}
	}
	o.Dir = dir
	s, err := Open(ctx, o)
	var used *InUse
	if !errors.As(err, &used) {
		return s, err
	}
	socket, release, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	s, err = openExternal(ctx, Options{Servers: []string{"unix://" + socket}})
	if err != nil {
		release()
		return nil, err
	}
	s.release = release
	return s, nil
}

// clientConfig returns the configuration of a client of one endpoint.
func clientConfig(t storagebackend.TransportConfig, endpoint string) (clientv3.Config, error) {
	t.ServerList = []string{endpoint}
	return dialConfig(t)
}

package network

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

// InstalledConfDir tells where Ensure wrote the instance's configuration: in c's ConfDir or in the
// default one, as the directory may be another since. Empty when Gantry's network is not made.
func InstalledConfDir(c Config) (dir string, err error) {
	s, err := c.settings()
	if err != nil {
		return "", err
	}
	data, err := filepath.Abs(c.DataDir)
	if err != nil {
		return "", err
	}
	var errs []error
	for _, dir := range []string{s.confDir, filepath.Join(data, defaultConfDir)} {
		installed, err := configured(filepath.Join(dir, confName), s.id)
		if err == nil && installed.Bridge != "" {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// Uninstall takes Gantry's network away for another one: bridge and addresses, nftables table,
// configuration. The Pods on it have no network any more; their sandboxes are what
// LeftoverSandboxes returns until ReleaseSandbox is told of each. It may be called again, and does
// nothing where there is no such network.
func Uninstall(ctx context.Context, c Config) error {
	dir, err := InstalledConfDir(c)
	if err != nil || dir == "" {
		return err
	}
	c.ConfDir = dir
	s, err := c.settings()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, confName)
	installed, err := configured(file, s.id)
	if err != nil {
		return err
	}
	if err := removeBridge(installed.Bridge); err != nil {
		return err
	}
	if hasTable(ctx, s.id) {
		if err := nft(ctx, "delete table inet "+Table(s.id)+"\n"); err != nil {
			return err
		}
	}
	return os.Remove(file) // last: who is killed before begins again
}

// LeftoverSandboxes are the sandboxes that were on Gantry's network when it was left, by id, with
// the Pod's name.
func LeftoverSandboxes(c Config) (map[string]string, error) {
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	allocations, err := s.store.View()
	out := map[string]string{}
	for _, l := range allocations.Leases {
		out[l.Container] = l.Holder()
	}
	return out, err
}

// ReleaseSandbox drops what a sandbox of LeftoverSandboxes held, when it has ended.
func ReleaseSandbox(c Config, sandbox string) error {
	s, err := c.settings()
	if err != nil {
		return err
	}
	return s.store.Update(func(b *ipam.Allocations) error {
		for _, l := range b.Leases {
			if l.Container == sandbox {
				b.Release(l.Container, l.Interface)
				return nil
			}
		}
		return nil
	})
}

package network

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

// InstalledConfDir returns the directory of the configuration that Ensure wrote: c's ConfDir or the
// default one, as it may have changed since. Empty if Gantry's network is not set up.
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

// Uninstall removes Gantry's network in favour of another one: bridge and addresses, nftables
// table, configuration. Its Pods lose their network; LeftoverSandboxes returns their sandboxes
// until ReleaseSandbox is called for each. It may be repeated.
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
	return os.Remove(file) // last, so that an interrupted call can be repeated
}

// LeftoverSandboxes returns the sandboxes that were on Gantry's network when it was uninstalled: id
// to the Pod's name.
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

// ReleaseSandbox removes a LeftoverSandboxes entry, when the sandbox has ended.
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

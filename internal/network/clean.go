package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

// resultsCache is where libcni keeps the plugins' results; the runtime cannot move it.
const resultsCache = "/var/lib/cni/results"

// Clean takes the instance's network away: links on the bridge, the bridge, the table, leases and configuration. Call it when no Pod runs any more.
// ip_forward stays as it is: by now others may rely on it.
func Clean(ctx context.Context, c Config) error {
	s, err := c.settings()
	if err != nil {
		return err
	}
	var errs []error
	// The bridge is ours only if our configuration says so: a foreign network may have one of this name.
	if raw, err := os.ReadFile(filepath.Join(s.confDir, confName)); err == nil && len(raw) > 0 {
		errs = append(errs, removeBridge(s.bridge), os.Remove(filepath.Join(s.confDir, confName)))
	}
	if hasTable(ctx, s.id) {
		errs = append(errs, nft(ctx, "delete table inet "+Table(s.id)+"\n"))
	}
	errs = append(errs, removeResults(s.id), os.RemoveAll(s.store.Dir))
	return errors.Join(errs...)
}

func removeBridge(name string) error {
	bridge, err := netlink.LinkByName(name)
	if err != nil {
		var absent netlink.LinkNotFoundError
		if errors.As(err, &absent) {
			return nil
		}
		return fmt.Errorf("interface %s: %w", name, err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	var errs []error
	for _, l := range links {
		if l.Attrs().MasterIndex == bridge.Attrs().Index && l.Type() == "veth" {
			errs = append(errs, netlink.LinkDel(l))
		}
	}
	return errors.Join(append(errs, netlink.LinkDel(bridge))...)
}

func removeResults(id string) error {
	files, err := filepath.Glob(filepath.Join(resultsCache, Name(id)+"-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		errs = append(errs, os.Remove(f))
	}
	return errors.Join(errs...)
}

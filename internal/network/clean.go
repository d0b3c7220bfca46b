package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// resultsCache is where libcni keeps the plugins' results; the runtime cannot move it.
const resultsCache = "/var/lib/cni/results"

// Clean removes the instance's network: links on the bridge, the bridge, the table, leases and
// configuration. Call it when no Pod runs any more. Of c it needs DataDir and ConfDir; the bridge's
// name is in the configuration that Ensure wrote. ip_forward stays on, since others may depend on
// it by now.
func Clean(ctx context.Context, c Config) error {
	dir, err := InstalledConfDir(c)
	if err == nil && dir != "" {
		c.ConfDir = dir
	}
	s, err := c.settings()
	if err != nil {
		return err
	}
	var errs []error
	// Only the bridge in our own configuration is ours: another network may have one of the name in
	// c.
	file := filepath.Join(s.confDir, confName)
	if installed, err := configured(file, s.id); err != nil {
		errs = append(errs, err)
	} else if installed.Bridge != "" {
		if err := removeBridge(installed.Bridge); err != nil {
			errs = append(errs, err)
		} else {
			errs = append(errs, os.Remove(file))
		}
	}
	if hasTable(ctx, s.id) {
		errs = append(errs, nft(ctx, "delete table inet "+Table(s.id)+"\n"))
	}
	errs = append(errs, removeResults(s.id), os.RemoveAll(s.store.Dir))
	return errors.Join(errs...)
}

// configured returns the plugin configuration that Ensure wrote for this instance; zero if there is
// none.
func configured(file, id string) (Plugin, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return Plugin{}, nil
	}
	if err != nil {
		return Plugin{}, fmt.Errorf("CNI configuration: %w", err)
	}
	var list struct{ Plugins []Plugin }
	if err := json.Unmarshal(raw, &list); err != nil {
		return Plugin{}, fmt.Errorf("CNI configuration %s is damaged: %w; remove it, it is written at each start", file,
			err)
	}
	if len(list.Plugins) == 0 || list.Plugins[0].ID != id {
		return Plugin{}, nil
	}
	return list.Plugins[0], nil
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
	links, err := DumpWithRetry(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	var errs []error
	for _, l := range links {
		if l.Attrs().MasterIndex == bridge.Attrs().Index && l.Type() == "veth" {
			errs = append(errs, deleteLink(l))
		}
	}
	return errors.Join(append(errs, deleteLink(bridge))...)
}

// deleteLink deletes an interface. It succeeds if it is gone: the kernel deletes a Pod's shortly
// after its network namespace.
func deleteLink(l netlink.Link) error {
	if err := netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove interface %s: %w", l.Attrs().Name, err)
	}
	return nil
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

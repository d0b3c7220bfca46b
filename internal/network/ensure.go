package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

// State is the result of Ensure.
type State struct {
	// Own: Pods use Gantry's network. False: the CNI configuration in ConfFile is somebody else's,
	// and nothing was changed.
	Own bool
	// ConfFile is the CNI configuration the runtime will use.
	ConfFile string
	// Gateways are the bridge's addresses, one per range.
	Gateways []netip.Addr
	// Warning is a setting of the host that breaks Pod traffic, with the remedy; empty if there is
	// none.
	Warning string
}

// confName sorts before the usual names of others.
const confName = "10-gantry.conflist"

// PluginType is the CNI plugin's file name.
const PluginType = "gantry-cni"

// Ensure sets up the network for Pods, unless ConfDir has somebody else's CNI configuration. It
// repairs what is missing, keeps running Pods connected, and may be called at every start.
func Ensure(ctx context.Context, c Config) (State, error) {
	s, err := c.settings()
	if err != nil {
		return State{}, err
	}
	if foreign, err := foreignConf(s.confDir); err != nil || foreign != "" {
		return State{ConfFile: foreign}, err
	}
	if _, err := os.Stat(filepath.Join(s.binDir, PluginType)); err != nil {
		return State{},
			fmt.Errorf("the CNI plugin is missing: %w; put the files of the release side by side, or build them with "+
				"`make build`", err)
	}
	old, err := removeOldBridge(s)
	if err != nil {
		return State{}, err
	}
	if err := checkOverlap(s); err != nil {
		return State{}, err
	}
	if s.mtu == 0 {
		s.mtu = defaultMTU()
	}
	s.mtu -= s.tunnelOverhead
	if err := forwarding(s.ranges); err != nil {
		return State{}, err
	}
	bridge, err := EnsureBridge(s.bridge, s.ranges, s.mtu)
	if err != nil {
		return State{}, err
	}
	st := State{Own: true, ConfFile: filepath.Join(s.confDir, confName)}
	for _, r := range s.ranges {
		st.Gateways = append(st.Gateways, ipam.Gateway(r))
	}
	// Under the lock of the leases, so that no plugin opens a port between reading the leases and
	// writing the table. Leaked leases are left to the audit: only the runtime, which may not run
	// yet, knows them.
	err = s.store.Update(func(b *ipam.Allocations) error {
		b.Gateways = retainedGateways(*b, old, s.ranges)
		if err := bridgeAddresses(bridge, s.ranges, b.Gateways); err != nil {
			return err
		}
		return nft(ctx, ruleset(s, b.Leases))
	})
	if err != nil {
		return State{}, err
	}
	if why := dropsForwarded(ctx); why != "" {
		st.Warning = fmt.Sprintf("%s; allow them with `iptables -I FORWARD -i %s -j ACCEPT; iptables -I FORWARD -o "+
			"%s -j ACCEPT`", why, s.bridge, s.bridge)
	}
	return st, writeConf(s, st.ConfFile)
}

// retainedGateways returns the bridge's addresses that running Pods may use as gateway besides
// those of the ranges: gateways of ranges that were widened, until there is no lease.
func retainedGateways(b ipam.Allocations, old, ranges []netip.Prefix) []netip.Addr {
	if len(b.Leases) == 0 {
		return nil
	}
	retained := slices.Clone(b.Gateways)
	for _, r := range old {
		retained = append(retained, ipam.Gateway(r))
	}
	slices.SortFunc(retained, netip.Addr.Compare)
	return slices.DeleteFunc(slices.Compact(retained), func(ip netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return ipam.Gateway(r) == ip })
	})
}

// containsOldRanges reports whether each new range contains the old one at its index, so that
// running Pods keep their addresses.
func containsOldRanges(ranges, old []netip.Prefix) bool {
	return slices.EqualFunc(ranges, old,
		func(r, o netip.Prefix) bool { return r.Bits() <= o.Bits() && r.Contains(o.Addr()) })
}

// removeOldBridge removes the bridge of an earlier start with another name or range, and returns an
// error while Pods are on it. If the bridge stays it returns its former ranges.
func removeOldBridge(s settings) ([]netip.Prefix, error) {
	old, err := configured(filepath.Join(s.confDir, confName), s.id)
	if err != nil {
		return nil, err
	}
	if old.Bridge == "" || old.Bridge == s.bridge && containsOldRanges(s.ranges, old.Ranges) {
		return old.Ranges, nil
	}
	holder, held, err := s.leaseHolder()
	if err != nil {
		return nil, err
	}
	if held {
		return nil, fmt.Errorf("%s runs on bridge %s with range %v: keep --bridge, and --pod-cidr as it was or with "+
			"a range that contains it, or end all Pods with `gantry clean`",
			holder.Holder(), old.Bridge, old.Ranges)
	}
	return nil, removeBridge(old.Bridge)
}

// leaseHolder returns the lease of a running Pod; false if there is none.
func (s settings) leaseHolder() (ipam.Lease, bool, error) {
	allocations, err := s.store.View()
	if err != nil {
		return ipam.Lease{}, false, err
	}
	for _, l := range allocations.Leases {
		// the namespace may be visible to the runtime only, but the link is here
		if _, noLink := netlink.LinkByName(l.Link); ns.IsNSorErr(l.Netns) == nil || noLink == nil {
			return l, true, nil
		}
	}
	return ipam.Lease{}, false, nil
}

// ClusterOf returns the cluster CIDRs that the network was set up with; none if it was set up for
// one node.
func ClusterOf(c Config) ([]netip.Prefix, error) {
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	installed, err := configured(filepath.Join(s.confDir, confName), s.id)
	return installed.Cluster, err
}

// Foreign returns the CNI configuration file of somebody else in c's directory; empty if there is
// none.
func Foreign(c Config) (string, error) {
	s, err := c.settings()
	if err != nil {
		return "", err
	}
	return foreignConf(s.confDir)
}

// foreignConf returns the first CNI configuration that is not ours.
func foreignConf(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("CNI configuration: %w", err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.Name() != confName &&
			(ext == ".conf" || ext == ".conflist" || ext == ".json") {
			return filepath.Join(dir, e.Name()), nil
		}
	}
	return "", nil
}

// Plugin is the CNI plugin's part of the conflist, beyond the fields CNI itself defines.
type Plugin struct {
	ID           string         `json:"id"`
	Bridge       string         `json:"bridge"`
	Ranges       []netip.Prefix `json:"ranges"`
	Leases       string         `json:"leases"` // directory of the leases
	MTU          int            `json:"mtu"`
	PolicySocket string         `json:"gate,omitempty"` // socket of the NetworkPolicy controller
	// Cluster is the cluster CIDRs.
	Cluster []netip.Prefix `json:"cluster,omitempty"`
}

// Name returns the instance's network name, under which libcni caches results in
// /var/lib/cni/results.
func Name(id string) string { return "gantry-" + id }

func writeConf(s settings, file string) error {
	plugin := struct {
		Type         string          `json:"type"`
		Capabilities map[string]bool `json:"capabilities"`
		Plugin
	}{PluginType, map[string]bool{"portMappings": true, "bandwidth": true},
		Plugin{s.id, s.bridge, s.ranges, s.store.Dir, s.mtu, s.policySocket, s.cluster}}
	raw, err := json.MarshalIndent(map[string]any{"cniVersion": "1.1.0", "name": Name(s.id), "plugins": []any{plugin}},
		"", "  ")
	if err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	if now, err := os.ReadFile(file); err == nil && string(now) == string(raw) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	// The runtime watches the directory and must see the complete file. It ignores the suffix of
	// the temporary name.
	tmp := strings.TrimSuffix(file, ".conflist") + ".new"
	if err := os.WriteFile(tmp, raw, 0o644); err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	return os.Rename(tmp, file)
}

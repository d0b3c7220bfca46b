package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// The apiVersion and kind that a file must have.
const version, kind = "kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration"

// supportedFields are the fields that work as upstream documents them.
var supportedFields = []string{
	"apiVersion", "kind", "clientConnection.kubeconfig", "hostnameOverride", "healthzBindAddress", "metricsBindAddress",
	"bindAddressHardFail",
	"mode", "nftables.masqueradeBit", "nftables.masqueradeAll", "nftables.syncPeriod", "nftables.minSyncPeriod",
	"detectLocalMode", "detectLocal.bridgeInterface", "detectLocal.interfaceNamePrefix", "clusterCIDR",
	"nodePortAddresses", "enableProfiling",
	"conntrack.maxPerCore", "conntrack.min", "conntrack.tcpEstablishedTimeout", "conntrack.tcpCloseWaitTimeout",
	"conntrack.tcpBeLiberal",
	"conntrack.udpTimeout", "conntrack.udpStreamTimeout", "bindAddress", "configSyncPeriod", "oomScoreAdj",
	"clientConnection.qps", "clientConnection.burst", "clientConnection.contentType",
	"clientConnection.acceptContentTypes",
}

// Loaded is a parsed configuration. Its zero value is a configuration with every field unset.
type Loaded struct {
	kubeproxy.KubeProxyConfiguration
	// IgnoredFields are the paths of fields that are set and have no effect, sorted.
	IgnoredFields []string
	// NodeRanges are the Pod CIDRs of this node's Node object. The caller sets them if ByNode.
	NodeRanges []netip.Prefix
}

// Load reads and checks the file at path; an empty path yields the zero configuration. Errors name
// the file and the field.
func Load(path string) (*Loaded, error) {
	l := &Loaded{}
	if path == "" {
		return l, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("proxy configuration: %w", err)
	}
	if err := l.parse(raw); err != nil {
		return nil, fmt.Errorf("proxy configuration %s: %w", path, err)
	}
	return l, nil
}

func (l *Loaded) parse(raw []byte) error {
	if err := yaml.UnmarshalStrict(raw, &l.KubeProxyConfiguration); err != nil {
		return err
	}
	if l.APIVersion != version || l.Kind != kind {
		return fmt.Errorf("apiVersion and kind are %q and %q: they must be %s and %s", l.APIVersion, l.Kind, version,
			kind)
	}
	var all map[string]any
	if err := yaml.Unmarshal(raw, &all); err != nil {
		return err
	}
	l.IgnoredFields = ignoredFields("", all)
	return l.Check()
}

// ignoredFields returns the paths of fields that are set to a non-zero value and not supported.
func ignoredFields(prefix string, fields map[string]any) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		path := prefix + name
		switch v := fields[name].(type) {
		case map[string]any:
			out = append(out, ignoredFields(path+".", v)...)
		case []any:
			if len(v) > 0 && !slices.Contains(supportedFields, path) {
				out = append(out, path)
			}
		case nil:
		default:
			if text := fmt.Sprint(v); text != "" && text != "0" && text != "0s" && text != "false" &&
				!slices.Contains(supportedFields, path) {
				out = append(out, path)
			}
		}
	}
	return out
}

// Check returns one error per field with an invalid value, joined.
func (l *Loaded) Check() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	switch l.Mode {
	case "", "nftables":
	default:
		bad("mode", "%q is not supported: write nftables, or leave it out", l.Mode)
	}
	if b := l.NFTables.MasqueradeBit; b != nil && (*b < 0 || *b > 31) {
		bad("nftables.masqueradeBit", "%d must be between 0 and 31", *b)
	}
	if l.NFTables.SyncPeriod.Duration < 0 || l.NFTables.MinSyncPeriod.Duration < 0 {
		bad("nftables.syncPeriod, nftables.minSyncPeriod", "must not be negative")
	}
	conntrackErrors(&l.KubeProxyConfiguration.Conntrack, bad)
	if o := l.OOMScoreAdj; o != nil && (*o < -1000 || *o > 1000) {
		bad("oomScoreAdj", "%d must be between -1000 and 1000", *o)
	}
	if l.ConfigSyncPeriod.Duration < 0 {
		bad("configSyncPeriod", "must not be negative")
	}
	if _, err := netip.ParseAddr(l.BindAddress); err != nil && l.BindAddress != "" {
		bad("bindAddress", "%q is not an address such as 192.0.2.1", l.BindAddress)
	}
	if _, err := ranges(l.ClusterCIDR); err != nil {
		bad("clusterCIDR", "%v", err)
	}
	if _, err := ranges(strings.Join(l.nodePorts(), ",")); err != nil {
		bad("nodePortAddresses", "%v", err)
	}
	switch l.DetectLocalMode {
	case "", "ClusterCIDR", "NodeCIDR":
	case "BridgeInterface":
		if l.DetectLocal.BridgeInterface == "" {
			bad("detectLocal.bridgeInterface", "must be set when detectLocalMode is BridgeInterface")
		}
	case "InterfaceNamePrefix":
		if l.DetectLocal.InterfaceNamePrefix == "" {
			bad("detectLocal.interfaceNamePrefix", "must be set when detectLocalMode is InterfaceNamePrefix")
		}
	default:
		bad("detectLocalMode",
			"%q is not supported: write ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
			l.DetectLocalMode)
	}
	for field, name := range map[string]string{"detectLocal.bridgeInterface": l.DetectLocal.BridgeInterface,
		"detectLocal.interfaceNamePrefix": l.DetectLocal.InterfaceNamePrefix} {
		if len(name) > 15 || strings.ContainsAny(name, "\" \t\n/*\\") {
			bad(field, "%q is no name of an interface: at most 15 bytes, without quote, space, slash or star", name)
		}
	}
	return errors.Join(errs...)
}

// ByNode reports whether local traffic is detected by the Pod CIDRs of the Node (upstream's
// detectLocalMode NodeCIDR).
func (l *Loaded) ByNode() bool { return l.DetectLocalMode == "NodeCIDR" }

// nodePorts returns nodePortAddresses without "primary": node ports are served on all of the node's
// addresses.
func (l *Loaded) nodePorts() []string {
	return slices.DeleteFunc(slices.Clone(l.NodePortAddresses), func(s string) bool { return s == "primary" })
}

func ranges(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		r, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is not a range such as 10.72.0.0/16", part)
		}
		out = append(out, r.Masked())
	}
	return out, nil
}

// defaultMasqueradeBit is upstream's default.
const defaultMasqueradeBit = 14

// Settings returns the part of the configuration that shapes the rules of family f. Check must have
// succeeded.
func (l *Loaded) Settings(f rules.Family) rules.Settings {
	s := rules.Settings{Family: f, MasqueradeBit: defaultMasqueradeBit, MasqueradeAll: l.NFTables.MasqueradeAll}
	if b := l.NFTables.MasqueradeBit; b != nil {
		s.MasqueradeBit = int(*b)
	}
	switch l.DetectLocalMode {
	case "BridgeInterface":
		s.LocalDetector.Interface = l.DetectLocal.BridgeInterface
	case "InterfaceNamePrefix":
		s.LocalDetector.Interface = l.DetectLocal.InterfaceNamePrefix + "*"
	case "NodeCIDR":
		s.LocalDetector.Ranges = l.NodeRanges
	default:
		s.LocalDetector.Ranges, _ = ranges(l.ClusterCIDR) // Check has validated it
	}
	s.NodePorts, _ = ranges(strings.Join(l.nodePorts(), ",")) // Check has validated it
	return s
}

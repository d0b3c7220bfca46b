package cniplugin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/ipam"
)

// pluginConfig is the CNI configuration on stdin.
type pluginConfig struct {
	types.PluginConf
	network.Plugin
	RuntimeConfig struct {
		PortMappings []portMapping   `json:"portMappings,omitempty"`
		Bandwidth    bandwidthLimits `json:"bandwidth,omitzero"`
	} `json:"runtimeConfig"`
}

type portMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

func parseConfig(raw []byte) (*pluginConfig, error) {
	c := &pluginConfig{}
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if c.Bridge == "" || len(c.Ranges) == 0 || c.Leases == "" || c.ID == "" {
		return nil, fmt.Errorf("configuration: id, bridge, ranges and leases must be set; Gantry writes them at its " +
			"start")
	}
	return c, nil
}

func (c *pluginConfig) store() ipam.Store { return ipam.Store{Dir: c.Leases} }

// request returns the lease that an ADD requests, without addresses.
func (c *pluginConfig) request(args *skel.CmdArgs) (ipam.Lease, error) {
	l := ipam.Lease{Container: args.ContainerID, Interface: args.IfName, Netns: args.Netns, Link: linkName(args),
		Pod: podName(args.Args), UID: podArg(args.Args, "K8S_POD_UID")}
	for _, m := range c.RuntimeConfig.PortMappings {
		if m.HostPort == 0 {
			continue
		}
		p := ipam.Port{Protocol: strings.ToLower(m.Protocol)}
		switch p.Protocol {
		case "tcp", "udp", "sctp":
		case "":
			p.Protocol = "tcp"
		default:
			return l, fmt.Errorf("host port %d: protocol %q is not TCP, UDP or SCTP", m.HostPort, m.Protocol)
		}
		if m.HostPort < 0 || m.HostPort > 65535 || m.ContainerPort < 1 || m.ContainerPort > 65535 {
			return l, fmt.Errorf("host port %d to container port %d: ports are 1 to 65535", m.HostPort, m.ContainerPort)
		}
		p.HostPort, p.ContainerPort = uint16(m.HostPort), uint16(m.ContainerPort)
		if m.HostIP != "" {
			ip, err := netip.ParseAddr(m.HostIP)
			if err != nil {
				return l, fmt.Errorf("host port %d: hostIP: %w", m.HostPort, err)
			}
			p.HostIP = ip.Unmap()
		}
		l.Ports = append(l.Ports, p)
	}
	return l, nil
}

// linkName returns the name of the host's veth end. It is stable for an attachment, so that DEL
// finds it without a lease.
func linkName(args *skel.CmdArgs) string {
	sum := sha256.Sum256([]byte(args.ContainerID + "/" + args.IfName))
	return "veth" + hex.EncodeToString(sum[:5])
}

// podName returns NAMESPACE/NAME from CNI_ARGS.
func podName(args string) string {
	name := podArg(args, "K8S_POD_NAME")
	if name == "" {
		return ""
	}
	return podArg(args, "K8S_POD_NAMESPACE") + "/" + name
}

func podArg(args, want string) string {
	for _, pair := range strings.Split(args, ";") {
		if key, value, _ := strings.Cut(pair, "="); key == want {
			return value
		}
	}
	return ""
}

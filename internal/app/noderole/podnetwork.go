package noderole

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/routes"
	"github.com/gantry-project/gantry/internal/networkpolicy"
	"github.com/gantry-project/gantry/internal/options"
)

// PolicyTable is the name of an instance's table of network policies.
func PolicyTable(id string) string { return "gantry_policy_" + id }

// makeNetwork makes the Pod network, or opens what it needs and leaves the rest until the Node has
// a range.
func makeNetwork(ctx context.Context, p *options.Instance, e *ContainerRuntime, logf func(string, ...any)) error {
	foreign, err := network.Foreign(p.NetworkConfig())
	if err != nil {
		return err
	}
	created, err := network.InstalledConfDir(p.NetworkConfig())
	if err != nil {
		return err
	}
	if foreign != "" || p.PodNetwork.ExternalCNI(created) {
		e.NetworkReady = func() error { return checkForeignNetwork(p) }
		if foreign != "" {
			logf("network of %s", foreign)
		} else {
			logf("no Pod network: %v", e.NetworkReady())
		}
		return removeOwnNetwork(ctx, p, created, logf)
	}
	e.Network = true
	if p.PodNetwork.Policies {
		if e.PolicyListener, err = listenPolicyGate(p.PolicyGatePath()); err != nil {
			return err
		}
	}
	if p.PodNetwork.RangeFromNode() {
		return nil
	}
	return EnsureNetwork(ctx, p, p.NetworkConfig(), logf)
}

// checkForeignNetwork says what a node waits for whose network another CNI plugin makes; nil when
// that is there.
func checkForeignNetwork(p *options.Instance) error {
	c := p.NetworkConfig()
	foreign, err := network.Foreign(c)
	if err == nil && foreign == "" {
		err = fmt.Errorf("the Pod network is another CNI plugin's, whose configuration is waited for in %s: apply "+
			"its manifest, or let Gantry make one with --network=gantry", c.ConfDir)
	}
	return err
}

// removeOwnNetwork takes Gantry's own network away, which lies in made, if there is one: two
// bridges would have one address, and rules for one range.
func removeOwnNetwork(ctx context.Context, p *options.Instance, created string, logf func(string, ...any)) error {
	if created == "" {
		return nil
	}
	c := p.NetworkConfig()
	c.ConfDir = created
	if err := cleanNetworkOf(ctx, p, c); err != nil {
		return err
	}
	if err := network.Uninstall(ctx, c); err != nil {
		return err
	}
	logf("Gantry's own network is taken away; Pods that were on it begin anew on the other")
	return nil
}

// EnsureNetwork makes the bridge, its rules and the CNI configuration of c as they should be, and
// tells logf what it made and warned of. It may be called again; needs root.
func EnsureNetwork(ctx context.Context, p *options.Instance, c network.Config, logf func(string, ...any)) error {
	state, err := network.Ensure(ctx, c)
	if err != nil {
		return err
	}
	if state.Warning != "" {
		logf("warning: %s", state.Warning)
	}
	logf("network %s on bridge %s", c.PodCIDR, c.Bridge)
	return nil
}

// listenPolicyGate listens where the CNI plugin tells of Pods. A socket that an instance left
// behind which was killed is replaced.
func listenPolicyGate(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("gate for network policies: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("gate for network policies: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("gate for network policies: %w", err)
	}
	return l, os.Chmod(path, 0o600)
}

// CleanNetwork takes away what leads to other nodes and what policies left.
func CleanNetwork(ctx context.Context, p *options.Instance) error {
	c := p.NetworkConfig()
	created, err := network.InstalledConfDir(c)
	if created != "" {
		c.ConfDir = created
	}
	return errors.Join(err, cleanNetworkOf(ctx, p, c))
}

func cleanNetworkOf(ctx context.Context, p *options.Instance, c network.Config) error {
	id := instance.ID(p.DataDir)
	table, err := networkpolicy.Open(PolicyTable(id))
	if err == nil {
		err = table.Remove(ctx)
	}
	cluster, confErr := network.ClusterOf(c)
	if len(cluster) > 0 {
		err = errors.Join(err, (&routes.Router{ID: id, Cluster: cluster}).Clean())
	}
	return errors.Join(err, confErr)
}

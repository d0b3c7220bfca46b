package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/network"
)

// standard is the network of the reference plugins.
const standard = `{"cniVersion":"1.0.0","name":"bench","plugins":[
  {"type":"bridge","bridge":"bench1","isGateway":true,"ipMasq":true,"ipMasqBackend":"nftables","hairpinMode":true,
   "ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.141.0.0/16"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
  {"type":"portmap","backend":"nftables","snat":true,"capabilities":{"portMappings":true}}]}`

// attachments measures CNI's ADD and DEL by libcni, as containerd calls them, for 100 sandboxes one
// after the other, each in a new network namespace, the plugins' programs included; beside
// gantry-cni the reference plugins bridge, host-local and portmap, where they lie beside it.
func (b *bench) attachments(ctx context.Context) ([]result.Figure, error) {
	s, err := newNamespaces()
	if err != nil {
		return nil, err
	}
	defer s.remove()
	bin := b.binDir
	if bin == "" {
		bin = filepath.Dir(b.binary)
	}
	if bin, err = filepath.Abs(filepath.Join(bin, "cni")); err != nil {
		return nil, err
	}
	host, err := s.add()
	if err != nil {
		return nil, err
	}
	own := network.Config{
		DataDir: s.dir, StateDir: filepath.Join(s.dir, "run"), Bridge: "bench0", PodCIDR: "10.140.0.0/16", BinDir: bin,
	}
	if err := host.Do(func(ns.NetNS) error { _, err := network.Ensure(ctx, own); return err }); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(s.dir, "cni/net.d/10-gantry.conflist"))
	if err != nil {
		return nil, err
	}
	nets := []struct{ name, conf string }{{"gantry-cni", string(raw)}}
	missing := ""
	for _, p := range []string{"bridge", "host-local", "portmap"} {
		if _, err := os.Stat(filepath.Join(bin, p)); err != nil {
			missing = p
		}
	}
	if missing == "" {
		conf := fmt.Sprintf(standard, filepath.Join(s.dir, "ipam"))
		nets = append(nets, struct{ name, conf string }{"reference plugins", conf})
	} else {
		fmt.Fprintf(os.Stderr, "bench: %s is not in %s: the reference plugins are left out\n", missing, bin)
	}
	var figures []result.Figure
	for _, port := range []int{0, 30999} {
		for _, n := range nets {
			cni := libcni.NewCNIConfigWithCacheDir([]string{bin}, filepath.Join(s.dir, "cache"), nil)
			a := attacher{namespaces: s, host: host, cni: cni, port: port}
			adds, dels, err := a.measure(ctx, n.conf, b.times(100))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", n.name, err)
			}
			name := n.name + "/" + map[bool]string{false: "no port", true: "host port"}[port > 0]
			figures = append(figures, result.Durations(name+"/ADD", adds), result.Durations(name+"/DEL", dels))
		}
	}
	return figures, nil
}

// attacher adds sandboxes to a network and deletes them.
type attacher struct {
	*namespaces
	host ns.NetNS
	cni  *libcni.CNIConfig
	port int
}

func (a attacher) measure(ctx context.Context, conf string, many int) (adds, dels []time.Duration, err error) {
	list, err := libcni.ConfListFromBytes([]byte(conf))
	if err != nil {
		return nil, nil, err
	}
	for k := range many {
		sandbox, err := a.add()
		if err != nil {
			return nil, nil, err
		}
		rt := &libcni.RuntimeConf{ContainerID: fmt.Sprintf("bench%d-%d", a.port, k), NetNS: sandbox.Path(),
			IfName: "eth0"}
		if a.port > 0 {
			mapping := map[string]any{"hostPort": a.port, "containerPort": 80, "protocol": "tcp"}
			rt.CapabilityArgs = map[string]any{"portMappings": []map[string]any{mapping}}
		}
		err = a.host.Do(func(ns.NetNS) error {
			began := time.Now()
			if _, err := a.cni.AddNetworkList(ctx, list, rt); err != nil {
				return err
			}
			added := time.Now()
			err := a.cni.DelNetworkList(ctx, list, rt)
			adds, dels = append(adds, added.Sub(began)), append(dels, time.Since(added))
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return adds, dels, nil
}

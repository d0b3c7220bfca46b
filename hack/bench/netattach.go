package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/gantry-project/gantry/internal/network"
)

// standard is the network of the reference plugins.
const standard = `{"cniVersion":"1.0.0","name":"bench","plugins":[
  {"type":"bridge","bridge":"bench1","isGateway":true,"ipMasq":true,"ipMasqBackend":"nftables","hairpinMode":true,
   "ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.141.0.0/16"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
  {"type":"portmap","backend":"nftables","snat":true,"capabilities":{"portMappings":true}}]}`

// attachments measures how long the CNI plugin takes to join and part a sandbox, beside the reference plugins where they lie beside it.
func (b *bench) attachments(ctx context.Context) error {
	s, err := newSpaces()
	if err != nil {
		return err
	}
	defer s.remove()
	bin := b.binDir
	if bin == "" {
		bin = filepath.Dir(b.binary)
	}
	if bin, err = filepath.Abs(filepath.Join(bin, "cni")); err != nil {
		return err
	}
	host, err := s.add()
	if err != nil {
		return err
	}
	own := network.Config{DataDir: s.dir, StateDir: filepath.Join(s.dir, "run"), Bridge: "bench0", PodCIDR: "10.140.0.0/16", BinDir: bin}
	if err := host.Do(func(ns.NetNS) error { _, err := network.Ensure(ctx, own); return err }); err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(s.dir, "cni/net.d/10-gantry.conflist"))
	if err != nil {
		return err
	}
	nets := []struct{ name, conf string }{{"gantry-cni", string(raw)}}
	missing := ""
	for _, p := range []string{"bridge", "host-local", "portmap"} {
		if _, err := os.Stat(filepath.Join(bin, p)); err != nil {
			missing = p
		}
	}
	if missing == "" {
		nets = append(nets, struct{ name, conf string }{"bridge, host-local, portmap", fmt.Sprintf(standard, filepath.Join(s.dir, "ipam"))})
	} else {
		fmt.Fprintf(os.Stderr, "bench: %s is not in %s: the reference plugins are left out\n", missing, bin)
	}
	var rows [][]string
	for _, port := range []int{0, 30999} {
		for _, n := range nets {
			a := attacher{spaces: s, host: host, cni: libcni.NewCNIConfigWithCacheDir([]string{bin}, filepath.Join(s.dir, "cache"), nil), port: port}
			row, err := a.measure(ctx, n.conf, b.times(100))
			if err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
			rows = append(rows, append([]string{n.name, map[bool]string{true: "a host port", false: "none"}[port > 0]}, row...))
		}
	}
	b.page.add(section{
		Title: "Attaching Pods",
		How: fmt.Sprintf("CNI's ADD and DEL by libcni, as containerd calls them, for %d sandboxes one after the other, each in a new network namespace; programs included. "+
			"Of gantry-cni's ADD, half is the start of a program; of DEL, most is the kernel's removal of the link, for which it waits until no processor looks at it any more.", b.times(100)),
		Head:   []string{"Plugins", "Ports", "ADD p50, ms", "p99, ms", "DEL p50, ms", "p99, ms"},
		Rows:   rows,
		Budget: "ADD ≤ half of the reference plugins'",
	})
	return nil
}

// attacher joins and parts sandboxes.
type attacher struct {
	*spaces
	host ns.NetNS
	cni  *libcni.CNIConfig
	port int
}

func (a attacher) measure(ctx context.Context, conf string, many int) ([]string, error) {
	list, err := libcni.ConfListFromBytes([]byte(conf))
	if err != nil {
		return nil, err
	}
	var adds, dels []time.Duration
	for k := range many {
		sandbox, err := a.add()
		if err != nil {
			return nil, err
		}
		rt := &libcni.RuntimeConf{ContainerID: fmt.Sprintf("bench%d-%d", a.port, k), NetNS: sandbox.Path(), IfName: "eth0"}
		if a.port > 0 {
			rt.CapabilityArgs = map[string]any{"portMappings": []map[string]any{{"hostPort": a.port, "containerPort": 80, "protocol": "tcp"}}}
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
			return nil, err
		}
	}
	return []string{ms(quantile(adds, 0.5)), ms(quantile(adds, 0.99)), ms(quantile(dels, 0.5)), ms(quantile(dels, 0.99))}, nil
}

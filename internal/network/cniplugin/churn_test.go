package cniplugin_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/ipam"
	"github.com/gantry-project/gantry/test/expect"
)

// Some of hundreds of ADD and DEL calls are killed, and some sandboxes end without DEL. No address
// is allocated twice, and after one audit with the runtime's sandboxes only running ones have
// leases.
//
// row: NET-07
func TestManyPodsComeAndGoAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/26") // 61 addresses for 210 Pods
	const workers, each = 6, 35
	var installed []*pod
	for range workers * 4 {
		installed = append(installed, w.pod(tcp(10000+len(installed), 80)))
	}
	c := churnTest{w: w, held: map[netip.Addr]string{}}
	var wg sync.WaitGroup
	for i := range workers {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for n := range each {
				c.addAndDelete(installed[i*4+n%4], rng)
			}
		})
	}
	wg.Wait()
	t.Logf("%d added, %d killed on the way, %d left without DEL", c.added, c.killed, c.leftover)
	if c.killed == 0 || c.leftover == 0 {
		t.Errorf("the test shows nothing: got %d killed and %d left behind, want some of both", c.killed, c.leftover)
	}
	live := map[string]bool{}
	for _, id := range c.held {
		live[id] = true
	}
	a := network.NewAuditor(w.cfg, func(context.Context) (map[string]bool, error) { return live, nil })
	for range ipam.MissedAudits {
		w.inNamespace(w.host, func() error { _, err := a.Audit(t.Context()); return err })
	}
	allocations := w.book()
	if len(allocations.Leases) != len(c.held) {
		t.Errorf("%d leases, %d Pods run", len(allocations.Leases), len(c.held))
	}
	links := w.veths()
	for _, l := range allocations.Leases {
		if !live[l.Container] || !links[l.Link] {
			t.Errorf("lease %+v; its sandbox runs: %v, its link is there: %v", l, live[l.Container], links[l.Link])
		}
	}
	if len(links) != len(c.held) {
		t.Errorf("links %v, %d Pods run", links, len(c.held))
	}
	table := w.table()
	if got := strings.Count(table, " : 10.199.0."); got != len(c.held) {
		t.Errorf("%d host ports are open, %d Pods run:\n%s", got, len(c.held), table)
	}
}

// churnTest has the running sandboxes, as the workers know them.
type churnTest struct {
	w                       *fixture
	mu                      sync.Mutex
	held                    map[netip.Addr]string
	added, killed, leftover int
}

// addAndDelete adds a Pod and removes it again, or is killed in the middle of either. What was
// killed is removed as a runtime does, or left to the audit.
func (c *churnTest) addAndDelete(p *pod, rng *rand.Rand) {
	c.mu.Lock()
	for ip, id := range c.held {
		if id == p.id {
			delete(c.held, ip)
		}
	}
	c.mu.Unlock()
	del := func() {
		if _, err := p.cni("DEL", nil); err != nil {
			c.w.t.Errorf("DEL of %s: %v, want no error", p.id, err)
		}
	}
	del() // of the round before
	if rng.IntN(3) == 0 {
		c.w.killedPlugin(p, "ADD", time.Duration(rng.IntN(25_000))*time.Microsecond)
		c.mu.Lock()
		c.killed++
		c.mu.Unlock()
		if rng.IntN(2) == 0 {
			c.mu.Lock()
			c.leftover++
			c.mu.Unlock()
			return
		}
		if rng.IntN(2) == 0 {
			c.w.killedPlugin(p, "DEL", time.Duration(rng.IntN(15_000))*time.Microsecond)
		}
		del()
	}
	if err := p.add(); err != nil {
		c.w.t.Errorf("ADD of %s: %v, want no error", p.id, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added++
	if other, taken := c.held[p.ip]; taken {
		c.w.t.Errorf("%s has %s, which %s has", p.id, p.ip, other)
	}
	c.held[p.ip] = p.id
}

// killedPlugin calls the plugin and kills it after a while.
func (w *fixture) killedPlugin(p *pod, verb string, after time.Duration) {
	cmd, err := p.command(verb, nil)
	if err == nil {
		err = w.host.Do(func(ns.NetNS) error { return cmd.Start() })
	}
	if err != nil {
		w.t.Error(err)
		return
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
}

func (w *fixture) book() ipam.Allocations {
	w.t.Helper()
	allocations, err := ipam.Store{Dir: w.cfg.StateDir + "/net"}.View()
	expect.NoError(w.t, err)
	return allocations
}

func (w *fixture) veths() map[string]bool {
	w.t.Helper()
	out := map[string]bool{}
	w.inNamespace(w.host, func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			if strings.HasPrefix(l.Attrs().Name, "veth") {
				out[l.Attrs().Name] = true
			}
		}
		return err
	})
	return out
}

func (w *fixture) table() string {
	w.t.Helper()
	var out []byte
	w.inNamespace(w.host, func() (err error) {
		out, err = exec.Command("nft", "list",
			"ruleset").CombinedOutput()
		return err
	})
	return string(out)
}

// On a running node: the second audit releases what a vanished namespace, unknown to the runtime,
// had; a link without lease is deleted, others' links stay; and a flushed table is restored with
// the ports of running Pods.
func TestAuditWhileRunning(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/29")
	stays, goes, unknown := w.joinedPod(tcp(8080, 80)), w.joinedPod(tcp(8081, 80)), w.joinedPod()
	w.tcpServer(stays.ns, ":80")
	expect.NoError(t, unix.Unmount(goes.ns.Path(), unix.MNT_DETACH))
	w.inNamespace(w.host, func() error {
		bridge, err := netlink.LinkByName("gtest0")
		expect.NoError(t, err)
		for i, name := range []string{"veth00000000aa", "veth-my-own"} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.MasterIndex = name, bridge.Attrs().Index
			expect.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: fmt.Sprintf("peer%d", i)}))
		}
		return exec.Command("nft", "flush", "ruleset").Run()
	})
	asked := map[string]bool{stays.id: true}
	a := network.NewAuditor(w.cfg, func(context.Context) (map[string]bool, error) { return asked, nil })
	look := func() (r network.Report) {
		w.inNamespace(w.host, func() (err error) { r, err = a.Audit(t.Context()); return err })
		return r
	}
	r := look()
	if len(r.Leases) != 0 || fmt.Sprint(r.Links) != "[veth00000000aa]" || !r.Restored || r.LeaseCount != 3 {
		t.Errorf("first audit: %+v", r)
	}
	if r := look(); len(r.Leases) != 1 || r.Leases[0].Container != goes.id || r.LeaseCount != 2 || r.Free != 3 {
		t.Errorf("second audit: %+v", r)
	}
	w.reaches(w.neighbour, "tcp", hostIP+":8080", neighbourIP)
	for i := 3; i < ipam.MissedAudits; i++ {
		if r := look(); !r.Empty() || r.Restored {
			t.Errorf("audit %d: %+v", i, r)
		}
	}
	if r := look(); len(r.Leases) != 1 || r.Leases[0].Container != unknown.id || r.LeaseCount != 1 || r.Free != 4 {
		t.Errorf("after the runtime did not know it %d times: %+v", ipam.MissedAudits, r)
	}
	if links := w.veths(); len(links) != 2 || !links["veth-my-own"] {
		t.Errorf("links: %v", links)
	}
	w.joinedPod(tcp(8081, 80)) // the released port is free
	if _, err := os.Stat(stays.ns.Path()); err != nil {
		t.Error(err)
	}
}

// An audit that finds nothing runs no program while it has the lock: each ADD and DEL waits for
// that.
func TestAuditHoldsTheLockBriefly(t *testing.T) { // not parallel: PATH
	w := newFixture(t, "10.199.0.0/29")
	w.joinedPod()
	program, err := exec.LookPath("nft")
	expect.NoError(t, err)
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho x >>%[1]s/asked\nflock -n %[2]s/net/lock true || echo x "+
		">>%[1]s/locked\nexec %[3]s \"$@\"\n", dir, w.cfg.StateDir, program)
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "nft"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	a := network.NewAuditor(w.cfg, func(context.Context) (map[string]bool, error) { return map[string]bool{}, nil })
	w.inNamespace(w.host, func() error { _, err := a.Audit(t.Context()); return err })
	if asked, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil || len(asked) != 2 {
		t.Errorf("asked %q, want once: %v", asked, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "locked")); err == nil {
		t.Error("it asks while it holds the lock")
	}
}

package nfnetlink

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/proxy/rules"
	"github.com/gantry-project/gantry/test/netns"
)

// One family's changes do not notify the other's table on the same Conn and cannot overrun its
// buffer: with a minimal buffer the first notification after a large batch is another program's
// change. On a Conn of its own the batch overruns the buffer, and only that is notified.
func TestOwnChangesAreNotNotified(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("needs root: makes a network namespace")
	}
	space := netns.New(t)
	inside := func(f func() error) {
		t.Helper()
		if err := space.Do(func(ns.NetNS) error { return f() }); err != nil {
			t.Fatal(err)
		}
	}
	nft := func(script string) {
		t.Helper()
		inside(func() error {
			if out, err := exec.Command("nft", script).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w %s", script, err, out)
			}
			return nil
		})
	}
	nft("add table ip t; add set ip t ips { type ipv4_addr; }; add table ip6 t; add set ip6 t ips { type ipv6_addr; }")
	var many []rules.Op
	for i, ip := 0, netip.MustParseAddr("10.0.0.1"); i < 2000; i, ip = i+1, ip.Next() {
		many = append(many, rules.Op{Verb: rules.AddElement, Name: "ips", Key: ip.String()})
	}
	for name, shared := range map[string]bool{"one line": true, "a line each": false} {
		line, other := new(Conn), new(Conn)
		if shared {
			other = line
		}
		ctx, cancel := context.WithCancel(t.Context())
		reported, on := make(chan Notification), make(chan struct{})
		var four *Table
		inside(func() (err error) {
			if four, err = Open(line, rules.IPv4,
				"t", rules.TableFrame{Sets: []rules.SetDef{{Name: "ips", Type: "ipv4_addr"}}}); err != nil {
				return err
			}
			six, err := Open(other, rules.IPv6,
				"t", rules.TableFrame{Sets: []rules.SetDef{{Name: "ips", Type: "ipv6_addr"}}})
			if err != nil {
				return err
			}
			notify := func(h Notification) {
				select {
				case reported <- h:
					<-on
				case <-ctx.Done():
				}
			}
			if err := six.Listen(ctx, notify); err != nil {
				return err
			}
			return other.listenConn.SetReadBuffer(1) // the kernel's least
		})
		notifications := func() (h Notification) {
			t.Helper()
			select {
			case h = <-reported:
			case <-time.After(time.Minute):
				t.Errorf("%s: no notification", name)
			}
			return h
		}
		nft("add element ip6 t ips { fd00::2 }")
		notifications() // the receiver is busy from here on
		inside(func() error { return four.Send(many) })
		if shared {
			nft("add element ip6 t ips { fd00::1 }")
		}
		close(on)
		if h := notifications(); h.Overrun == shared ||
			shared && (h.Generation == 0 || !slices.Equal(h.Sets, []string{"ips"})) {
			t.Errorf("%s: got %+v", name, h)
		}
		cancel()
		line.Close()
		nft("flush set ip t ips; flush set ip6 t ips")
	}
}

// An overrun is notified, and listening continues; another error is notified as the end.
func TestEndOfListeningIsReported(t *testing.T) {
	errs := []error{unix.ENOBUFS, unix.EPERM}
	listenConn := nltest.Dial(func([]netlink.Message) ([]netlink.Message, error) {
		err := errs[0]
		errs = errs[1:]
		return nil, err
	})
	defer listenConn.Close()
	var reported []Notification
	line := &Conn{listenConn: listenConn}
	line.listeners = map[*Table]*listener{{Conn: line, name: "t"}: {func(h Notification) {
		if reported = append(reported, h); h.Err != nil && line.listenConn != nil {
			t.Error("a new listener after the end gets the socket that ended")
		}
	}}}
	line.receive(listenConn)
	if len(reported) != 2 || !reported[0].Overrun || reported[0].Err != nil || !reported[1].Overrun ||
		!errors.Is(reported[1].Err, unix.EPERM) {
		t.Errorf("got %+v", reported)
	}
}

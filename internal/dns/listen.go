package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/pkg/rcode"
	"github.com/coredns/coredns/request"
	miekg "github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// stopTimeout is how long queries in flight may take when the server stops.
const stopTimeout = 2 * time.Second

// socket is one address, in UDP and TCP.
type socket struct {
	udp net.PacketConn
	tcp net.Listener
}

// portTries is how often any port is tried: what UDP has free, TCP need not.
const portTries = 20

// open listens on an address, only on one link if given: several instances on one machine may have
// the same cluster DNS address. Port 0 is any that is free for both protocols.
func open(ctx context.Context, at netip.AddrPort, link string) (socket, error) {
	for try := 1; ; try++ {
		s, err := openOnce(ctx, at, link)
		if at.Port() != 0 || try == portTries || !errors.Is(err, unix.EADDRINUSE) {
			return s, err
		}
	}
}

func openOnce(ctx context.Context, at netip.AddrPort, link string) (socket, error) {
	c := net.ListenConfig{}
	if link != "" {
		c.Control = func(_, _ string, raw syscall.RawConn) error {
			var err error
			return errors.Join(raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), link) }), err)
		}
	}
	udp, err := c.ListenPacket(ctx, "udp", at.String())
	if err != nil {
		return socket{}, fmt.Errorf("dns: %w", err)
	}
	tcp, err := c.Listen(ctx, "tcp", socket{udp: udp}.address(at.Addr()).String())
	if err != nil {
		_ = udp.Close()
		return socket{}, fmt.Errorf("dns: %w", err)
	}
	return socket{udp, tcp}, nil
}

// address returns where the socket listens, at a.
func (s socket) address(a netip.Addr) netip.AddrPort {
	if own, ok := s.udp.LocalAddr().(*net.UDPAddr); ok {
		return netip.AddrPortFrom(a, uint16(own.Port))
	}
	return netip.AddrPort{}
}

// serve answers until ctx ends or a listener fails, whose error it returns.
func (s socket) serve(ctx context.Context, h miekg.Handler) error {
	at := s.udp.LocalAddr().String()
	h = instrumentedHandler{h, "dns://" + at}
	servers := []*miekg.Server{{PacketConn: s.udp, Handler: h}, {Listener: s.tcp, Handler: h}}
	ended := make(chan error, len(servers))
	for _, one := range servers {
		go func() { ended <- one.ActivateAndServe() }()
	}
	var err error
	left := len(servers)
	select {
	case err = <-ended:
		left--
		if err == nil {
			err = fmt.Errorf("the socket %s closed", at)
		}
	case <-ctx.Done():
	}
	_ = s.udp.SetReadDeadline(time.Now()) // Shutdown does not end a server that has not started; the deadline does
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, one := range servers {
		_ = one.ShutdownContext(stop) // a server that ended earlier returns an error
	}
	s.close()
	for range left {
		_ = <-ended // the first error is returned
	}
	return err
}

func (s socket) close() {
	_ = s.udp.Close() // both may be closed already
	_ = s.tcp.Close()
}

// instrumentedHandler counts queries in CoreDNS's metrics.
type instrumentedHandler struct {
	next miekg.Handler
	at   string
}

func (m instrumentedHandler) ServeDNS(w miekg.ResponseWriter, r *miekg.Msg) {
	out := dnstest.NewRecorder(w)
	m.next.ServeDNS(out, r)
	vars.Report(m.at, request.Request{W: w, Req: r}, ".", "", rcode.ToString(out.Rcode), "", out.Len, out.Start)
}

// addAddress adds the address to the link; it succeeds if the link has it.
func addAddress(link string, a netip.Addr) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return fmt.Errorf("dns: link %s: %w", link, err)
	}
	if err := netlink.AddrAdd(l, address(a)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("dns: address %s on link %s: %w", a, link, err)
	}
	return nil
}

// removeAddress removes the address from the link.
func removeAddress(link string, a netip.Addr) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return nil // the link is gone, and the address with it
	}
	if err := netlink.AddrDel(l, address(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("dns: address %s off link %s: %w", a, link, err)
	}
	return nil
}

func address(a netip.Addr) *netlink.Addr {
	out := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
	if a.Is6() {
		out.Flags = unix.IFA_F_NODAD
	}
	return out
}

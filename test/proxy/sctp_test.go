package proxy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/expect"
)

// sctp is a socket in n, to listen at or to connect to the address; net takes it for a stream like
// TCP's.
func sctp(n ns.NetNS, at netip.AddrPort, listen bool) (f *os.File, err error) {
	err = n.Do(func(ns.NetNS) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), "sctp")
		to := &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
		if listen {
			return errors.Join(unix.Bind(fd, to), unix.Listen(fd, 8))
		}
		wait := unix.Timeval{Sec: 5}
		return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait), unix.Connect(fd, to))
	})
	return f, err
}

// A Service of SCTP: the kernel takes its rules, and where it speaks SCTP an association through
// the cluster IP reaches the endpoint.
func TestSCTP(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, client := w.pod(), w.pod()
	w.service(func(s *v1.Service) {
		s.Spec.Type = v1.ServiceTypeNodePort
		s.Spec.Ports = []v1.ServicePort{{Name: "s", Protocol: v1.ProtocolSCTP, Port: 80, NodePort: 30080}}
	})
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("s"), Protocol: new(v1.ProtocolSCTP),
			Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{a.ip}, NodeName: new("n1"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}}}}
	_, err := w.client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice, metav1.CreateOptions{})
	expect.NoError(t, err)
	defer w.run()()
	list := w.list()
	for _, want := range []string{"10.96.0.10 . sctp . 80", "sctp . 30080", "dnat to " + a.ip + ":8080"} {
		if !strings.Contains(list, want) {
			t.Errorf("the kernel has no %q:\n%s", want, list)
		}
	}
	listener, err := sctp(a.NetNS, netip.MustParseAddrPort("0.0.0.0:8080"), true)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip("this kernel does not speak SCTP: the rules are there, traffic is not shown")
	}
	expect.NoError(t, err)
	l, err := net.FileListener(listener)
	expect.NoError(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte(a.ip))
			_ = c.Close()
		}
	}()
	f, err := sctp(client.NetNS, netip.MustParseAddrPort(vip), false)
	expect.NoError(t, err)
	defer f.Close()
	timer := time.AfterFunc(10*time.Second, func() { _ = f.Close() })
	defer timer.Stop()
	if who, err := io.ReadAll(io.LimitReader(f, int64(len(a.ip)))); err != nil || string(who) != a.ip {
		t.Errorf("%q answers (%v), want %s", who, err, a.ip)
	}
}

// Package ports hands out what instances on one machine must not share: TCP ports, and bridges with
// ranges of Pod addresses.
//
// In: nothing. Out: a port or network that is this process's alone. Each is held by
// a socket in Linux's abstract namespace, which no other test binary can have at the same time and
// which the kernel takes away with the process, so nothing is left behind. Ports lie below the
// range from which the kernel chooses the local ports of connections and below that of node ports,
// so neither another client nor another instance's Service comes between the choice and the
// program's own listen.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
)

// Ports are handed out from this range; Linux takes local ports of connections from 32768 on unless
// configured otherwise, and node ports begin at 30000.
const first, last = 15000, 29999

// reserved keeps the sockets of what this process has taken: one that is not referred to would be
// closed by the garbage collector.
var reserved struct {
	sync.Mutex
	sockets []net.Listener
}

// lockName makes a name this process's; another process, or this one, that has it already makes it
// fail.
func lockName(name string) (net.Listener, error) { return net.Listen("unix", "@gantry-test/"+name) }

// Free returns a TCP port that nobody listens on, on any address, and that no other caller of Free
// on this machine gets until this process ends: it may be listened on by a program that this
// process starts, ends and starts again. It fails when there is none after a thousand tries.
func Free() (int, error) { return between(first, last) }

func between(first, last int) (int, error) {
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), rand.Uint64()))
	for range 1000 {
		port := first + random.IntN(last-first+1)
		hold, err := lockName(fmt.Sprintf("port/%d", port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			_ = hold.Close() // a program outside of these tests has the port
			continue
		}
		reserved.Lock()
		reserved.sockets = append(reserved.sockets, hold)
		reserved.Unlock()
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free TCP port between %d and %d: ss -ltnp names those who listen", first, last)
}

// Refusing returns an address of 127.0.0.1 at which connections are refused until release is
// called: its socket is bound and does not listen, so nobody else gets the port meanwhile, as
// somebody may who only closes a listener.
func Refusing() (addr string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	release = func() { _ = syscall.Close(fd) } // a socket without a connection has nothing to lose
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		release()
		return "", nil, err
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		release()
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port), release, nil
}

// Closed is Refusing for the length of a test; it returns the port.
func Closed(t testing.TB) int {
	t.Helper()
	addr, release, err := Refusing()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return int(netip.MustParseAddrPort(addr).Port())
}

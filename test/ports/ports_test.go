package ports

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Of a range that is hardly larger than what they want.
const narrow, wide, each = 29000, 29199, 40

// TestMain is also the other processes of TestProcessesShareNoPort: they print their ports and keep
// them until their input ends.
func TestMain(m *testing.M) {
	if os.Getenv("GANTRY_TAKES_PORTS") == "" {
		os.Exit(m.Run())
	}
	for range each {
		p, err := between(narrow, wide)
		fmt.Println(p, err)
	}
	n, err := ReserveNetwork("gxports")
	if err != nil {
		fmt.Println(err)
	} else {
		fmt.Println(n.Bridge, n.PodCIDR)
	}
	fmt.Println()
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
}

// Processes that look for ports and networks at the same time, and do not listen on them yet, get
// different ones; when they have ended all is there again.
func TestProcessesShareNoPort(t *testing.T) {
	for round := range 2 {
		var all []string
		var ends []func()
		for range 4 {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), "GANTRY_TAKES_PORTS=1")
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, func() { _ = in.Close(); _ = c.Wait() })
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "" {
				all = append(all, lines.Text())
			}
		}
		for _, end := range ends {
			end()
		}
		slices.Sort(all)
		if n := len(slices.Compact(slices.Clone(all))); n != len(all) || n != 4*(each+1) {
			t.Errorf("round %d: %d different ones of %d, want %d:\n%s", round, n, len(all), 4*(each+1),
				strings.Join(all, "\n"))
		}
	}
}

// A port that somebody has on one address only is not free.
func TestAPortInUseIsNotHandedOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).Port
	if port, err := between(at, at); err == nil {
		t.Errorf("port %d is in use and was handed out", port)
	}
}

// An address that refuses connections does so until it is released, and nobody else can listen
// there.
func TestRefusing(t *testing.T) {
	addr, release, err := Refusing()
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Errorf("%s takes connections", addr)
	}
	if l, err := net.Listen("tcp", addr); err == nil {
		l.Close()
		t.Errorf("%s could be listened on", addr)
	}
	release()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

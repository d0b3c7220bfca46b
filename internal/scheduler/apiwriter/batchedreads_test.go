package apiwriter

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// Much that comes one by one is read together; what comes after a while of quiet is read at once.
func TestSmallReadsAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces, size = 1000, 100
		script := &scriptedConn{size: size}
		for i := range pieces { // one each tenth of a millisecond
			script.at = append(script.at, time.Duration(i)*100*time.Microsecond)
		}
		script.at = append(script.at, 10*time.Second)
		script.began = time.Now()
		g := newBatchedConn(script, busyBytes)
		got, small := 0, make([]byte, 30) // fewer bytes than one read gives: the rest is kept
		for got < pieces*size {
			n, err := g.Read(small)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		if most := busyBytes/size + 10; got != pieces*size || script.reads > most {
			t.Errorf("%d bytes in %d reads, want %d in at most %d", got, script.reads, pieces*size, most)
		}
		if _, err := g.Read(small); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(script.began) - 10*time.Second; late != 0 {
			t.Errorf("what came after a while of quiet is read after %v, want at once", late)
		}
	})
}

// scriptedConn is a connection on which a piece of some bytes comes at each of some times.
type scriptedConn struct {
	net.Conn
	began time.Time
	at    []time.Duration
	size  int
	reads int
}

// Read waits for a piece and takes those that came.
func (s *scriptedConn) Read(p []byte) (int, error) {
	s.reads++
	if d := time.Until(s.began.Add(s.at[0])); d > 0 {
		time.Sleep(d)
	}
	n := 0
	for (n+1)*s.size <= len(p) && n < len(s.at) && time.Since(s.began) >= s.at[n] {
		n++
	}
	s.at = s.at[n:]
	return n * s.size, nil
}

// acceptFrom accepts the connection that comes from addr: another program may still dial the port
// of a server that is gone.
func acceptFrom(t *testing.T, l net.Listener, addr net.Addr) net.Conn {
	t.Helper()
	for {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if c.RemoteAddr().String() == addr.String() {
			return c
		}
	}
}

// A connection of the kernel gives all that was sent, in order and however it came, then what comes
// after a while of quiet, and the end.
func TestAllBytesAreReadInOrder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := BatchReads((&net.Dialer{}).DialContext)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other := acceptFrom(t, l, conn.LocalAddr())
	// what is left in the kernel is never read
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var next byte
	send := func(n int) {
		b := make([]byte, n)
		for i := range b {
			b[i] = next
			next++
		}
		if _, err := other.Write(b); err != nil {
			t.Error(err)
		}
	}
	var due byte
	expect := func(n int) {
		b := make([]byte, n)
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatal(err)
		}
		for _, c := range b {
			if c != due {
				t.Fatalf("%d came where %d was sent", c, due)
			}
			due++
		}
	}
	g := conn.(*batchedConn)
	for n := 0; !g.wakesLate; n++ { // much comes
		if n > 100 {
			t.Fatalf("SO_RCVLOWAT is not raised, however much comes: got %v, want at most 100", n)
		}
		send(busyBytes)
		expect(busyBytes)
	}
	if err := conn.SetReadDeadline(time.Now().Add(3 * readInterval)); err != nil {
		t.Fatal(err)
	}
	var silent net.Error // after a read that finds nothing the kernel notifies of the next byte
	if n, err := conn.Read(make([]byte, 1)); !errors.As(err, &silent) || !silent.Timeout() {
		t.Fatalf("%d bytes and %v where nothing was sent", n, err)
	}
	least := 0
	if err := g.raw.Control(
		func(fd uintptr) { least, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT) }); err != nil ||
		least != 1 {
		t.Fatalf("SO_RCVLOWAT is %d bytes, want 1", least)
	}
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	send(1)
	expect(1) // little comes after much
	go func() {
		for range 100 {
			send(readDeadline / 50)
		}
	}()
	expect(100 * (readDeadline / 50))
	send(3)
	expect(3)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes and %v, want the end", n, err)
	}
}

package watchbatching

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"
)

// connPair is a gathered connection and its peer, over loopback.
func connPair(t *testing.T) (*batchingConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	for {
		c, err := Listener{l}.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		// another program may still dial the port of a server that is gone
		if c.RemoteAddr().String() == peer.LocalAddr().String() {
			return c.(*batchingConn), peer
		}
	}
}

// All that was written arrives, in order, though the connection is closed at once; more than may
// wait at a time.
func TestConnKeepsTheOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c, peer := connPair(t)
	var sent bytes.Buffer
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(peer)
		got <- all
	}()
	for sent.Len() < 8*maxPending {
		p := make([]byte, 1+random.IntN(2*directWriteSize))
		for i := range p {
			p[i] = byte(random.Uint32())
		}
		if n, err := c.Write(p); n != len(p) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(p), err)
		}
		sent.Write(p)
		clear(p) // who writes may use it again
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if all := <-got; !bytes.Equal(all, sent.Bytes()) {
		t.Errorf("%d bytes arrived of %d, or others", len(all), sent.Len())
	}
}

// Who does not read makes the writer wait; closing ends the wait, and the reading side, at once.
func TestConnToAPeerThatDoesNotRead(t *testing.T) {
	c, _ := connPair(t)
	c.closeTimeout = time.Hour // what ends at all did not wait for it
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	wrote := make(chan error, 1)
	go func() {
		for {
			c.mu.Lock()
			// however slow the machine is, no write is one by itself, which would wait in the
			// kernel
			c.lastWrite = time.Now().Add(time.Hour)
			c.mu.Unlock()
			if _, err := c.Write(make([]byte, 1024)); err != nil {
				wrote <- err
				return
			}
		}
	}()
	stuck := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.pending) > maxPending
	}
	for end := time.After(30 * time.Second); !stuck(); {
		select {
		case err := <-wrote:
			t.Fatalf("the writer ends: %v", err)
		case <-end:
			t.Fatal("the writer never waits")
		case <-time.After(time.Millisecond):
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the writer gets %v", err)
	}
	if err := <-read; err == nil {
		t.Error("a closed connection is read")
	}
	if err := c.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a deadline of a closed connection: %v", err)
	}
}

// crypto/tls ends the writing side with a deadline that is over: what was written before, its last
// word among it, arrives all the same.
func TestConnUnderTLS(t *testing.T) {
	pair := httptest.NewUnstartedServer(nil)
	pair.StartTLS()
	defer pair.Close()
	trust := pair.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName = "example.com"
	sent := make([]byte, 100<<10)
	for range 20 {
		c, peer := connPair(t)
		_ = peer.SetDeadline(time.Now().Add(30 * time.Second)) // what is lost is not waited for
		server, client := tls.Server(c, &tls.Config{Certificates: pair.TLS.Certificates}), tls.Client(peer, trust)
		wrote := make(chan error, 1)
		go func() {
			var errs []error
			for p := range slices.Chunk(sent, 1000) {
				_, err := server.Write(p)
				errs = append(errs, err)
			}
			errs = append(errs, server.CloseWrite())
			if _, err := c.Write([]byte("more")); !errors.Is(err, os.ErrDeadlineExceeded) {
				errs = append(errs, fmt.Errorf("after the last word: %v", err))
			}
			wrote <- errors.Join(errs...)
		}()
		all, err := io.ReadAll(client) // ends with TLS's last word alone
		if err != nil || len(all) != len(sent) {
			t.Fatalf("%d bytes of %d arrived: %v", len(all), len(sent), err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
}

// An error is returned by a later write.
func TestConnReturnsErrors(t *testing.T) {
	c, peer := connPair(t)
	_ = peer.Close()
	for end := time.Now().Add(30 * time.Second); ; {
		if _, err := c.Write([]byte("event")); err != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the error was not returned")
		}
	}
}

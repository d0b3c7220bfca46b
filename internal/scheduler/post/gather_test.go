package post

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Much that comes one by one is read together; what comes after a while of quiet is read at once.
func TestMuchIsReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces = 1000
		script := &scripted{t: t}
		for i := range pieces { // one each tenth of a millisecond
			script.at = append(script.at, time.Duration(i)*100*time.Microsecond)
		}
		script.at = append(script.at, 10*time.Second)
		script.began = time.Now()
		g := newGathering(script)
		got, small := 0, make([]byte, 3) // fewer bytes than one read gives: the rest is kept
		for got < pieces {
			n, err := g.Read(small)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		if got != pieces || script.reads > pieces/20 {
			t.Errorf("%d bytes in %d reads, want %d in at most %d", got, script.reads, pieces, pieces/20)
		}
		if _, err := g.Read(small); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(script.began) - 10*time.Second; late != 0 {
			t.Errorf("what came after a while of quiet is read after %v, want at once", late)
		}
	})
}

// scripted is a connection on which a byte comes at each of some times.
type scripted struct {
	net.Conn
	t     *testing.T
	began time.Time
	at    []time.Duration
	reads int
}

// Read waits for a byte and takes those that came.
func (s *scripted) Read(p []byte) (int, error) {
	s.reads++
	if d := time.Until(s.began.Add(s.at[0])); d > 0 {
		time.Sleep(d)
	}
	n := 0
	for n < len(p) && n < len(s.at) && time.Since(s.began) >= s.at[n] {
		n++
	}
	s.at = s.at[n:]
	return n, nil
}

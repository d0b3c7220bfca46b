// Package ports hands out TCP ports for programs that a test starts and that must be told their port by flag.
//
// Chapter: tests. In: nothing. Out: a port that nothing listens on and that no outgoing connection will take: it lies below the range from which the
// kernel chooses the local ports of connections, so another client cannot come between the choice and the program's own listen.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// Ports are handed out from this range; Linux takes local ports of connections from 32768 on unless told otherwise.
const first, last = 15000, 32000

// Free returns a TCP port of 127.0.0.1 that is free now. It fails after a thousand tries.
func Free() (int, error) {
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), rand.Uint64()))
	for range 1000 {
		port := first + random.IntN(last-first)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free TCP port between %d and %d on 127.0.0.1", first, last)
}

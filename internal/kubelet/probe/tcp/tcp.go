// Package tcp is the TCP probe: a port that accepts connections.
//
// In: a tcpSocket probe. Out: Success when the connection was made, whatever happens to it then.
package tcp

import (
	"context"
	"net"
	"strconv"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/probe/dial"
)

// Prober asks over TCP.
type Prober struct {
	Dial dial.Func // nil dials the network
}

// Probe connects and hangs up.
func (a Prober) Probe(ctx context.Context, t probe.Target) probe.Outcome {
	port, err := probe.Port(t.Probe.TCPSocket.Port, t.Container)
	if err != nil {
		return probe.Outcome{Err: err}
	}
	host := t.Probe.TCPSocket.Host
	if host == "" {
		host = t.PodIP
	}
	conn, err := a.Dial.Or(t.Timeout)(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return probe.Outcome{Result: probe.Failure, Output: err.Error()}
	}
	_ = conn.Close()
	return probe.Outcome{Result: probe.Success}
}

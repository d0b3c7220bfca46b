package tcp_test

import (
	"net"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/probe/probetest"
	"github.com/gantry-project/gantry/internal/kubelet/probe/tcp"
	"github.com/gantry-project/gantry/test/ports"
)

// A listener that closes at once is healthy, as is one that never speaks: the connection is the
// answer.
//
// row: PRB-10
func TestConformance(t *testing.T) {
	probetest.Run(t, probetest.Subject{
		Prober: tcp.Prober{},
		Skip:   []probetest.Condition{probetest.Failing, probetest.Unresponsive},
		Target: func(t *testing.T, c probetest.Condition) probe.Target {
			at := func(port int) probe.Target {
				return probe.Target{PodIP: "127.0.0.1",
					Probe: &v1.Probe{
						ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(port)}}}}
			}
			if c == probetest.Absent {
				return at(ports.Closed(t))
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					if c != probetest.Unresponsive {
						conn.Close()
					}
				}
			}()
			return at(l.Addr().(*net.TCPAddr).Port)
		},
	})
}

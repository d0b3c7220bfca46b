package breaker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gantry-project/gantry/testcluster"
)

// images are what the programs of some images do.
func images(c *testcluster.Cluster) {
	for image, program := range map[string]string{"no-program": "/bin/frob", "one-word": "frob --port 8080"} {
		reason := "executable file not found in $PATH"
		if program[0] == '/' {
			reason = "stat " + program + ": no such file or directory"
		}
		c.On(testcluster.Match{Image: image}, testcluster.Script{StartError: fmt.Sprintf("failed to create containerd "+
			"task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start "+
			"container process: error during container init: exec: %q: %s: unknown", program, reason)})
	}
	for image, main := range map[string]func(*testcluster.Process) int{
		"eats-memory":  func(p *testcluster.Process) int { p.OOMKilled(); return 137 },
		"web":          func(p *testcluster.Process) int { return answer(p, 0) },
		"slow-web":     func(p *testcluster.Process) int { return answer(p, 2*time.Second) },
		"ignores-term": func(p *testcluster.Process) int { <-p.Context.Done(); return 137 },
		"second-try": func(p *testcluster.Process) int {
			if p.Attempt == 0 {
				return 3
			}
			<-p.Context.Done()
			return 0
		},
	} {
		c.On(testcluster.Match{Image: image}, testcluster.Script{Main: main})
	}
}

// answer answers on port 8080 after a time: / is there, nothing else.
func answer(p *testcluster.Process, after time.Duration) int {
	if err := p.Listen(8080, func(conn net.Conn) {
		defer conn.Close()
		buf := make([]byte, 4096)
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-time.After(after):
		case <-p.Context.Done():
		}
		code := http.StatusNotFound
		if string(buf[:min(n, 6)]) == "GET / " {
			code = http.StatusOK
		}
		_, _ = io.WriteString(conn, fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: 0\r\nConnection: "+
			"close\r\n\r\n", code,
			http.StatusText(code))) // whoever asked has gone
	}); err != nil {
		return 1
	}
	select {
	case <-p.Context.Done():
	case <-p.Signal:
	}
	return 0
}

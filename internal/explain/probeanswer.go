package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// wrongAnswer are remedies for a probe whose server answers otherwise than the probe wants: the
// path of another probe of the container that works, or to ask less.
func wrongAnswer(in In, c *corev1.Container, f journal.Probed, port int) []Fix {
	var out []Fix
	own := probeOf(c, f.Probe)
	for _, other := range []string{"startup", "liveness", "readiness"} {
		p := probeOf(c, other)
		if p == nil || p.HTTPGet == nil || own == nil || p.HTTPGet.Path == own.HTTPGet.Path ||
			p.HTTPGet.Port != own.HTTPGet.Port || !probeWorks(in, f.Container, other) {
			continue
		}
		path := p.HTTPGet.Path
		out = append(out, editedProbe(in, f, fmt.Sprintf("ask path %s, as its %s probe does, which is answered well",
			path, other), func(x *corev1.Probe) { x.HTTPGet.Path = path }))
		break
	}
	out = append(out, editedProbe(in, f, fmt.Sprintf("ask only whether port %d is open (tcpSocket): what the program "+
		"answers then counts no more", port), func(x *corev1.Probe) {
		x.TCPSocket, x.HTTPGet = &corev1.TCPSocketAction{Port: x.HTTPGet.Port, Host: x.HTTPGet.Host}, nil
	}))
	return append(out, Fix{Description: "or correct the probe's path, or what the program answers there"})
}

// probeWorks reports whether the last that is known of a container's probe is that it succeeded.
func probeWorks(in In, container, probe string) bool {
	last, _, ok := newest[journal.Probed](in, func(f journal.Probed) bool {
		return f.Container == container && strings.EqualFold(f.Probe, probe)
	})
	return ok && last.Result == "success"
}

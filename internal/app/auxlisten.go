package app

import (
	"fmt"
	"net"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/cli"
)

// listenAuxiliary opens a port for who's health or metrics; an empty address is none. The usual
// port that another cluster on this machine has is no reason not to start: nil then, and the log
// says so. The error names the flag.
func listenAuxiliary(who, at, usual, flag string) (net.Listener, error) {
	if at == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", at)
	if err == nil {
		return l, nil
	}
	fix := fmt.Sprintf("choose another with --%s, or an empty one for none", flag)
	if at != usual {
		return nil, cli.WithFix(fmt.Errorf("%s: health and metrics: %w", who, err), "%s", fix)
	}
	klog.Background().Info("Health or metrics are not served: the port is taken", "of", who, "address", at, "fix", fix)
	return nil, nil
}

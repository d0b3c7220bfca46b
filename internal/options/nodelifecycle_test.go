package options

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// The flag has upstream's name and default; what cannot be is refused.
func TestNodeLifecycleFlag(t *testing.T) {
	for _, c := range []struct {
		args  []string
		grace time.Duration
		err   string
	}{{nil, 50 * time.Second, ""}, {[]string{"--node-monitor-grace-period=12s"}, 12 * time.Second, ""},
		{[]string{"--node-monitor-grace-period=0s"}, 0, "--node-monitor-grace-period=0s: want more than 0"}} {
		var n NodeLifecycle
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		n.Flags(f)
		if err := f.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		err := n.Check()
		if n.MonitorGracePeriod != c.grace || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: got %s and error %v, want %s and %q", c.args, n.MonitorGracePeriod, err, c.grace, c.err)
		}
	}
}
